"""The commands for accounts, sessions and passwords."""

from __future__ import annotations

import getpass
import sys
from argparse import Namespace
from typing import TypedDict

from imagehost_client import _wire
from imagehost_client._calls import Unset
from imagehost_client._cli.output import Console
from imagehost_client._cli.records import or_unset, page_size, print_record, print_table
from imagehost_client.client import Client
from imagehost_client.models import ManagedAccount, Session

LIMITS = (
    "quota_bytes",
    "api_per_minute",
    "api_per_hour",
    "api_per_day",
    "uploads_per_minute",
    "bulk_ids_per_minute",
)
"""The limits of an account, which are flags of `accounts create` and `accounts update`."""


class _Properties(TypedDict):
    role: str | Unset
    quota_bytes: int | Unset | None
    api_per_minute: int | Unset | None
    api_per_hour: int | Unset | None
    api_per_day: int | Unset | None
    uploads_per_minute: int | Unset | None
    bulk_ids_per_minute: int | Unset | None


def show_own_account(client: Client, _: Namespace, console: Console) -> None:
    """Print the account's usage, quota and rate limits."""
    print_record(console, client.account())


def login(client: Client, args: Namespace, console: Console) -> None:
    """Sign in, and print the session token."""
    console.print(client.sessions.create(args.username, _password()).token)


def register(client: Client, args: Namespace, console: Console) -> None:
    """Create an account by registration, and print its name."""
    console.print(client.accounts.create(args.username, _password()).name)


def logout(client: Client, _: Namespace, console: Console) -> None:
    """End the session."""
    client.sessions.delete()
    console.notify("signed out")


def change_password(client: Client, _: Namespace, console: Console) -> None:
    """Change the password, and end the other sessions."""
    current = _password("Current password: ")
    client.change_password(current, _password("New password: "))
    console.notify("the password is changed, and all other sessions have ended")


def list_sessions(client: Client, args: Namespace, console: Console) -> None:
    """List sessions."""
    print_table(console, args, client.sessions.list(per_page=page_size(args)), _session_row)


def delete_session(client: Client, args: Namespace, console: Console) -> None:
    """End a session."""
    console.confirm(f"End session {args.id}?", args.yes)
    client.sessions.delete(args.id)
    console.print(args.id)


def list_accounts(client: Client, args: Namespace, console: Console) -> None:
    """List accounts."""
    print_table(console, args, client.accounts.list(per_page=page_size(args)), _account_row)


def create_account(client: Client, args: Namespace, console: Console) -> None:
    """Create an account, and print its id."""
    console.print(str(client.accounts.create(args.username, _password(), **_properties(args)).id))


def show_account(client: Client, args: Namespace, console: Console) -> None:
    """Print an account as JSON."""
    print_record(console, client.accounts.get(args.id))


def update_account(client: Client, args: Namespace, console: Console) -> None:
    """Change an account, and print it."""
    suspended = or_unset(args.suspended)
    print_record(console, client.accounts.update(args.id, suspended=suspended, **_properties(args)))


def _properties(args: Namespace) -> _Properties:
    return {
        "role": or_unset(args.role),
        "quota_bytes": args.quota_bytes,
        "api_per_minute": args.api_per_minute,
        "api_per_hour": args.api_per_hour,
        "api_per_day": args.api_per_day,
        "uploads_per_minute": args.uploads_per_minute,
        "bulk_ids_per_minute": args.bulk_ids_per_minute,
    }


def _password(prompt: str = "Password: ") -> str:
    """Return a password: prompted for on a terminal, else the next line of standard input."""
    return getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")


def _session_row(session: Session) -> tuple[object, ...]:
    current = "current" if session.is_current else ""
    return session.id, _wire.rfc3339(session.last_used_at), session.ip_address, session.user_agent, current


def _account_row(account: ManagedAccount) -> tuple[object, ...]:
    state = "suspended" if account.suspended else "active"
    return account.id, account.role, state, account.usage.images, account.usage.bytes, account.name
