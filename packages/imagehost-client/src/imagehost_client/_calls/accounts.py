"""Operations of operators on accounts, and registration."""

from __future__ import annotations

from attrs import evolve

from imagehost_client._calls._arguments import checked
from imagehost_client._calls._call import UNSET, Call, Unset, drop_unset, paged, query_pairs, single
from imagehost_client._calls._refs import AccountRef, account_id_of
from imagehost_client.models import ManagedAccount, Page, Role


@checked
def list_accounts(
    *, page: int | None = None, per_page: int | None = None, cursor: str | None = None
) -> Call[Page[ManagedAccount]]:
    """List all accounts, newest first; this requires the session token of an operator.

    Args:
        page: The first page, from 1.
        per_page: The page size, 1–100; 20 by default.
        cursor: The `next_cursor` of a page, to continue after it; not together with `page`.
    """
    query = query_pairs(page=page, per_page=per_page, cursor=cursor)
    return paged("/accounts", "accounts", ManagedAccount, query)


@checked
def create_account(
    username: str,
    password: str,
    *,
    role: Role | str | Unset = UNSET,
    quota_bytes: int | Unset | None = UNSET,
    api_per_minute: int | Unset | None = UNSET,
    api_per_hour: int | Unset | None = UNSET,
    api_per_day: int | Unset | None = UNSET,
    uploads_per_minute: int | Unset | None = UNSET,
    bulk_ids_per_minute: int | Unset | None = UNSET,
) -> Call[ManagedAccount]:
    """Create an account, as an operator, or on a host with open registration; this starts no session.

    Registration requires no token, and takes a name and a password only. Limits of `None` are the host's,
    and 0 is unlimited.

    Args:
        username: 1–64 letters, digits or `._@+-`.
        password: At least 8 characters.
        role: `user` or `operator`; `user` by default.
        quota_bytes: The quota in bytes.
        api_per_minute: Requests per minute.
        api_per_hour: Requests per hour.
        api_per_day: Requests per day.
        uploads_per_minute: Upload requests per minute.
        bulk_ids_per_minute: Image ids of bulk requests per minute.

    Raises:
        UnauthorizedError: There is no valid token, and the host has no open registration.
        ForbiddenError: The token is not that of an operator's session.
        ConflictError: The name is in use.
    """
    body = {
        "username": username,
        "password": password,
        **_properties(
            role=role,
            quota_bytes=quota_bytes,
            api_per_minute=api_per_minute,
            api_per_hour=api_per_hour,
            api_per_day=api_per_day,
            uploads_per_minute=uploads_per_minute,
            bulk_ids_per_minute=bulk_ids_per_minute,
        ),
    }
    return evolve(single("POST", ManagedAccount, "accounts", body=body), idempotent=False)


@checked
def get_managed_account(account: AccountRef) -> Call[ManagedAccount]:
    """Return an account; this requires the session token of an operator.

    Args:
        account: The account, or its id.
    """
    return single("GET", ManagedAccount, "accounts", account_id_of(account))


@checked
def update_account(
    account: AccountRef,
    *,
    role: Role | str | Unset = UNSET,
    suspended: bool | Unset = UNSET,
    quota_bytes: int | Unset | None = UNSET,
    api_per_minute: int | Unset | None = UNSET,
    api_per_hour: int | Unset | None = UNSET,
    api_per_day: int | Unset | None = UNSET,
    uploads_per_minute: int | Unset | None = UNSET,
    bulk_ids_per_minute: int | Unset | None = UNSET,
) -> Call[ManagedAccount]:
    """Change an account, as an operator; omitted arguments leave their values unchanged.

    A suspended account's tokens and sign-in are refused at once, its images are not found, and its webhooks
    are paused. Limits of `None` are the host's, and 0 is unlimited.

    Args:
        account: The account, or its id.
        role: `user` or `operator`.
        suspended: Whether the account is suspended.
        quota_bytes: The quota in bytes.
        api_per_minute: Requests per minute.
        api_per_hour: Requests per hour.
        api_per_day: Requests per day.
        uploads_per_minute: Upload requests per minute.
        bulk_ids_per_minute: Image ids of bulk requests per minute.

    Raises:
        ConflictError: The last operator cannot be suspended, or become a user.
    """
    body = _properties(
        role=role,
        suspended=suspended,
        quota_bytes=quota_bytes,
        api_per_minute=api_per_minute,
        api_per_hour=api_per_hour,
        api_per_day=api_per_day,
        uploads_per_minute=uploads_per_minute,
        bulk_ids_per_minute=bulk_ids_per_minute,
    )
    return single("PATCH", ManagedAccount, "accounts", account_id_of(account), body=body)


def _properties(
    *,
    role: Role | str | Unset,
    quota_bytes: int | Unset | None,
    suspended: bool | Unset = UNSET,
    **limits: int | Unset | None,
) -> dict[str, object]:
    """Return the members of a body for properties of an account, with the limits in a group of their own."""
    given = drop_unset(**limits)
    return {
        **drop_unset(role=role if role is UNSET else str(role), suspended=suspended, quota_bytes=quota_bytes),
        **({"limits": given} if given else {}),
    }
