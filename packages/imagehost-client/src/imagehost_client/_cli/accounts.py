"""The commands for accounts, sessions, passwords and API keys."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, Unpack, get_args

import click
from attrs import fields

from imagehost_client._cli.connection import CommandContext, pass_context
from imagehost_client._cli.options import (
    Command,
    Group,
    choices,
    confirm_option,
    lists,
    or_unset,
    parse_expiry,
    parse_limit,
    prints_record,
    switch_options,
)
from imagehost_client._cli.output import Column, format_size, time_column
from imagehost_client._types import UNSET, AccountProperties
from imagehost_client.client import Client
from imagehost_client.models import Account, AccountLimits, ApiKey, Role, Scope, Session
from imagehost_client.pages import Pager

F = TypeVar("F", bound=Callable[..., Any])

SESSION_COLUMNS: tuple[Column[Session], ...] = (
    Column("id", lambda session: session.id),
    time_column("last used", lambda session: session.last_used_at),
    Column("IP address", lambda session: session.ip_address),
    Column("program", lambda session: session.user_agent, is_flexible=True),
    Column("current", lambda session: "current" if session.is_current else ""),
)
"""The columns of `sessions ls`."""

ACCOUNT_COLUMNS: tuple[Column[Account], ...] = (
    Column("id", lambda account: account.id),
    Column("role", lambda account: account.role),
    Column("state", lambda account: "suspended" if account.suspended else "active"),
    Column("images", lambda account: account.usage.images),
    Column("size", lambda account: account.usage.bytes, lambda account: format_size(account.usage.bytes)),
    Column("name", lambda account: account.name, is_flexible=True),
)
"""The columns of `accounts ls`."""

LIMITS = ("quota_bytes", *(field.name for field in fields(AccountLimits)))
"""The limits of an account, which are options of `accounts create` and `accounts update`."""


def property_options(command: F) -> F:
    """Add the options for the role and the limits of an account."""
    for name in reversed(LIMITS):
        command = click.option(
            f"--{name.replace('_', '-')}",
            type=parse_limit,
            metavar="N",
            default=UNSET,
            show_default=False,
            help="0 is unlimited, `default` is the host's.",
        )(command)
    role = choices(tuple(Role))
    return click.option("--role", type=role, callback=lambda _ctx, _option, value: or_unset(value))(command)


@click.command("account", cls=Command)
@prints_record
@pass_context
def show_own_account(context: CommandContext) -> None:
    """Print usage, quota and rate limits."""
    context.console.print_record(context.connect().account())


@click.command("register", cls=Command)
@click.argument("name")
@pass_context
def register(context: CommandContext, *, name: str) -> None:
    """Create an account, and print its name.

    The host must have open registration.
    """
    client = context.connect()
    context.console.print(client.accounts.create(name, read_secret("Password", is_new=True)).name)


@click.command("passwd", cls=Command)
@pass_context
def change_password(context: CommandContext) -> None:
    """Change your password, and end your other sessions.

    It requires a session: see login.
    """
    client = context.connect()
    current = read_secret("Current password")
    client.change_password(current, read_secret("New password", is_new=True))
    context.console.note("the password is changed, and all other sessions have ended")


@click.group("sessions", cls=Group)
def sessions() -> None:
    """Manage your sessions (with a session: see login)."""


@sessions.command("ls")
@lists(SESSION_COLUMNS)
def list_sessions(client: Client, *, per_page: int) -> Pager[Session]:
    """List your sessions."""
    return client.sessions.list(per_page=per_page)


@sessions.command("rm")
@click.argument("session", metavar="ID")
@confirm_option
@pass_context
def delete_session(context: CommandContext, *, session: str, yes: bool) -> None:
    """End a session."""
    context.console.confirm(f"End session {session}?", is_confirmed=yes)
    context.connect().sessions.delete(session)
    context.console.print(session)


@click.group("accounts", cls=Group)
def accounts() -> None:
    """Manage accounts (with an operator's session)."""


@accounts.command("ls")
@lists(ACCOUNT_COLUMNS)
def list_accounts(client: Client, *, per_page: int) -> Pager[Account]:
    """List all accounts."""
    return client.accounts.list(per_page=per_page)


@accounts.command("create")
@click.argument("name")
@property_options
@pass_context
def create_account(context: CommandContext, /, *, name: str, **properties: Unpack[AccountProperties]) -> None:
    """Create an account, and print its id."""
    client = context.connect()
    account = client.accounts.create(name, read_secret("Password", is_new=True), **properties)
    context.console.print(str(account.id))


@accounts.command("show")
@click.argument("account", metavar="ID")
@prints_record
@pass_context
def show_account(context: CommandContext, *, account: str) -> None:
    """Print an account as JSON."""
    context.console.print_record(context.connect().accounts.get(account))


@accounts.command("update")
@click.argument("account", metavar="ID")
@switch_options("suspended", ("--suspend", "Suspend it."), ("--resume", "End its suspension."))
@property_options
@prints_record
@pass_context
def update_account(
    context: CommandContext,
    /,
    *,
    account: str,
    suspended: bool | None,
    **properties: Unpack[AccountProperties],
) -> None:
    """Change an account, and print it."""
    changed = context.connect().accounts.update(account, suspended=or_unset(suspended), **properties)
    context.console.print_record(changed)


def read_secret(prompt: str, *, is_new: bool = False) -> str:
    """Return a password or a token: asked for on a terminal, else the next line of standard input.

    Args:
        prompt: What to ask for.
        is_new: Whether to ask twice.
    """
    if sys.stdin.isatty():
        secret: str = click.prompt(prompt, hide_input=True, err=True, confirmation_prompt=is_new)
        return secret
    line = sys.stdin.readline().strip("\r\n")
    if not line:
        raise click.UsageError(f"expected the {prompt.lower()} on standard input but received an empty line")
    return line


KEY_COLUMNS: tuple[Column[ApiKey], ...] = (
    Column("id", lambda key: key.id),
    Column("prefix", lambda key: key.prefix),
    Column("name", lambda key: key.name, is_flexible=True),
    Column("scopes", lambda key: ",".join(key.scopes), is_flexible=True),
)
"""The columns of `keys ls`."""

SCOPE = click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    shell_complete=lambda _ctx, _param, text: [name for name in get_args(Scope) if name.startswith(text)],
    help="A scope, such as images:read; may be repeated.",
)
EXPIRES = click.option("--expires", type=parse_expiry, metavar="WHEN", help="90d, 12h, or an ISO 8601 time.")


@click.group("keys", cls=Group)
def keys() -> None:
    """Manage API keys (with a session: see login)."""


@keys.command("ls")
@lists(KEY_COLUMNS)
def list_keys(client: Client, *, per_page: int) -> Pager[ApiKey]:
    """List your API keys."""
    return client.keys.list(per_page=per_page)


@keys.command("create")
@click.argument("name")
@SCOPE
@EXPIRES
@pass_context
def create_key(
    context: CommandContext, *, name: str, scopes: tuple[Scope, ...], expires: datetime | None
) -> None:
    """Create an API key, and print its token."""
    key = context.connect().keys.create(name, scopes=scopes or None, expires_at=expires)
    context.console.print(key.token)
    context.console.note("keep this token: the host never shows it again")


@keys.command("show")
@click.argument("key", metavar="ID")
@prints_record
@pass_context
def show_key(context: CommandContext, *, key: str) -> None:
    """Print an API key as JSON."""
    context.console.print_record(context.connect().keys.get(key))


@keys.command("update")
@click.argument("key", metavar="ID")
@click.option("--name", metavar="NAME")
@SCOPE
@EXPIRES
@prints_record
@pass_context
def update_key(
    context: CommandContext,
    *,
    key: str,
    name: str | None,
    scopes: tuple[Scope, ...],
    expires: datetime | None,
) -> None:
    """Change an API key, and print it."""
    record = context.connect().keys.update(
        key, name=or_unset(name), scopes=or_unset(scopes or None), expires_at=or_unset(expires)
    )
    context.console.print_record(record)


@keys.command("rm")
@click.argument("key", metavar="ID")
@confirm_option
@pass_context
def delete_key(context: CommandContext, *, key: str, yes: bool) -> None:
    """Revoke an API key."""
    context.console.confirm(f"Revoke key {key}?", is_confirmed=yes)
    context.console.print(context.connect().keys.delete(key).id)
