"""Account, API key and session routes of the in-memory host."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta

from imagehost_client._wire import rfc3339
from imagehost_client.errors import ConflictError, NotFoundError, UnauthorizedError, ValidationError
from imagehost_client.testing import _forms
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import SCOPES, Record, TokenGrant, now

PASSWORD = "secret"  # noqa: S105 - the documented password of accounts that tests create
MIN_PASSWORD = 8
"""The minimum length of a chosen password, in characters."""
_NAME = re.compile(r"[A-Za-z0-9][\w.@+-]{0,63}", re.ASCII)
PREFIX = 12
"""Characters of a token that its key's record contains."""


def list_keys(request: FakeRequest) -> object:
    """List API keys, including revoked ones."""
    return request.table("keys").page(request.query, lambda row: row.owner == request.grant.account)


def create_key(request: FakeRequest) -> object:
    """Create an API key."""
    token = "ihk_" + secrets.token_hex(16)
    record: Record = {
        **_key_values(request.json(), {"name": "", "scopes": SCOPES, "expires_at": None}),
        "prefix": token[:PREFIX],
        "last_used_at": None,
        "revoked_at": None,
    }
    row = request.table("keys").add(request.grant.account, record, secret=token)
    request.host.tokens[token] = TokenGrant(request.grant.account, tuple(record["scopes"]), row.record["id"])
    return {**row.record, "token": token}


def get_key(request: FakeRequest) -> object:
    """Return an API key."""
    return request.row("keys").record


def update_key(request: FakeRequest) -> object:
    """Change an API key that is not revoked."""
    body, row = request.json(), request.row("keys")
    changes = _key_values(body, row.record)
    if row.record["revoked_at"] is not None:
        raise ConflictError("expected an active key but received a revoked one")
    row.record |= changes
    request.host.tokens[row.secret] = TokenGrant(row.owner, tuple(changes["scopes"]), row.record["id"])
    return row.record


def delete_key(request: FakeRequest) -> object:
    """Revoke an API key; its record stays."""
    row = request.row("keys")
    row.record["revoked_at"] = row.record["revoked_at"] or now()
    request.host.tokens.pop(row.secret, None)
    return {"id": row.record["id"], "deleted": True}


def get_account(request: FakeRequest) -> object:
    """Return the account with its usage, quota and rate limits."""
    owner = request.grant.account
    images, albums = (
        [row for row in request.table(name).rows.values() if row.owner == owner]
        for name in ("images", "albums")
    )
    reset = rfc3339(datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1))
    return {
        "account": _summary(request, owner),
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
    body = request.json()
    name, password = (_forms.required(body, field) for field in ("username", "password"))
    if not _NAME.fullmatch(name):
        raise ValidationError(f"expected 1 to 64 letters, digits or ._@+- for username but received {name!r}")
    if len(password) < MIN_PASSWORD:
        raise ValidationError(
            f"expected at least {MIN_PASSWORD} characters for password but received {len(password)}"
        )
    if name in host.accounts:
        raise ConflictError(f"expected an unused name for username but received {name!r}")
    host.add_account(name)
    host.passwords[name] = password
    return _summary(request, name)


def create_session(request: FakeRequest) -> object:
    """Create a session; accounts that a test has added have the password `secret`."""
    body, host = request.json(), request.host
    name, password = (_forms.required(body, field) for field in ("username", "password"))
    if name not in host.accounts or password != host.passwords.get(name, PASSWORD):
        raise UnauthorizedError("expected the name and password of an account but received others")
    token = "ihs_" + secrets.token_hex(16)
    request.host.tokens[token] = TokenGrant(name)
    expires = rfc3339(datetime.now(UTC) + timedelta(days=1))
    return {"token": token, "expires_at": expires, "account": _summary(request, name)}


def delete_session(request: FakeRequest) -> object:
    """End the session of the request's token."""
    tokens = request.host.tokens
    for token in [text for text, grant in tokens.items() if grant is request.grant]:
        del tokens[token]
    return {"ended": True}


def _summary(request: FakeRequest, name: str) -> Record:
    return {"name": name, "created_at": request.host.started}


def _key_values(body: Record, record: Record) -> Record:
    scopes = _forms.expect_list(body, "scopes", SCOPES, record["scopes"])
    if not scopes:
        raise ValidationError("expected one scope or more for scopes but received none")
    return {
        "name": _forms.parse_name({"name": record["name"], **body}, minimum=0),
        "scopes": sorted(set(scopes)),
        "expires_at": _parse_expiry(body["expires_at"]) if "expires_at" in body else record["expires_at"],
    }


def _parse_expiry(value: object) -> str | None:
    """Return an expiry as RFC 3339, or `None` for no expiry.

    Raises:
        ValidationError: The value is not a time in the future with a UTC offset.
    """
    if value is None:
        return None
    try:
        expiry = datetime.fromisoformat(str(value))
    except ValueError:
        expiry = None
    if expiry is None or expiry.tzinfo is None or expiry <= datetime.now(UTC):
        raise ValidationError(
            f"expected a future time with a UTC offset for expires_at but received {value!r}"
        )
    return rfc3339(expiry)
