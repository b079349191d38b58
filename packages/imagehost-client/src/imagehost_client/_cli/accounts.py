"""The commands for accounts, sessions and passwords."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click

from imagehost_client import _wire
from imagehost_client._cli.context import CommandContext, pass_context
from imagehost_client._cli.global_options import Command, Group
from imagehost_client._cli.options import (
    choices,
    confirm_option,
    list_options,
    or_unset,
    page_size,
    parse_limit,
    switch_options,
)
from imagehost_client._cli.output import Column, format_size, format_time
from imagehost_client._types import UNSET, Unset
from imagehost_client.models import ManagedAccount, Role, Session

F = TypeVar("F", bound=Callable[..., Any])

SESSION_COLUMNS: tuple[Column[Session], ...] = (
    Column("id", lambda session: session.id),
    Column(
        "last used",
        lambda session: _wire.rfc3339(session.last_used_at),
        lambda session: format_time(session.last_used_at),
    ),
    Column("IP address", lambda session: session.ip_address),
    Column("program", lambda session: session.user_agent, is_flexible=True),
    Column("current", lambda session: "current" if session.is_current else ""),
)
"""The columns of `sessions ls`."""

ACCOUNT_COLUMNS: tuple[Column[ManagedAccount], ...] = (
    Column("id", lambda account: account.id),
    Column("role", lambda account: account.role),
    Column("state", lambda account: "suspended" if account.suspended else "active"),
    Column("images", lambda account: account.usage.images),
    Column("size", lambda account: account.usage.bytes, lambda account: format_size(account.usage.bytes)),
    Column("name", lambda account: account.name, is_flexible=True),
)
"""The columns of `accounts ls`."""

LIMITS = (
    "quota_bytes",
    "api_per_minute",
    "api_per_hour",
    "api_per_day",
    "uploads_per_minute",
    "bulk_ids_per_minute",
)
"""The limits of an account, which are options of `accounts create` and `accounts update`."""


class Properties(TypedDict):
    """The properties of an account that operators set."""

    role: str | Unset
    quota_bytes: int | Unset | None
    api_per_minute: int | Unset | None
    api_per_hour: int | Unset | None
    api_per_day: int | Unset | None
    uploads_per_minute: int | Unset | None
    bulk_ids_per_minute: int | Unset | None


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
    return click.option("--role", type=choices(tuple(map(str, Role))))(command)


@click.command("account", cls=Command)
@pass_context
def show_own_account(context: CommandContext) -> None:
    """Print usage, quota and rate limits."""
    context.console.print_record(context.connect().account())


@click.command("register", cls=Command)
@click.argument("username")
@pass_context
def register(context: CommandContext, *, username: str) -> None:
    """Create an account, and print its name.

    The host must have open registration.
    """
    client = context.connect()
    context.console.print(client.accounts.create(username, read_secret("Password", is_new=True)).name)


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
@list_options
@pass_context
def list_sessions(context: CommandContext, *, limit: int | None, as_json: bool) -> None:
    """List your sessions."""
    records = context.connect().sessions.list(per_page=page_size(limit))
    context.console.print_list(records, SESSION_COLUMNS, limit=limit, as_json=as_json)


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
@list_options
@pass_context
def list_accounts(context: CommandContext, *, limit: int | None, as_json: bool) -> None:
    """List all accounts."""
    records = context.connect().accounts.list(per_page=page_size(limit))
    context.console.print_list(records, ACCOUNT_COLUMNS, limit=limit, as_json=as_json)


@accounts.command("create")
@click.argument("username")
@property_options
@pass_context
def create_account(
    context: CommandContext, /, *, username: str, role: str | None, **limits: int | Unset | None
) -> None:
    """Create an account, and print its id."""
    client = context.connect()
    password = read_secret("Password", is_new=True)
    account = client.accounts.create(username, password, **_properties(role, limits))
    context.console.print(str(account.id))


@accounts.command("show")
@click.argument("account", metavar="ID")
@pass_context
def show_account(context: CommandContext, *, account: str) -> None:
    """Print an account as JSON."""
    context.console.print_record(context.connect().accounts.get(account))


@accounts.command("update")
@click.argument("account", metavar="ID")
@switch_options("suspended", ("--suspend", "Suspend it."), ("--resume", "End its suspension."))
@property_options
@pass_context
def update_account(
    context: CommandContext,
    /,
    *,
    account: str,
    suspended: bool | None,
    role: str | None,
    **limits: int | Unset | None,
) -> None:
    """Change an account, and print it."""
    record = context.connect().accounts.update(
        account, suspended=or_unset(suspended), **_properties(role, limits)
    )
    context.console.print_record(record)


def read_secret(prompt: str, *, is_new: bool = False) -> str:
    """Return a password or a token: asked for on a terminal, else the next line of standard input.

    Args:
        prompt: What to ask for.
        is_new: Whether to ask twice.
    """
    if sys.stdin.isatty():
        secret: str = click.prompt(prompt, hide_input=True, err=True, confirmation_prompt=is_new)
        return secret
    return sys.stdin.readline().rstrip("\r\n")


def _properties(role: str | None, limits: dict[str, int | Unset | None]) -> Properties:
    return {
        "role": or_unset(role),
        "quota_bytes": limits["quota_bytes"],
        "api_per_minute": limits["api_per_minute"],
        "api_per_hour": limits["api_per_hour"],
        "api_per_day": limits["api_per_day"],
        "uploads_per_minute": limits["uploads_per_minute"],
        "bulk_ids_per_minute": limits["bulk_ids_per_minute"],
    }
