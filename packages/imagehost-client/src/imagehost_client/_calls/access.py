"""The operations on the account, its keys and its sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve

from imagehost_client import _wire
from imagehost_client._calls._call import (
    UNSET,
    Call,
    Unset,
    drop_none,
    drop_unset,
    paged,
    query_pairs,
    single,
    string_list,
)
from imagehost_client._calls._refs import KeyRef, id_of
from imagehost_client.models import (
    Account,
    AccountSummary,
    ApiKey,
    Deleted,
    NewApiKey,
    Page,
    Session,
    SignedOut,
)


def list_keys(*, page: int | None = None, per_page: int | None = None) -> Call[Page[ApiKey]]:
    """List your API keys; like all calls on keys, this needs a session's token.

    Args:
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    return paged("/keys", "keys", ApiKey, query_pairs(page=page, per_page=per_page))


def create_key(
    name: str, *, scopes: Sequence[str] | None = None, expires_at: datetime | None = None
) -> Call[NewApiKey]:
    """Make an API key; its token is in this answer and never shown again.

    Args:
        name: What the key is for.
        scopes: What it may do, such as `images:read`; all by default.
        expires_at: When it ends, with a zone.
    """
    ends = None if expires_at is None else _wire.rfc3339(expires_at)
    body = {"name": name, **drop_none(scopes=string_list(scopes), expires_at=ends)}
    return evolve(single("POST", NewApiKey, "keys", body=body), idempotent=False)


def get_key(key: KeyRef) -> Call[ApiKey]:
    """Return one API key, without its token.

    Args:
        key: The key, or its id.
    """
    return single("GET", ApiKey, "keys", id_of(key))


def update_key(
    key: KeyRef,
    *,
    name: str | Unset = UNSET,
    scopes: Sequence[str] | Unset = UNSET,
    expires_at: datetime | Unset | None = UNSET,
) -> Call[ApiKey]:
    """Change an API key; what is left out stays as it is.

    Args:
        key: The key, or its id.
        name: What the key is for.
        scopes: What it may do.
        expires_at: When it ends, with a zone; `None` for never.
    """
    ends = _wire.rfc3339(expires_at) if isinstance(expires_at, datetime) else expires_at
    chosen = scopes if scopes is UNSET else string_list(scopes)
    return single(
        "PATCH", ApiKey, "keys", id_of(key), body=drop_unset(name=name, scopes=chosen, expires_at=ends)
    )


def delete_key(key: KeyRef) -> Call[Deleted]:
    """Revoke an API key; its token stops working at once.

    Args:
        key: The key, or its id.
    """
    return evolve(single("DELETE", Deleted, "keys", id_of(key)), on_not_found=Deleted(id=id_of(key)))


def get_account() -> Call[Account]:
    """Return your account: usage, quota and limits."""
    return single("GET", Account, "account")


def create_account(username: str, password: str) -> Call[AccountSummary]:
    """Make an account, where the host lets anybody do so; this needs no token, and signs nobody in.

    Args:
        username: 1–64 letters, digits or `._@+-`.
        password: At least 8 characters.

    Raises:
        NotFoundError: The host makes no accounts over HTTP.
        ConflictError: Somebody has the name.
    """
    call = single("POST", AccountSummary, "accounts", body={"username": username, "password": password})
    return evolve(call, idempotent=False)


def create_session(username: str, password: str) -> Call[Session]:
    """Sign in; the token that is returned acts with all scopes, and alone manages keys.

    Args:
        username: The account's name.
        password: Its password.
    """
    call = single("POST", Session, "session", body={"username": username, "password": password})
    return evolve(call, idempotent=False)


def delete_session() -> Call[SignedOut]:
    """Sign out: the session whose token this client has ends."""
    return Call(method="DELETE", path="/session", decode=lambda _: SignedOut(), on_not_found=SignedOut())
