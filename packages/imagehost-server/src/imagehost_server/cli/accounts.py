"""The commands `imagehost users` and `imagehost keys`: what the operator does for accounts.

No password and no token is ever taken from the words of a command: other users of the machine see those.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import attrs
import click

from imagehost_core import ImageHost
from imagehost_core._util.clock import to_rfc3339, utc_now
from imagehost_core.models import ALL_SCOPES, Account, ApiKey, LimitOverrides, Page, Scope
from imagehost_core.pagination import MAX_PER_PAGE, parse_page_request
from imagehost_core.settings.loader import SettingsError
from imagehost_server.api.schemas import parse_timestamp
from imagehost_server.auth.passwords import hash_password, new_password, require_new_password
from imagehost_server.cli.common import data_option, open_host

LIMITS = tuple(attribute.name for attribute in attrs.fields(LimitOverrides))
"""The limits that an account may have of its own."""

_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_DURATION = re.compile(r"(?P<number>[0-9]{1,5})(?P<unit>[mhd])", re.ASCII)


@click.group()
def users() -> None:
    """Accounts."""


@users.command("create")
@data_option
@click.argument("name")
@click.option("--ask", is_flag=True, help="Ask for a password instead of making one.")
def create_user(data: Path, name: str, ask: bool) -> None:
    """Make an account, and print its password once."""
    with open_host(data) as host:
        password = _password(ask)
        host.accounts.create(name, password_hash=hash_password(password))
    _show(name, password, asked=ask)


@users.command("list")
@data_option
def list_users(data: Path) -> None:
    """Print all accounts: name, when it was made, images, bytes, and whether it is suspended."""
    with open_host(data) as host:
        for account in host.accounts.list():
            click.echo("\t".join(_user(host, account)))


@users.command("set-password")
@data_option
@click.argument("name")
@click.option("--generate", is_flag=True, help="Make a password and print it, instead of asking for one.")
def set_password(data: Path, name: str, generate: bool) -> None:
    """Give an account another password, and end all its sessions."""
    with open_host(data) as host:
        host.accounts.get(name)
        password = _password(not generate)
        host.accounts.set_password_hash(name, hash_password(password))
    _show(name, password, asked=not generate)


@users.command("suspend")
@data_option
@click.argument("name")
def suspend_user(data: Path, name: str) -> None:
    """Refuse an account's tokens from now on, and end its sessions. Its pictures are served as before."""
    with open_host(data) as host:
        host.accounts.set_suspended(name, True)


@users.command("resume")
@data_option
@click.argument("name")
def resume_user(data: Path, name: str) -> None:
    """Take the keys of a suspended account again."""
    with open_host(data) as host:
        host.accounts.set_suspended(name, False)


@users.command("set-limits")
@data_option
@click.argument("name")
@click.argument("limits", nargs=-1, required=True, metavar="LIMIT=NUMBER...")
def set_limits(data: Path, name: str, limits: tuple[str, ...]) -> None:
    """Give an account limits of its own, and print those that it has.

    LIMIT is api_per_minute, api_per_hour, api_per_day, uploads_per_minute or quota_bytes. 0 stands for no
    limit, `default` for that of the host. What is not named stays.
    """
    with open_host(data) as host:
        had = host.accounts.get(name).limits
        account = host.accounts.set_limits(name, attrs.evolve(had, **dict(map(_limit, limits))))
    for limit, value in attrs.asdict(account.limits).items():
        click.echo(f"{limit}={'default' if value is None else value}")


@users.command("delete")
@data_option
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask whether it is meant.")
def delete_user(data: Path, name: str, yes: bool) -> None:
    """Delete an account with all its images, albums, keys, sessions and webhooks, for good."""
    with open_host(data) as host:
        usage = host.accounts.usage(name)
        question = f"Delete {name} with {usage.images} images ({usage.bytes} bytes) for good?"
        if not yes:
            click.confirm(question, abort=True, err=True)
        host.accounts.delete(name)


@click.group()
def keys() -> None:
    """API keys."""


@keys.command("create")
@data_option
@click.option("--user", required=True, metavar="NAME", help="Whose key.")
@click.option("--name", default="", help="What to call it.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What it may do, once for each; all, unless given.",
)
@click.option("--expires", metavar="WHEN", help="A time of RFC 3339, or a while from now: 30m, 12h, 90d.")
def create_key(data: Path, user: str, name: str, scopes: tuple[str, ...], expires: str | None) -> None:
    """Make an API key, and print its token, alone, on standard output."""
    wanted = map(Scope, scopes) if scopes else ALL_SCOPES
    with open_host(data) as host:
        made = host.keys.create(owner=user, name=name, scopes=wanted, expires_at=_expiry(expires))
    click.echo(made.token)


@keys.command("list")
@data_option
@click.option("--user", required=True, metavar="NAME", help="Whose keys.")
def list_keys(data: Path, user: str) -> None:
    """Print an account's keys: id, the token's beginning, state, end, last use, scopes, name."""
    with open_host(data) as host:
        cursor: str | None = None
        while True:
            request = parse_page_request(None, str(MAX_PER_PAGE), cursor)
            page: Page[ApiKey] = host.keys.list(owner=user, page=request)
            for key in page:
                click.echo("\t".join(_key(key)))
            cursor = page.next_cursor
            if cursor is None:
                return


@keys.command("revoke")
@data_option
@click.option("--user", required=True, metavar="NAME", help="Whose key.")
@click.argument("key_id", metavar="ID")
def revoke_key(data: Path, user: str, key_id: str) -> None:
    """Stop a key for good, at once and in every process."""
    with open_host(data) as host:
        host.keys.revoke(key_id, owner=user)


def _password(ask: bool) -> str:
    if not ask:
        return new_password()
    password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    require_new_password(password)
    return password


def _show(name: str, password: str, *, asked: bool) -> None:
    if not asked:
        click.echo(f"The password of {name}, shown this once:", err=True)
        click.echo(password)


def _user(host: ImageHost, account: Account) -> tuple[str, ...]:
    usage = host.accounts.usage(account.name)
    state = "suspended" if account.suspended_at else "active"
    return account.name, to_rfc3339(account.created_at), str(usage.images), str(usage.bytes), state


def _key(key: ApiKey) -> tuple[str, ...]:
    ended = key.expires_at is not None and key.expires_at <= utc_now()
    state = "revoked" if key.revoked_at else "expired" if ended else "active"
    times = (to_rfc3339(time) if time else "never" for time in (key.expires_at, key.last_used_at))
    return key.id, key.prefix, state, *times, " ".join(sorted(key.scopes)), key.name


def _limit(text: str) -> tuple[str, int | None]:
    name, _, value = text.partition("=")
    if name not in LIMITS or not (value == "default" or (value.isascii() and value.isdecimal())):
        raise SettingsError(f"expected one of {', '.join(LIMITS)}, = and a number but received {text!r}")
    return name, None if value == "default" else int(value)


def _expiry(text: str | None) -> datetime | None:
    """Return when a key ends, told as a time or as a while from now.

    Raises:
        ValidationError: It is neither.
    """
    while_ = _DURATION.fullmatch(text or "")
    if while_ is None:
        return parse_timestamp("--expires", text)
    return utc_now() + int(while_["number"]) * _UNITS[while_["unit"]]
