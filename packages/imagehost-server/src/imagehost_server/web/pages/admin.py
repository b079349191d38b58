"""The page `/admin` for operators: totals of the host, its latest errors, and its accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from attrs import evolve
from litestar import Response
from litestar.params import FromPath
from prometheus_client.metrics_core import Metric

from imagehost_core.authorization import SessionRequirement, authorize
from imagehost_core.cache_purges import OVERDUE_AFTER
from imagehost_core.errors import (
    BY_CODE,
    ConflictError,
    FieldError,
    ImageHostError,
    ValidationError,
    quote_value,
)
from imagehost_core.ids import AccountId, parse_account_id
from imagehost_core.limits import account_key
from imagehost_core.models import Account, AccountUsage, Role, Webhook, own_limits
from imagehost_core.observer import PoolLoad
from imagehost_core.settings import SIZE
from imagehost_core.uploads import BOOLEANS
from imagehost_server._executors import Standing
from imagehost_server.auth.passwords import hash_password, new_password, new_password_errors
from imagehost_server.metrics import IMAGE_LOOKUPS, QUEUE_LENGTH, QUEUE_REJECTIONS, WORKERS, Family
from imagehost_server.web.forms import read_choice
from imagehost_server.web.page import page
from imagehost_server.web.presentation import size_text
from imagehost_server.web.redirects import see_other
from imagehost_server.web.request import WebRequest

ACCOUNTS_PER_PAGE = 50
BY_SIZE = "bytes"
"""The order of the largest accounts, of which the page lists `ACCOUNTS_PER_PAGE`."""
MAX_ERRORS = 30
"""The number of errors that the page lists: the newest."""
TIERS = ("client", "memory", "disk", "coalesced", "render", "master")
"""Where images came from, as the metrics count them: the fastest first."""
_CODES = {kind.status: code for code, kind in BY_CODE.items() if kind.status >= 500}
QUOTA = "quota_bytes"
LIMITS = ("api_per_minute", "api_per_hour", "api_per_day", "uploads_per_minute", QUOTA)
"""The limits that the form of an account has: an empty one is the host's, and 0 is unlimited."""


@page("/admin", sign_in=True)
async def admin(request: WebRequest) -> Response[Any]:
    """Show the totals and the accounts."""
    _require_operator(request)
    return await _show(request)


@page("/admin/accounts", method="POST", sign_in=True)
async def create_account(request: WebRequest) -> Response[Any]:
    """Create an account, with a random password unless one is given, and show that once."""
    operator = _require_operator(request)
    form = request.fields
    password = form.get("password", "") or new_password()
    if errors := new_password_errors(password):
        return await _show(request, failure=ValidationError(errors=errors))
    password_hash = await request.executors.passwords.run(
        Standing.KNOWN, (account_key(operator.id), ""), hash_password, password
    )
    try:
        account = await request.executors.database.run(
            lambda: request.host.accounts.create(
                form.get("name", "").strip(), password_hash=password_hash, operator=operator
            )
        )
    except (ValidationError, ConflictError) as error:
        # The texts have `name` for albums and keys, which take other names.
        named = [evolve(each, name="username") if each.name == "name" else each for each in error.errors]
        return await _show(request, failure=type(error)(errors=named))
    return await _show(request, created=(account.name, password))


@page("/admin/accounts/{account_id:str}", sign_in=True)
async def account(request: WebRequest, account_id: FromPath[str]) -> Response[Any]:
    """Show an account."""
    _require_operator(request)
    return await _show_account(request, account_id)


@page("/admin/accounts/{account_id:str}", method="POST", sign_in=True)
async def update_account(request: WebRequest, account_id: FromPath[str]) -> Response[Any]:
    """Change the role, the limits or the suspension of an account."""
    operator = _require_operator(request)
    form = request.fields
    try:
        changes: dict[str, Any] = {name: _parse_limit(name, form[name]) for name in LIMITS if name in form}
        changes |= {"role": form["role"]} if "role" in form else {}
        changes |= {"suspended": read_choice(form, "suspended", BOOLEANS)} if "suspended" in form else {}
        await request.executors.database.run(
            lambda: request.host.accounts.update(parse_account_id(account_id), operator=operator, **changes)
        )
    except (ValidationError, ConflictError) as error:
        return await _show_account(request, account_id, failure=error)
    return see_other(request, f"/admin/accounts/{account_id}", "saved")


@page("/admin/accounts/{account_id:str}/password", method="POST", sign_in=True)
async def reset_password(request: WebRequest, account_id: FromPath[str]) -> Response[Any]:
    """Replace the password of an account by a random one, end its sessions, and show the password once."""
    operator = _require_operator(request)
    password = new_password()
    key = (account_key(operator.id), "")
    password_hash = await request.executors.passwords.run(Standing.KNOWN, key, hash_password, password)
    await request.executors.database.run(
        lambda: request.host.accounts.set_password_hash(
            parse_account_id(account_id), password_hash, operator=operator
        )
    )
    return await _show_account(request, account_id, password=password)


@page("/admin/accounts/{account_id:str}/delete", method="POST", sign_in=True)
async def delete_account(request: WebRequest, account_id: FromPath[str]) -> Response[Any]:
    """Delete an account with its data, if its name was typed, and show the others."""
    operator, accounts = _require_operator(request), request.host.accounts
    shown = await request.executors.database.run(accounts.get, parse_account_id(account_id))
    typed = request.fields.get("confirm", "").strip()
    try:
        if typed != shown.name:
            raise ValidationError.of("confirm", "the name of the account", quote_value(typed))
        await request.executors.slow_writes.run(lambda: accounts.delete(shown.id, operator=operator))
    except (ValidationError, ConflictError) as error:
        return await _show_account(request, account_id, failure=error)
    return see_other(request, "/admin", "deleted")


def _require_operator(request: WebRequest) -> Account:
    """Return the account of the session, or raise ForbiddenError unless it is an operator's."""
    return authorize(request.auth, SessionRequirement.OPERATOR)


def _parse_limit(name: str, text: str) -> int | None:
    """Return a limit, or `None` for the host's.

    Raises:
        ValidationError: It is neither empty nor an integer, nor for the quota a size such as `10 GB`.
    """
    text = text.strip()
    if not text:
        return None
    value = SIZE.without_unit(text) if name == QUOTA else text
    if isinstance(value, int):
        return value
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise ValidationError(errors=[FieldError(name, "nothing or an integer", quote_value(text))])
    return int(text)


def _limit_text(name: str, value: int | None) -> str:
    """Return a limit as `_parse_limit` reads it: a size in the largest unit of which it is a whole number."""
    if not value or name != QUOTA:
        return "" if value is None else str(value)
    units = sorted(SIZE.units.items(), key=lambda item: item[1], reverse=True)
    return next(f"{value // size} {unit}" for unit, size in units if value % size == 0)


async def _show(
    request: WebRequest,
    *,
    failure: ImageHostError | None = None,
    created: tuple[str, str] | None = None,
) -> Response[Any]:
    host, cursor = request.host, request.query_params.get("cursor")
    is_by_size = request.query_params.get("sort") == BY_SIZE

    def read() -> tuple[Sequence[Account], str | None, dict[AccountId, AccountUsage]]:
        page = None if is_by_size else host.accounts.list(per_page=ACCOUNTS_PER_PAGE, cursor=cursor)
        listed = host.accounts.list_largest(ACCOUNTS_PER_PAGE) if page is None else page.items
        usage = {account.id: host.accounts.usage(account) for account in listed}
        return listed, None if page is None else page.next_cursor, usage

    listed, next_cursor, usage = await request.executors.database.run(read)
    disabled = await request.executors.database.run(_read_disabled_webhooks, request)
    statistics = await request.executors.metrics.run(host.maintenance.statistics)
    database = statistics.database
    longest_wait = await request.executors.database.run(host.cache_purges.longest_wait)
    request.recorder.fold()
    counted = await request.executors.metrics.run(request.recorder.counted)
    errors = await request.executors.metrics.run(request.recorder.recent_errors)
    return request.render(
        "admin.html",
        accounts=[
            (account, usage[account.id], size_text(usage[account.id].bytes, request.texts))
            for account in listed
        ],
        created=created,
        cursor=cursor,
        database=database,
        disabled_webhooks=disabled,
        errors=[(error, _CODES.get(error.status, "INTERNAL_ERROR")) for error in errors[:MAX_ERRORS]],
        has_overdue_purges=longest_wait > OVERDUE_AFTER,
        oldest_due=round(database.oldest_due_seconds),
        disk_free=size_text(statistics.disk_free_bytes, request.texts),
        disk_used=statistics.disk_bytes - statistics.disk_free_bytes,
        failure=failure,
        masters=size_text(database.master_bytes, request.texts),
        is_by_size=is_by_size,
        next_cursor=next_cursor,
        rejections=_sum(counted, QUEUE_REJECTIONS),
        statistics=statistics,
        tiers=_tiers(counted),
        workers=_pool_load(counted),
    )


def _sum(counted: Mapping[str, Metric], family: Family, *labels: str) -> int:
    """Return the sum of the samples of a family that have these values of labels."""
    samples = counted[family.name].samples if family.name in counted else ()
    return round(sum(sample.value for sample in samples if {*labels} <= {*sample.labels.values()}))


def _pool_load(counted: Mapping[str, Metric]) -> PoolLoad:
    """Return the load of the image workers of all processes."""
    return PoolLoad(
        _sum(counted, WORKERS, "busy"), _sum(counted, WORKERS, "idle"), _sum(counted, QUEUE_LENGTH)
    )


def _tiers(counted: Mapping[str, Metric]) -> list[tuple[str, int, float]]:
    """Return the images that came from each tier: name, number, and share of all in percent."""
    counts = {tier: _sum(counted, IMAGE_LOOKUPS, tier) for tier in TIERS}
    total = sum(counts.values())
    return [(tier, count, 100 * count / total if total else 0.0) for tier, count in counts.items()]


def _read_disabled_webhooks(request: WebRequest) -> list[tuple[Account, str, Webhook]]:
    """Return webhooks that were disabled because they failed, with their accounts and origins.

    The rest of a URL may be a secret of the account.
    """
    host = request.host
    return [
        (host.accounts.get(webhook.account_id), _without_secrets(webhook.url), webhook)
        for webhook in host.webhooks.list_disabled()
    ]


def _without_secrets(url: str) -> str:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


async def _show_account(
    request: WebRequest, account_id: str, *, failure: ImageHostError | None = None, password: str = ""
) -> Response[Any]:
    host = request.host

    def read() -> tuple[Account, AccountUsage]:
        shown = host.accounts.get(parse_account_id(account_id))
        return shown, host.accounts.usage(shown)

    shown, usage = await request.executors.database.run(read)
    return request.render(
        "account.html",
        account=shown,
        failure=failure,
        limits={name: _limit_text(name, own_limits(shown)[name]) for name in LIMITS},
        password=password,
        roles=[role.value for role in Role],
        usage=usage,
        used=size_text(usage.bytes, request.texts),
    )
