"""API key routes of the in-memory host."""

from __future__ import annotations

import secrets
from functools import partial

from imagehost_client.errors import ConflictError, ValidationError
from imagehost_client.testing._lists import paginate
from imagehost_client.testing._members import Parser, parse_expiry, parse_list, parse_name
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import SCOPES, Record, TokenGrant, now

PREFIX = 12
"""Characters of a token that its key's record contains."""


def parse_scopes(name: str, value: object) -> list[str]:
    """Return one scope or more, sorted and without repetitions."""
    scopes = parse_list(name, value, choices=SCOPES)
    if not scopes:
        raise ValidationError(f"expected one scope or more for {name} but received none")
    return sorted(set(scopes))


MEMBERS: dict[str, Parser] = {
    "name": partial(parse_name, minimum=0),
    "scopes": parse_scopes,
    "expires_at": parse_expiry,
}
"""The members of a key that a request may set."""


def list_keys(request: FakeRequest) -> object:
    """List API keys, including revoked ones."""
    return paginate(request, "keys", lambda row: row.owner == request.grant.account)


def create_key(request: FakeRequest) -> object:
    """Create an API key."""
    values = request.created(MEMBERS)
    token = "ihk_" + secrets.token_hex(16)
    record: Record = {
        "name": "",
        "scopes": sorted(SCOPES),
        "expires_at": None,
        **values,
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
    row, changes = request.changed("keys", MEMBERS)
    if row.record["revoked_at"] is not None:
        raise ConflictError("expected an active key but received a revoked one")
    row.record |= changes
    scopes = tuple(row.record["scopes"])
    request.host.tokens[row.secret] = TokenGrant(row.owner, scopes, row.record["id"])
    return row.record


def delete_key(request: FakeRequest) -> object:
    """Revoke an API key; its record stays."""
    row = request.row("keys")
    row.record["revoked_at"] = row.record["revoked_at"] or now()
    request.host.tokens.pop(row.secret, None)
    return {"id": row.record["id"], "deleted": True}
