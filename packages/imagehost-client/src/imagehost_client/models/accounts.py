"""Accounts, sessions and API keys."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from attrs import field, frozen

from imagehost_client.models.results import Result

Scope = Literal[
    "images:read",
    "images:write",
    "images:delete",
    "albums:read",
    "albums:write",
    "webhooks:manage",
    "account:read",
]
"""A permission of an API key."""


class Role(StrEnum):
    """The role of an account."""

    USER = "user"
    OPERATOR = "operator"


@frozen(kw_only=True)
class AccountSummary(Result):
    """The name, role and creation time of an account."""

    name: str
    role: Role | str = Role.USER
    created_at: datetime


@frozen(kw_only=True)
class Session(Result):
    """A session, without its token.

    Attributes:
        user_agent: The `User-Agent` of the sign-in.
        ip_address: The client's IP address of the sign-in.
        is_current: Whether it is the session of the client that lists it.
    """

    id: str
    user_agent: str
    ip_address: str
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime
    is_current: bool = False


@frozen(kw_only=True)
class SessionWithToken(Result):
    """A session with its token, which has all scopes and manages API keys; `repr` hides the token."""

    token: str = field(repr=False)
    expires_at: datetime
    account: AccountSummary


@frozen(kw_only=True)
class SignedOut(Result):
    """The result of ending a session."""


@frozen(kw_only=True)
class PasswordChanged(Result):
    """The result of changing the password."""

    changed: bool = True


@frozen(kw_only=True)
class SigningSecretRenewed(Result):
    """The result of ending all signed URLs."""

    renewed: bool = True


@frozen(kw_only=True)
class ApiKey(Result):
    """An API key, without its token."""

    id: str
    name: str
    prefix: str
    scopes: tuple[str, ...]
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    created_at: datetime
    revoked_at: datetime | None = None


@frozen(kw_only=True)
class ApiKeyWithToken(ApiKey):
    """An API key with its token, which the host returns only on creation; `repr` hides it."""

    token: str = field(repr=False)


@frozen(kw_only=True)
class AccountUsage:
    """The storage usage of an account: bytes of stored files, number of images and albums."""

    bytes: int
    images: int
    albums: int = 0


@frozen(kw_only=True)
class Quota:
    """The storage quota of an account, in bytes; `None` means unlimited."""

    bytes: int | None = None
    remaining: int | None = None


@frozen(kw_only=True)
class RateLimitWindow:
    """The state of one rate limit window."""

    name: str
    limit: int
    remaining: int
    reset: datetime


@frozen(kw_only=True)
class Account(Result):
    """The caller's account with its usage, quota and rate limits."""

    account: AccountSummary
    usage: AccountUsage
    quota: Quota
    limits: tuple[RateLimitWindow, ...] = ()


@frozen(kw_only=True)
class AccountLimits:
    """The limits of an account: requests, and image ids of bulk requests.

    `None` is the host's limit, and 0 is unlimited.
    """

    api_per_minute: int | None = None
    api_per_hour: int | None = None
    api_per_day: int | None = None
    uploads_per_minute: int | None = None
    bulk_ids_per_minute: int | None = None


@frozen(kw_only=True)
class ManagedAccount(Result):
    """An account, as operators see it.

    Attributes:
        limits: The limits that differ from the host's.
        quota_bytes: The quota in bytes; `None` is the host's, and 0 is unlimited.
        suspended: Whether tokens and sign-in are refused, images are not found, and webhooks are paused.
    """

    id: int
    name: str
    role: Role | str
    limits: AccountLimits
    quota_bytes: int | None = None
    suspended: bool = False
    created_at: datetime
    usage: AccountUsage
