"""The commands for API keys, which require a session."""

from __future__ import annotations

from datetime import datetime
from typing import get_args

import click

from imagehost_client._cli.context import CommandContext, pass_context
from imagehost_client._cli.global_options import Group
from imagehost_client._cli.options import confirm_option, list_options, or_unset, page_size, parse_expiry
from imagehost_client._cli.output import Column
from imagehost_client.models import ApiKey, Scope

COLUMNS: tuple[Column[ApiKey], ...] = (
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
@list_options
@pass_context
def list_keys(context: CommandContext, *, limit: int | None, as_json: bool) -> None:
    """List your API keys."""
    records = context.connect().keys.list(per_page=page_size(limit))
    context.console.print_list(records, COLUMNS, limit=limit, as_json=as_json)


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
@pass_context
def show_key(context: CommandContext, *, key: str) -> None:
    """Print an API key as JSON."""
    context.console.print_record(context.connect().keys.get(key))


@keys.command("update")
@click.argument("key", metavar="ID")
@click.option("--name", metavar="NAME")
@SCOPE
@EXPIRES
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
