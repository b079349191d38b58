"""The commands `imagehost users` and `imagehost keys`.

No command takes a password or token as an argument: other users of the machine can see arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs
import click

from imagehost_core import AccountChanges, ImageHost, to_rfc3339, utc_now
from imagehost_core.errors import ValidationError
from imagehost_core.lists import MAX_PER_PAGE
from imagehost_core.models import ALL_SCOPES, Account, AccountLimits, ApiKey, Page, Role, Scope, own_limits
from imagehost_core.services.accounts import AccountProperties
from imagehost_core.settings import DURATION, SIZE, SettingsError
from imagehost_server.auth.passwords import hash_password, new_password, new_password_errors
from imagehost_server.cli.archives import json_option
from imagehost_server.cli.common import counted, data_option, one_line, open_host
from imagehost_server.cli.exports import export_user
from imagehost_server.http.body import parse_timestamp

F = TypeVar("F", bound=Callable[..., None])

RATE_LIMITS = tuple(attribute.name for attribute in attrs.fields(AccountLimits))
"""The names of the rate limits that can be overridden per account."""

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


@click.group()
def users() -> None:
    """Manage accounts."""


users.add_command(export_user)


def change_options(command: F) -> F:
    """Add the options for an account's role, quota and limits."""
    for option in (
        click.option(
            "--limit",
            "limits",
            multiple=True,
            metavar="LIMIT=NUMBER",
            help=f"Override a limit; may be repeated. LIMIT is {', '.join(RATE_LIMITS)}. 0 is unlimited; "
            "`default` removes the override.",
        ),
        click.option(
            "--quota",
            metavar="SIZE",
            help="Bytes of stored images, such as 10GiB. 0 is unlimited; `default` removes the override.",
        ),
        click.option(
            "--role", type=click.Choice([role.value for role in Role]), help="Operators manage all accounts."
        ),
    ):
        command = option(command)
    return command


@users.command("create")
@data_option
@click.argument("name")
@click.option("--prompt", is_flag=True, help="Prompt for a password instead of generating one.")
@change_options
def create_user(
    data: Path, name: str, prompt: bool, role: str | None, quota: str | None, limits: tuple[str, ...]
) -> None:
    """Create an account, and print its password once.

    \b
    Examples:
      imagehost users create anna --data /srv/imagehost
      imagehost users create anna --data /srv/imagehost --quota 10GiB --limit uploads_per_minute=60
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host:
        properties = _parse_properties(role, quota, limits)
        password = _prompt_password() if prompt else new_password()
        password_hash = hash_password(password)
        host.accounts.create(name, password_hash=password_hash, **properties)
    if not prompt:
        _print_password(name, password)


@users.command("update")
@data_option
@click.argument("name")
@change_options
@click.option(
    "--suspend/--unsuspend",
    "suspended",
    default=None,
    help="Refuse the account's tokens, end its sessions, hide its images and pause its webhooks; or restore "
    "all but the sessions.",
)
def update_user(
    data: Path,
    name: str,
    role: str | None,
    quota: str | None,
    limits: tuple[str, ...],
    suspended: bool | None,
) -> None:
    """Change an account's role, quota or limits, suspend it or end its suspension; print the result.

    \b
    Examples:
      imagehost users update anna --data /srv/imagehost --quota 10GiB --limit api_per_hour=0
      imagehost users update anna --data /srv/imagehost --suspend
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host:
        changes = cast("AccountChanges", _parse_properties(role, quota, limits))
        if suspended is not None:
            changes["suspended"] = suspended
        account = host.accounts.update(name, **changes)
    click.echo(f"role={account.role}")
    click.echo(f"suspended={'false' if account.suspended_at is None else 'true'}")
    for limit, value in own_limits(account).items():
        click.echo(f"{limit}={'default' if value is None else value}")


@users.command("list")
@data_option
@click.option(
    "--sort", type=click.Choice(["name", "created", "images", "bytes"]), default="name", show_default=True
)
@click.option(
    "--disk",
    is_flag=True,
    help="Measure derivatives and cached variants too, by reading the directories of all images.",
)
@json_option
def list_users(data: Path, sort: str, disk: bool, as_json: bool) -> None:
    """List all accounts: name, creation time, images, bytes, state, role.

    Those with the most images or bytes, and the newest, come first. The bytes are those of masters, which
    count against quotas; with --disk those of derivatives and variants besides.

    \b
    Examples:
      imagehost users list --data /srv/imagehost
      imagehost users list --data /srv/imagehost --disk --sort bytes --json
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host:
        rows = [_user_row(host, account, disk=disk) for account in host.accounts.iter()]
    rows.sort(key=lambda row: str(row["name"]))
    if sort != "name":
        rows.sort(key=_SORT_KEYS[sort], reverse=True)
    if as_json:
        click.echo(json.dumps({"accounts": rows}))
    else:
        click.echo("\n".join(_table(rows)))


@users.command("set-password")
@data_option
@click.argument("name")
@click.option("--generate", is_flag=True, help="Generate a password and print it, instead of prompting.")
def set_password(data: Path, name: str, generate: bool) -> None:
    """Change an account's password, and end all its sessions.

    \b
    Example:
      imagehost users set-password anna --data /srv/imagehost --generate
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host:
        host.accounts.get(name)  # an unknown name is an error before the prompt
        password = new_password() if generate else _prompt_password()
        host.accounts.set_password_hash(name, hash_password(password))
    if generate:
        _print_password(name, password)


@users.command("renew-signing-secret")
@data_option
@click.argument("name")
def renew_signing_secret(data: Path, name: str) -> None:
    """End all signed URLs of an account's images at once; new ones can be made.

    \b
    Example:
      imagehost users renew-signing-secret anna --data /srv/imagehost
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host:
        host.accounts.renew_signing_secret(name)


@users.command("delete")
@data_option
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete_user(data: Path, name: str, yes: bool) -> None:
    """Delete an account with all its images, albums, keys, sessions and webhooks.

    \b
    Example:
      imagehost users delete anna --data /srv/imagehost
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host:
        usage = host.accounts.usage(name)
        question = f"Delete {name} with {counted(usage.images, 'image')} ({counted(usage.bytes, 'byte')})?"
        if not yes:
            click.confirm(question, abort=True, err=True)
        deleted = host.accounts.delete(name)
    click.echo(
        f"Deleted {name} with {counted(deleted.images, 'image')} ({counted(deleted.bytes, 'byte')}), "
        f"{counted(deleted.albums, 'album')}, {counted(deleted.keys, 'API key')} and "
        f"{counted(deleted.webhooks, 'webhook')}"
    )


@click.group()
def keys() -> None:
    """Manage API keys."""


@keys.command("create")
@data_option
@click.option("--user", required=True, metavar="NAME", help="Account of the key.")
@click.option("--name", default="", help="Name of the key.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="Scope of the key; may be repeated.  [default: all scopes]",
)
@click.option(
    "--expires", metavar="WHEN", help="Expiry: an RFC 3339 timestamp, or a duration (30m, 12h, 90d)."
)
def create_key(data: Path, user: str, name: str, scopes: tuple[str, ...], expires: str | None) -> None:
    """Create an API key, and print only its token on standard output.

    \b
    Example:
      TOKEN=$(imagehost keys create --data /srv/imagehost --user anna --scope images:read --expires 90d)
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host:
        created = host.keys.create(
            owner=user,
            name=name,
            scopes=map(Scope, scopes) if scopes else ALL_SCOPES,
            expires_at=_parse_expiry(expires),
        )
    click.echo(created.token)


@keys.command("list")
@data_option
@click.option("--user", required=True, metavar="NAME", help="Account of the keys.")
def list_keys(data: Path, user: str) -> None:
    """List the API keys of an account: id, prefix, state, expiry, last use, scopes, name.

    \b
    Example:
      imagehost keys list --data /srv/imagehost --user anna
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host:
        cursor: str | None = None
        while True:
            page: Page[ApiKey] = host.keys.list(owner=user, per_page=MAX_PER_PAGE, cursor=cursor)
            for key in page:
                click.echo("\t".join(_key_columns(key, host.now())))
            cursor = page.next_cursor
            if cursor is None:
                return


@keys.command("delete")
@data_option
@click.option("--user", required=True, metavar="NAME", help="Account of the key.")
@click.argument("key_id", metavar="ID")
def revoke_key(data: Path, user: str, key_id: str) -> None:
    """Revoke an API key at once, in every process.

    \b
    Example:
      imagehost keys delete --data /srv/imagehost --user anna wZazIvgPBQv2FLH7
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host:
        host.keys.delete(key_id, owner=user)


def _prompt_password() -> str:
    password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if errors := new_password_errors(password):
        raise ValidationError(errors=errors)
    return password


def _print_password(name: str, password: str) -> None:
    click.echo(f"Password of {name} (shown only once):", err=True)
    click.echo(password)


UserRow = dict[str, str | int]
"""The columns of an account by name."""

_BYTES = ("bytes", "derivative_bytes", "variant_bytes")

_SORT_KEYS: dict[str, Callable[[UserRow], Any]] = {
    "created": lambda row: row["created_at"],
    "images": lambda row: row["images"],
    "bytes": lambda row: sum(int(row.get(name, 0)) for name in _BYTES),
}


def _user_row(host: ImageHost, account: Account, *, disk: bool) -> UserRow:
    usage = host.accounts.usage(account)
    row: UserRow = {
        "name": account.name,
        "created_at": to_rfc3339(account.created_at),
        "images": usage.images,
        "bytes": usage.bytes,
    }
    if disk:
        measured = host.maintenance.disk_usage(account.id)
        row |= {"derivative_bytes": measured.derivatives, "variant_bytes": measured.variants}
    return row | {"state": "suspended" if account.suspended_at else "active", "role": str(account.role)}


def _table(rows: Sequence[UserRow]) -> Iterator[str]:
    """Yield a line of the names of columns, and one of each row, aligned: numbers to the right."""
    lines = [tuple(rows[0]), *(tuple(map(str, row.values())) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, rows[0].values(), strict=True)
        yield "  ".join(
            cell.rjust(width) if isinstance(first, int) else cell.ljust(width) for cell, width, first in cells
        ).rstrip()


def _key_columns(key: ApiKey, now: datetime) -> tuple[str, ...]:
    expired = key.expires_at is not None and key.expires_at <= now
    state = "revoked" if key.revoked_at else "expired" if expired else "active"
    times = (to_rfc3339(time) if time else "never" for time in (key.expires_at, key.last_used_at))
    return key.id, key.prefix, state, *times, " ".join(sorted(key.scopes)), one_line(key.name)


def _parse_limit(text: str) -> tuple[str, int | None]:
    """Return the name and value of `LIMIT=NUMBER`; `None` for `default`.

    Raises:
        SettingsError: The name is unknown, or the value is not an integer.
    """
    name, _, value = text.partition("=")
    if name not in RATE_LIMITS or not (value == "default" or _NUMBER.fullmatch(value)):
        names = ", ".join(RATE_LIMITS)
        expected = f"LIMIT=NUMBER or LIMIT=default for --limit, where LIMIT is one of {names},"
        raise SettingsError(f"expected {expected} but received {text!r}")
    return name, None if value == "default" else int(value)


def _parse_quota(text: str) -> int | None:
    """Return a number of bytes; `None` for `default`.

    Raises:
        SettingsError: The text is neither a size nor `default`.
    """
    size = SIZE.without_unit(text)
    if text == "default":
        return None
    if isinstance(size, int) and size <= SIZE.most:
        return size
    if _NUMBER.fullmatch(text):
        return int(text)
    raise SettingsError(f"expected bytes, {SIZE.example}, or `default` for --quota but received {text!r}")


def _parse_properties(role: str | None, quota: str | None, limits: tuple[str, ...]) -> AccountProperties:
    changes: dict[str, object] = dict(map(_parse_limit, limits))
    if role is not None:
        changes["role"] = role
    if quota is not None:
        changes["quota_bytes"] = _parse_quota(quota)
    return cast("AccountProperties", changes)


def _parse_expiry(text: str | None) -> datetime | None:
    """Return the expiry that a timestamp or a duration from now gives; `None` without text.

    Raises:
        ValidationError: The text is neither.
    """
    duration = DURATION.without_unit(text)
    try:
        if isinstance(duration, int | float):
            return utc_now() + timedelta(seconds=duration)
        return parse_timestamp("--expires", text)
    except (ValidationError, OverflowError):
        expected = "a duration like 30m, 12h or 90d, or a timestamp like 2026-01-31T03:00:00Z"
        raise ValidationError(f"expected {expected} for --expires but received {text!r}") from None
