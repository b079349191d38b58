"""Accounts, sessions and API keys."""

from __future__ import annotations

from datetime import datetime

from attrs import field, frozen

from imagehost_client.models.results import Result


@frozen(kw_only=True)
class AccountSummary(Result):
    """The name and creation time of an account."""

    name: str
    created_at: datetime


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
