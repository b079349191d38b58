"""Account routes of the in-memory host."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial

from imagehost_client.errors import ConflictError, NotFoundError, UnauthorizedError, ValidationError
from imagehost_client.models import Role, rfc3339
from imagehost_client.testing._errors import ErrorCollector
from imagehost_client.testing._lists import paginate
from imagehost_client.testing._members import Parser, parse_boolean, parse_choice, parse_integer
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._state import LIMITS
from imagehost_client.testing._store import Record, current_time

MIN_PASSWORD = 8
"""The minimum length of a chosen password, in characters."""
_NAME = re.compile(r"[A-Za-z0-9][\w.@+-]{0,63}", re.ASCII)


def parse_username(name: str, value: object) -> str:
    """Return the name of a new account."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValidationError(f"expected 1 to 64 letters, digits or ._@+- for {name} but received {value!r}")
    return value


def parse_secret(name: str, value: object) -> str:
    """Return a password of any length; the error does not contain it."""
    if not isinstance(value, str):
        raise ValidationError(f"expected text for {name} but received another type")
    return value


def parse_new_password(name: str, value: object) -> str:
    """Return a new password; the error does not contain it."""
    password = parse_secret(name, value)
    if len(password) < MIN_PASSWORD:
        raise ValidationError(
            f"expected at least {MIN_PASSWORD} characters for {name} but received {len(password)}"
        )
    return password


def parse_limit(name: str, value: object) -> int | None:
    """Return a limit: an integer from 0, or `None` for the host's."""
    return None if value is None else parse_integer(name, value, minimum=0)


def parse_limits(name: str, value: object) -> Record:
    """Return the given limits of an account; all errors are reported together."""
    if not isinstance(value, dict):
        raise ValidationError(f"expected an object for {name} but received {value!r}")
    errors = ErrorCollector()
    limits = {
        limit: errors.attempt(parse_limit, f"{name}.{limit}", value[limit])
        for limit in LIMITS
        if limit in value
    }
    errors.raise_all()
    return limits


PROPERTIES: dict[str, Parser] = {
    "role": partial(parse_choice, choices=tuple(Role)),
    "limits": parse_limits,
    "quota_bytes": parse_limit,
}
"""The members of an account that operators set."""

NEW_ACCOUNT: dict[str, Parser] = {"username": parse_username, "password": parse_new_password, **PROPERTIES}
"""The members of a new account."""

CHANGES: dict[str, Parser] = {**PROPERTIES, "suspended": parse_boolean}
"""The members of an account that operators change."""


def get_account(request: FakeRequest) -> object:
    """Return the account with its usage, quota and rate limits."""
    owner = request.grant.account
    usage, quota = usage_of(request, owner), request.host.quota_of(owner)
    reset = rfc3339(current_time().replace(second=0, microsecond=0) + timedelta(minutes=1))
    windows = request.host.rate_windows(owner)
    return {
        "account": account_summary(request, owner),
        "usage": usage,
        "quota": {"bytes": quota, "remaining": max(0, quota - usage["bytes"]) if quota else None},
        "limits": windows or [{"name": "api_per_minute", "limit": 60, "remaining": 59, "reset": reset}],
    }


def create_account(request: FakeRequest) -> object:
    """Create an account, as an operator or by registration."""
    host = request.host
    members = request.members(NEW_ACCOUNT, required={"username", "password"})
    if not request.grant.account and set(members) & set(PROPERTIES):
        raise UnauthorizedError("expected a known token for Authorization but received none")
    request.errors.raise_all()
    name = members.pop("username")
    if host.find_name(name) is not None:
        raise ConflictError(f"expected a name that is not taken for username but received {name!r}")
    host.passwords[name] = members.pop("password")
    host.add_account(name)
    record = host.account(name)
    _apply(record, members)
    return managed_account(request, record)


def list_accounts(request: FakeRequest) -> object:
    """List all accounts."""
    page = paginate(request, "accounts", lambda _: True)
    return {**page, "accounts": [managed_account(request, record) for record in page["accounts"]]}


def get_managed_account(request: FakeRequest) -> object:
    """Return an account."""
    return managed_account(request, _find(request))


def update_account(request: FakeRequest) -> object:
    """Change an account, unless no active operator would remain."""
    record = request.errors.attempt(_find, request)
    changes = request.members(CHANGES)
    request.errors.raise_all()
    assert record is not None
    changed = {**record, **changes}
    accounts = [row.record for row in request.table("accounts").rows.values()]
    if not any(_is_active_operator(changed if one is record else one) for one in accounts):
        raise ConflictError(
            f"expected another operator that is not suspended but {record['name']} is the last"
        )
    _apply(record, changes)
    if record["suspended"]:
        request.host.end_sessions(record["name"])
    return managed_account(request, record)


def account_summary(request: FakeRequest, name: str) -> Record:
    """Return the name and role of an account, and when it was created."""
    record = request.host.account(name)
    return {member: record[member] for member in ("name", "role", "created_at")}


def managed_account(request: FakeRequest, record: Record) -> Record:
    """Return an account's record for operators, with its usage."""
    return {**record, "usage": usage_of(request, record["name"])}


def _find(request: FakeRequest) -> Record:
    row = request.table("accounts").rows.get(request.ids[0])
    if row is None:
        raise NotFoundError(f"expected the id of an account but received {request.ids[0]!r}")
    return row.record


def _apply(record: Record, changes: Record) -> None:
    """Change the members of an account; limits that are left out keep their values."""
    record |= {**changes, "limits": record["limits"] | changes.get("limits", {})}


def _is_active_operator(record: Record) -> bool:
    return record["role"] == Role.OPERATOR and not record["suspended"]


def usage_of(request: FakeRequest, owner: str) -> Record:
    images, albums = (
        [row for row in request.table(name).rows.values() if row.owner == owner]
        for name in ("images", "albums")
    )
    return {
        "bytes": sum(row.record["size"] for row in images),
        "images": len(images),
        "albums": len(albums),
    }
