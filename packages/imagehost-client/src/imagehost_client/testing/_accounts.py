"""Account routes of the in-memory host."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from imagehost_client._wire import rfc3339
from imagehost_client.errors import ConflictError, NotFoundError, ValidationError
from imagehost_client.testing._members import Parser
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import Record

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


NEW_ACCOUNT: dict[str, Parser] = {"username": parse_username, "password": parse_new_password}
"""The members of a new account."""


def get_account(request: FakeRequest) -> object:
    """Return the account with its usage, quota and rate limits."""
    owner = request.grant.account
    images, albums = (
        [row for row in request.table(name).rows.values() if row.owner == owner]
        for name in ("images", "albums")
    )
    reset = rfc3339(datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1))
    return {
        "account": account_summary(request, owner),
        "usage": {
            "bytes": sum(row.record["size"] for row in images),
            "images": len(images),
            "albums": len(albums),
        },
        "quota": {"bytes": None, "remaining": None},
        "limits": [{"name": "api_per_minute", "limit": 60, "remaining": 59, "reset": reset}],
    }


def create_account(request: FakeRequest) -> object:
    """Create an account, where registration is open."""
    host = request.host
    if not host.registration:
        raise NotFoundError(f"expected a route of the API but received {request.path}")
    members = request.created(NEW_ACCOUNT, required=NEW_ACCOUNT)
    name = members["username"]
    if name in host.accounts:
        raise ConflictError(f"expected an unused name for username but received {name!r}")
    host.add_account(name)
    host.passwords[name] = members["password"]
    return account_summary(request, name)


def account_summary(request: FakeRequest, name: str) -> Record:
    """Return the name of an account, and when it was created."""
    return {"name": name, "created_at": request.host.started}
