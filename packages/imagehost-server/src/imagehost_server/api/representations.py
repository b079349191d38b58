"""What is shown of keys, sessions, accounts and webhooks; the core has the records of events.

The fields are those of contract 8 and 10.
"""

from __future__ import annotations

from datetime import UTC, datetime

from attrs import asdict, field, frozen

from imagehost_core.models import (
    Account,
    AccountUsage,
    ApiKey,
    ApiKeyWithToken,
    SessionWithToken,
    Webhook,
    WebhookDelivery,
    WebhookWithSecret,
)
from imagehost_core.services import WindowState


@frozen(kw_only=True)
class KeyRecord:
    """An API key, without its token."""

    id: str
    name: str
    prefix: str
    scopes: list[str]
    expires_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime
    revoked_at: datetime | None


@frozen(kw_only=True)
class NewKeyRecord(KeyRecord):
    """An API key just made, with the one sight of its token."""

    token: str = field(repr=False)


@frozen(kw_only=True)
class AccountSummary:
    """An account, as its owner sees it."""

    name: str
    created_at: datetime


@frozen(kw_only=True)
class SessionRecord:
    """A session just begun, with the one sight of its token."""

    token: str = field(repr=False)
    expires_at: datetime
    account: AccountSummary


@frozen(kw_only=True)
class UsageRecord:
    """What an account has stored: bytes of masters, images and albums."""

    bytes: int
    images: int
    albums: int


@frozen(kw_only=True)
class QuotaRecord:
    """How many bytes an account may store, and how many more; `null` where there is no quota."""

    bytes: int | None
    remaining: int | None


@frozen(kw_only=True)
class LimitRecord:
    """A window of requests that has a limit: `reset` is a time."""

    name: str
    limit: int
    remaining: int
    reset: datetime


@frozen(kw_only=True)
class AccountRecord:
    """Usage, quota and limits of an account."""

    account: AccountSummary
    usage: UsageRecord
    quota: QuotaRecord
    limits: list[LimitRecord]


@frozen(kw_only=True)
class WebhookRecord:
    """A destination of events; no events stand for all."""

    id: str
    url: str
    events: list[str]
    description: str
    is_active: bool
    created_at: datetime
    disabled_reason: str | None


@frozen(kw_only=True)
class NewWebhookRecord(WebhookRecord):
    """A destination with the one sight of its secret."""

    secret: str = field(repr=False)


@frozen(kw_only=True)
class DeliveryRecord:
    """One event on its way to one destination, and what came of the last attempt.

    `error` says why there was no answer; `response_excerpt` has the first bytes of one.
    """

    id: str
    webhook_id: str
    event_id: str
    event: str
    status: str
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    last_attempt_at: datetime | None
    response_status: int | None
    response_excerpt: str
    duration_ms: int | None
    error: str | None


@frozen(kw_only=True)
class Deleted:
    """What is said of something that is gone."""

    id: str
    deleted: bool = True


def key_record(key: ApiKey) -> KeyRecord:
    """Return an API key as it is shown."""
    return KeyRecord(**_key_members(key))  # type: ignore[arg-type]


def new_key_record(made: ApiKeyWithToken) -> NewKeyRecord:
    """Return an API key just made as it is shown, once."""
    return NewKeyRecord(**_key_members(made.key), token=made.token)  # type: ignore[arg-type]


def session_record(session: SessionWithToken) -> SessionRecord:
    """Return a session just begun as it is shown, once."""
    return SessionRecord(
        token=session.token, expires_at=session.expires_at, account=account_summary(session.account)
    )


def account_summary(account: Account) -> AccountSummary:
    """Return an account as its owner sees it."""
    return AccountSummary(name=account.name, created_at=account.created_at)


def account_record(
    account: Account, usage: AccountUsage, quota: int, windows: tuple[WindowState, ...]
) -> AccountRecord:
    """Return usage, quota and limits of an account as they are shown.

    Args:
        account: Whose.
        usage: What it has stored.
        quota: Bytes that it may store; 0 = no quota.
        windows: The windows that limit its requests.
    """
    return AccountRecord(
        account=account_summary(account),
        usage=UsageRecord(bytes=usage.bytes, images=usage.images, albums=usage.albums),
        quota=QuotaRecord(bytes=quota or None, remaining=max(0, quota - usage.bytes) if quota else None),
        limits=[
            LimitRecord(
                name=window.name,
                limit=window.limit,
                remaining=window.remaining,
                reset=datetime.fromtimestamp(window.reset, UTC),
            )
            for window in windows
        ],
    )


def webhook_record(webhook: Webhook) -> WebhookRecord:
    """Return a destination as it is shown."""
    return WebhookRecord(**_webhook_members(webhook))  # type: ignore[arg-type]


def new_webhook_record(made: WebhookWithSecret) -> NewWebhookRecord:
    """Return a destination with a new secret as it is shown, once."""
    return NewWebhookRecord(**_webhook_members(made.webhook), secret=made.secret)  # type: ignore[arg-type]


def delivery_record(delivery: WebhookDelivery) -> DeliveryRecord:
    """Return a delivery as it is shown."""
    answered = delivery.last_status is not None
    return DeliveryRecord(
        id=delivery.id,
        webhook_id=delivery.webhook_id,
        event_id=delivery.event_id,
        event=delivery.type,
        status=delivery.state.value,
        attempts=delivery.attempts,
        next_attempt_at=delivery.next_attempt_at,
        created_at=delivery.created_at,
        last_attempt_at=delivery.last_attempt_at,
        response_status=delivery.last_status,
        response_excerpt=delivery.last_response if answered else "",
        duration_ms=delivery.last_duration_ms,
        error=None if answered or not delivery.last_response else delivery.last_response,
    )


def _key_members(key: ApiKey) -> dict[str, object]:
    members = asdict(key, filter=lambda attribute, _: attribute.name != "account_id")
    return {**members, "scopes": sorted(key.scopes)}


def _webhook_members(webhook: Webhook) -> dict[str, object]:
    members = asdict(webhook, filter=lambda attribute, _: attribute.name != "account_id")
    return {**members, "events": list(webhook.events)}
