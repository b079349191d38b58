"""Operations on your account, API keys and sessions; of operators on accounts; and registration."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Unpack

from attrs import fields

from imagehost_client import _wire
from imagehost_client._calls.arguments import account_id_of, checked, id_of, text
from imagehost_client._calls.call import (
    Call,
    drop_none,
    drop_unset,
    paged,
    single,
    string_list,
)
from imagehost_client._types import (
    UNSET,
    AccountProperties,
    AccountRef,
    KeyRef,
    PageOptions,
    SessionRef,
    Unset,
)
from imagehost_client.errors import BadRequestError
from imagehost_client.models import (
    Account,
    AccountLimits,
    AccountOverview,
    ApiKey,
    ApiKeyWithToken,
    Deleted,
    Page,
    PasswordChanged,
    Scope,
    Session,
    SessionWithToken,
    SigningSecretRenewed,
)


@partial(checked, error=BadRequestError)
def list_keys(**paging: Unpack[PageOptions]) -> Call[Page[ApiKey]]:
    """List your API keys; this and all calls on keys require a session token.

    Args:
        **paging: `page` (the first page, from 1), `per_page` (1–100; 20 by default), and `cursor` (the
            `next_cursor` of a page, to continue after it; not together with `page`).
    """
    return paged("/keys", "keys", ApiKey, **paging)


@checked
def create_key(
    name: str = "", *, scopes: Sequence[Scope] | None = None, expires_at: datetime | None = None
) -> Call[ApiKeyWithToken]:
    """Create an API key; only this result contains its token.

    Args:
        name: The name of the key, at most 100 characters.
        scopes: The granted scopes, such as `images:read`; all by default.
        expires_at: The expiry, with a UTC offset; none by default.
    """
    expiry = None if expires_at is None else _wire.rfc3339(expires_at)
    body = {"name": name, **drop_none(scopes=string_list(scopes), expires_at=expiry)}
    return single("POST", ApiKeyWithToken, "keys", body=body, idempotent=False)


@checked
def get_key(key: KeyRef) -> Call[ApiKey]:
    """Return an API key, without its token.

    Args:
        key: The key, or its id.
    """
    return single("GET", ApiKey, "keys", id_of(key))


@checked
def update_key(
    key: KeyRef,
    *,
    name: str | Unset = UNSET,
    scopes: Sequence[Scope] | Unset = UNSET,
    expires_at: datetime | Unset | None = UNSET,
) -> Call[ApiKey]:
    """Change an API key; omitted arguments leave their values unchanged.

    Args:
        key: The key, or its id.
        name: The name of the key, at most 100 characters.
        scopes: The granted scopes.
        expires_at: The expiry, with a UTC offset; `None` for no expiry.
    """
    expiry = _wire.rfc3339(expires_at) if isinstance(expires_at, datetime) else expires_at
    scope_list = scopes if scopes is UNSET else string_list(scopes)
    body = drop_unset(name=name, scopes=scope_list, expires_at=expiry)
    return single("PATCH", ApiKey, "keys", id_of(key), body=body)


@checked
def delete_key(key: KeyRef) -> Call[Deleted]:
    """Revoke an API key, with immediate effect.

    Args:
        key: The key, or its id.
    """
    return single("DELETE", Deleted, "keys", id_of(key), on_not_found=Deleted(id=id_of(key)))


@checked
def get_account() -> Call[AccountOverview]:
    """Return your account with its usage, quota and rate limits."""
    return single("GET", AccountOverview, "account")


@checked
def change_password(current_password: str, new_password: str) -> Call[PasswordChanged]:
    """Change your password, and end all other sessions of your account; this requires a session token.

    It is retried only if the host has not processed the request.

    Args:
        current_password: The present password.
        new_password: At least 8 characters.

    Raises:
        ValidationError: The current password is wrong, or the new one is too short.
    """
    body = {"current_password": current_password, "new_password": new_password}
    return single("POST", PasswordChanged, "account", "password", body=body, idempotent=False)


@checked
def renew_signing_secret() -> Call[SigningSecretRenewed]:
    """End all signed URLs of your images at once; this requires a session token.

    New ones can be made, also without requests: `signing_key` of the result is for `urls.sign`. It is retried
    only if the host has not processed the request.
    """
    return single("POST", SigningSecretRenewed, "account", "signing-secret", idempotent=False)


@partial(checked, error=BadRequestError)
def list_sessions(**paging: Unpack[PageOptions]) -> Call[Page[Session]]:
    """List your sessions that have not expired, newest first; this requires a session token.

    Args:
        **paging: `page` (the first page, from 1), `per_page` (1–100; 20 by default), and `cursor` (the
            `next_cursor` of a page, to continue after it; not together with `page`).
    """
    return paged("/sessions", "sessions", Session, **paging)


@checked
def create_session(username: str, password: str) -> Call[SessionWithToken]:
    """Sign in, and return a session; its token has all scopes, and manages API keys.

    Args:
        username: The name of the account.
        password: The password of the account.
    """
    body = {"username": username, "password": password}
    return single("POST", SessionWithToken, "session", body=body, idempotent=False)


@checked
def delete_session(session: SessionRef | None = None) -> Call[Deleted]:
    """End a session at once; by default that of this client's token.

    Args:
        session: One of your sessions, or its id; `None` to sign out.
    """
    if session is None:
        return single("DELETE", Deleted, "session")
    session_id = id_of(session)
    return single("DELETE", Deleted, "sessions", session_id, on_not_found=Deleted(id=session_id))


@partial(checked, error=BadRequestError)
def list_accounts(**paging: Unpack[PageOptions]) -> Call[Page[Account]]:
    """List all accounts, newest first; this requires the session token of an operator.

    Args:
        **paging: `page` (the first page, from 1), `per_page` (1–100; 20 by default), and `cursor` (the
            `next_cursor` of a page, to continue after it; not together with `page`).
    """
    return paged("/accounts", "accounts", Account, **paging)


@partial(checked, name=text(1, 64))
def create_account(name: str, password: str, **properties: Unpack[AccountProperties]) -> Call[Account]:
    """Create an account, as an operator, or on a host with open registration; this starts no session.

    Registration requires no token, and takes a name and a password only. Limits of `None` are the host's,
    and 0 is unlimited.

    Args:
        name: 1–64 letters, digits or `._@+-`.
        password: At least 8 characters.
        **properties: `role` (`user` or `operator`), `quota_bytes`, `api_per_minute`, `api_per_hour`,
            `api_per_day`, `uploads_per_minute` (requests) and `bulk_ids_per_minute`.

    Raises:
        UnauthorizedError: There is no valid token, and the host has no open registration.
        ForbiddenError: The token is not that of an operator's session.
        ConflictError: The name is in use.
    """
    body = {"name": name, "password": password, **_body(properties)}
    return single("POST", Account, "accounts", body=body, idempotent=False)


@checked
def get_managed_account(account: AccountRef) -> Call[Account]:
    """Return an account; this requires the session token of an operator.

    Args:
        account: The account, or its id.
    """
    return single("GET", Account, "accounts", account_id_of(account))


@checked
def update_account(
    account: AccountRef, *, suspended: bool | Unset = UNSET, **properties: Unpack[AccountProperties]
) -> Call[Account]:
    """Change an account, as an operator; omitted arguments leave their values unchanged.

    A suspended account's tokens and sign-in are refused at once, its images are not found, and its webhooks
    are paused. Limits of `None` are the host's, and 0 is unlimited.

    Args:
        account: The account, or its id.
        suspended: Whether the account is suspended.
        **properties: `role` (`user` or `operator`), `quota_bytes`, `api_per_minute`, `api_per_hour`,
            `api_per_day`, `uploads_per_minute` (requests) and `bulk_ids_per_minute`.

    Raises:
        ConflictError: The last operator cannot be suspended, or become a user.
    """
    body = {**drop_unset(suspended=suspended), **_body(properties)}
    return single("PATCH", Account, "accounts", account_id_of(account), body=body)


def _body(properties: AccountProperties) -> dict[str, object]:
    """Return the members of a body for properties of an account, with the limits in a group of their own."""
    body = drop_unset(**properties)
    limits = {field.name: body.pop(field.name) for field in fields(AccountLimits) if field.name in body}
    return {**body, **({"limits": limits} if limits else {})}
