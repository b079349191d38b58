"""JSON records of keys, sessions, accounts and webhooks. Those of images and albums are the core's."""

from __future__ import annotations

from datetime import UTC, datetime

from attrs import asdict, field, frozen

from imagehost_core.ids import SessionId
from imagehost_core.models import (
    Account,
    AccountUsage,
    ApiKey,
    ApiKeyWithToken,
    Role,
    Session,
    SessionWithToken,
    Webhook,
    WebhookDelivery,
    WebhookWithSecret,
)
from imagehost_core.services import WindowState


@frozen(kw_only=True)
class KeyRecord:
    """An API key, without its token.

    Attributes:
        id: Identifier.
        name: Up to 100 characters.
        prefix: The first characters of the token.
        scopes: What the key may do.
        expires_at: When it expires; null = never.
        last_used_at: When the token was last used, to the minute.
        created_at: When it was created.
        revoked_at: When the key was revoked; null while it is valid.
    """

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
    """A new API key, with its token, which is returned only once.

    Attributes:
        token: The secret token. Returned only here.
    """

    token: str = field(repr=False)


@frozen(kw_only=True)
class AccountSummary:
    """The name and role of an account, and when it was created.

    Attributes:
        name: Up to 100 characters.
        role: Operators manage all accounts.
        created_at: When it was created.
    """

    name: str
    role: Role
    created_at: datetime


@frozen(kw_only=True)
class SessionRecord:
    """A session, without its token; `is_current` is true for the session of the request.

    Attributes:
        id: Identifier.
        user_agent: The `User-Agent` of the sign-in.
        ip_address: The IP address of the sign-in.
        created_at: When it was created.
        expires_at: When it expires; null = never.
        last_used_at: When the token was last used, to the minute.
        is_current: Whether it is the session of the request.
    """

    id: str
    user_agent: str
    ip_address: str
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime
    is_current: bool


@frozen(kw_only=True)
class NewSessionRecord:
    """A new session, with its token, which is returned only once.

    Attributes:
        token: The secret token. Returned only here.
        expires_at: When it expires; null = never.
        account: The account.
    """

    token: str = field(repr=False)
    expires_at: datetime
    account: AccountSummary


@frozen(kw_only=True)
class UsageRecord:
    """The storage used by an account: bytes of masters, and numbers of images and albums.

    Attributes:
        bytes: Bytes of all masters.
        images: The number of images.
        albums: The number of albums.
    """

    bytes: int
    images: int
    albums: int


@frozen(kw_only=True)
class QuotaRecord:
    """The quota of an account and what remains of it, in bytes; `null` without a quota.

    Attributes:
        bytes: The quota in bytes; null without one.
        remaining: The rest of the quota in bytes; null without one.
    """

    bytes: int | None
    remaining: int | None


@frozen(kw_only=True)
class LimitRecord:
    """A rate limit window, and when it resets.

    Attributes:
        name: Up to 100 characters.
        limit: The limit of the window.
        remaining: What remains.
        reset: When the window ends.
    """

    name: str
    limit: int
    remaining: int
    reset: datetime


@frozen(kw_only=True)
class AccountRecord:
    """The usage, quota and rate limits of an account.

    Attributes:
        account: The account.
        usage: What the account uses.
        quota: The storage quota.
        limits: The rate limit windows.
    """

    account: AccountSummary
    usage: UsageRecord
    quota: QuotaRecord
    limits: list[LimitRecord]


@frozen(kw_only=True)
class LimitOverridesRecord:
    """The limits of an account that differ from the host's: `null` is the host's limit, 0 is unlimited.

    Attributes:
        api_per_minute: API requests per minute.
        api_per_hour: API requests per hour.
        api_per_day: API requests per day.
        uploads_per_minute: Upload requests per minute.
        bulk_ids_per_minute: Image ids in bulk requests per minute.
    """

    api_per_minute: int | None
    api_per_hour: int | None
    api_per_day: int | None
    uploads_per_minute: int | None
    bulk_ids_per_minute: int | None


@frozen(kw_only=True)
class ManagedAccountRecord:
    """An account, as operators see it; a quota of `null` is the host's, and 0 is unlimited.

    Attributes:
        id: Identifier.
        name: Up to 100 characters.
        role: Operators manage all accounts.
        limits: The limits that differ from the host's.
        quota_bytes: Bytes that may be stored; null is the host's quota, 0 is unlimited.
        suspended: Whether the account is suspended.
        created_at: When it was created.
        usage: What the account uses.
    """

    id: int
    name: str
    role: Role
    limits: LimitOverridesRecord
    quota_bytes: int | None
    suspended: bool
    created_at: datetime
    usage: UsageRecord


@frozen(kw_only=True)
class WebhookRecord:
    """A webhook endpoint; an empty list of events means all events.

    Attributes:
        id: Identifier.
        url: The URL that receives the events.
        events: The types of the events that are sent; an empty list means all.
        description: Up to 2,000 characters.
        is_active: Whether events are delivered.
        created_at: When it was created.
        disabled_reason: Why deliveries stopped; null while the webhook is active.
    """

    id: str
    url: str
    events: list[str]
    description: str
    is_active: bool
    created_at: datetime
    disabled_reason: str | None


@frozen(kw_only=True)
class NewWebhookRecord(WebhookRecord):
    """A webhook endpoint with its new secret, which is returned only once.

    Attributes:
        secret: The secret of the signatures. Returned only here.
    """

    secret: str = field(repr=False)


@frozen(kw_only=True)
class DeliveryRecord:
    """The delivery of one event to one webhook endpoint, with the result of its last attempt.

    `response_excerpt` has the first bytes of the response; `error` is the reason if there was none.

    Attributes:
        id: Identifier.
        webhook_id: The webhook.
        event_id: The id of the event, as in `webhook-id`.
        event: The type of the event.
        status: The result.
        attempts: How often the delivery was attempted.
        next_attempt_at: When the delivery is attempted next; null if it is not.
        created_at: When it was created.
        last_attempt_at: When the delivery was last attempted.
        response_status: The status of the response to the last attempt.
        response_excerpt: The first bytes of the response to the last attempt.
        duration_ms: The duration of the last attempt, in milliseconds.
        error: The reason why there was no response.
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
    """The id of a deleted resource.

    Attributes:
        id: Identifier.
        deleted: Always true.
    """

    id: str
    deleted: bool


def key_record(key: ApiKey) -> KeyRecord:
    """Return the record of an API key."""
    return KeyRecord(**_key_members(key))  # type: ignore[arg-type]


def new_key_record(created: ApiKeyWithToken) -> NewKeyRecord:
    """Return the record of a new API key, with its token."""
    return NewKeyRecord(**_key_members(created.key), token=created.token)  # type: ignore[arg-type]


def session_record(session: Session, current: SessionId | None) -> SessionRecord:
    """Return the record of a session.

    Args:
        session: The session.
        current: The session of the request.
    """
    members = asdict(session, filter=lambda attribute, _: attribute.name != "account_id")
    return SessionRecord(**members, is_current=session.id == current)


def new_session_record(created: SessionWithToken) -> NewSessionRecord:
    """Return the record of a new session, with its token."""
    return NewSessionRecord(
        token=created.token, expires_at=created.expires_at, account=account_summary(created.account)
    )


def account_summary(account: Account) -> AccountSummary:
    """Return the summary of an account."""
    return AccountSummary(name=account.name, role=account.role, created_at=account.created_at)


def managed_account_record(account: Account, usage: AccountUsage) -> ManagedAccountRecord:
    """Return the record of an account for operators."""
    limits = asdict(account.limits)
    quota_bytes = limits.pop("quota_bytes")
    return ManagedAccountRecord(
        id=account.id,
        name=account.name,
        role=account.role,
        limits=LimitOverridesRecord(**limits),
        quota_bytes=quota_bytes,
        suspended=account.suspended_at is not None,
        created_at=account.created_at,
        usage=_usage_record(usage),
    )


def account_record(
    account: Account, usage: AccountUsage, quota: int, windows: tuple[WindowState, ...]
) -> AccountRecord:
    """Return the record of an account's usage, quota and rate limits.

    Args:
        account: The account.
        usage: The storage that it uses.
        quota: In bytes; 0 is unlimited.
        windows: The state of its rate limit windows.
    """
    return AccountRecord(
        account=account_summary(account),
        usage=_usage_record(usage),
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
    """Return the record of a webhook endpoint."""
    return WebhookRecord(**_webhook_members(webhook))  # type: ignore[arg-type]


def new_webhook_record(created: WebhookWithSecret) -> NewWebhookRecord:
    """Return the record of a webhook endpoint, with its new secret."""
    return NewWebhookRecord(**_webhook_members(created.webhook), secret=created.secret)  # type: ignore[arg-type]


def delivery_record(delivery: WebhookDelivery) -> DeliveryRecord:
    """Return the record of a webhook delivery."""
    has_response = delivery.last_status is not None
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
        response_excerpt=delivery.last_response if has_response else "",
        duration_ms=delivery.last_duration_ms,
        error=None if has_response or not delivery.last_response else delivery.last_response,
    )


def _usage_record(usage: AccountUsage) -> UsageRecord:
    return UsageRecord(bytes=usage.bytes, images=usage.images, albums=usage.albums)


def _key_members(key: ApiKey) -> dict[str, object]:
    members = asdict(key, filter=lambda attribute, _: attribute.name != "account_id")
    return {**members, "scopes": sorted(key.scopes)}


def _webhook_members(webhook: Webhook) -> dict[str, object]:
    members = asdict(webhook, filter=lambda attribute, _: attribute.name != "account_id")
    return {**members, "events": list(webhook.events)}
