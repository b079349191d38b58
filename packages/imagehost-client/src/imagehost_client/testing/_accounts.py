"""The double's accounts: keys, sessions, and what is used."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta

from imagehost_client._wire import rfc3339
from imagehost_client.errors import ConflictError, NotFoundError, UnauthorizedError, ValidationError
from imagehost_client.testing import _forms
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import SCOPES, Record, TokenGrant, now

PASSWORD = "secret"  # noqa: S105 - it is no secret: every account that a test makes has it
MIN_PASSWORD = 8
"""Characters of a password that somebody chooses."""
_NAME = re.compile(r"[A-Za-z0-9][\w.@+-]{0,63}", re.ASCII)
PREFIX = 12
"""Characters of a token that its key's record shows."""


def list_keys(asked: FakeRequest) -> object:
    """List keys, revoked ones too."""
    return asked.table("keys").page(asked.query, lambda row: row.owner == asked.grant.account)


def create_key(asked: FakeRequest) -> object:
    """Make a key, whose token works from now on."""
    token = "ihk_" + secrets.token_hex(16)
    record: Record = {
        **_key_values(asked.json(), {"name": "", "scopes": SCOPES, "expires_at": None}),
        "prefix": token[:PREFIX],
        "last_used_at": None,
        "revoked_at": None,
    }
    row = asked.table("keys").add(asked.grant.account, record, secret=token)
    asked.host.tokens[token] = TokenGrant(asked.grant.account, tuple(record["scopes"]), row.record["id"])
    return {**row.record, "token": token}


def get_key(asked: FakeRequest) -> object:
    """Return a key's record."""
    return asked.row("keys").record


def update_key(asked: FakeRequest) -> object:
    """Change a key that is in force."""
    body, row = asked.json(), asked.row("keys")
    changes = _key_values(body, row.record)
    if row.record["revoked_at"] is not None:
        raise ConflictError("expected a key that is in force but received one that is revoked")
    row.record |= changes
    asked.host.tokens[row.secret] = TokenGrant(row.owner, tuple(changes["scopes"]), row.record["id"])
    return row.record


def delete_key(asked: FakeRequest) -> object:
    """Revoke a key; its record stays."""
    row = asked.row("keys")
    row.record["revoked_at"] = row.record["revoked_at"] or now()
    asked.host.tokens.pop(row.secret, None)
    return {"id": row.record["id"], "deleted": True}


def get_account(asked: FakeRequest) -> object:
    """Return what the account is, uses and may use."""
    owner = asked.grant.account
    images, albums = (
        [row for row in asked.table(name).rows.values() if row.owner == owner]
        for name in ("images", "albums")
    )
    reset = rfc3339(datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1))
    return {
        "account": _shown(asked, owner),
        "usage": {
            "bytes": sum(row.record["size"] for row in images),
            "images": len(images),
            "albums": len(albums),
        },
        "quota": {"bytes": None, "remaining": None},
        "limits": [{"name": "api_per_minute", "limit": 60, "remaining": 59, "reset": reset}],
    }


def create_account(asked: FakeRequest) -> object:
    """Make an account, where registration is open."""
    host = asked.host
    if not host.registration:
        raise NotFoundError(f"expected a route of the interface but received {asked.path}")
    body = asked.json()
    name, password = (_forms.required(body, field) for field in ("username", "password"))
    if not _NAME.fullmatch(name):
        raise ValidationError(f"expected 1 to 64 letters, digits or ._@+- for username but received {name!r}")
    if len(password) < MIN_PASSWORD:
        raise ValidationError(
            f"expected at least {MIN_PASSWORD} characters for password but received {len(password)}"
        )
    if name in host.accounts:
        raise ConflictError(f"expected one that is free for username but received {name!r}")
    host.add_account(name)
    host.passwords[name] = password
    return _shown(asked, name)


def create_session(asked: FakeRequest) -> object:
    """Sign in: any account that the double has; those that a test made have the password `secret`."""
    body, host = asked.json(), asked.host
    name, password = (_forms.required(body, field) for field in ("username", "password"))
    if name not in host.accounts or password != host.passwords.get(name, PASSWORD):
        raise UnauthorizedError("expected the name and password of an account but received others")
    token = "ihs_" + secrets.token_hex(16)
    asked.host.tokens[token] = TokenGrant(name)
    expires = rfc3339(datetime.now(UTC) + timedelta(days=1))
    return {"token": token, "expires_at": expires, "account": _shown(asked, name)}


def delete_session(asked: FakeRequest) -> object:
    """Sign out: the session's token works no more."""
    tokens = asked.host.tokens
    for token in [text for text, grant in tokens.items() if grant is asked.grant]:
        del tokens[token]
    return {"ended": True}


def _shown(asked: FakeRequest, name: str) -> Record:
    return {"name": name, "created_at": asked.host.started}


def _key_values(body: Record, record: Record) -> Record:
    scopes = _forms.texts(body, "scopes", SCOPES, record["scopes"])
    if not scopes:
        raise ValidationError("expected one scope or more for scopes but received none")
    return {
        "name": _forms.name_in({"name": record["name"], **body}, minimum=0),
        "scopes": sorted(set(scopes)),
        "expires_at": _end(body["expires_at"]) if "expires_at" in body else record["expires_at"],
    }


def _end(value: object) -> str | None:
    """Return a time to come as records hold it.

    Raises:
        ValidationError: It is none.
    """
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment <= datetime.now(UTC):
        raise ValidationError(
            f"expected a time to come, with its zone, for expires_at but received {value!r}"
        )
    return rfc3339(moment)
