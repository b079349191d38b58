"""What the host keeps: frozen values, as they stand in the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from attrs import field, frozen
from attrs.validators import ge, optional

from imagehost_core.formats import FORMATS, Format
from imagehost_core.ids import AccountId, AlbumId, DeliveryId, EventId, ImageId, KeyId, WebhookId

T = TypeVar("T")


class Scope(StrEnum):
    """What a key may do (contract 8)."""

    IMAGES_READ = "images:read"
    IMAGES_WRITE = "images:write"
    IMAGES_DELETE = "images:delete"
    ALBUMS_READ = "albums:read"
    ALBUMS_WRITE = "albums:write"
    WEBHOOKS_MANAGE = "webhooks:manage"
    ACCOUNT_READ = "account:read"


ALL_SCOPES = frozenset(Scope)


@frozen(kw_only=True)
class LimitOverrides:
    """The limits that an account has of its own; `None` stands for the host's, 0 for no limit.

    Attributes:
        api_per_minute: API requests in a minute.
        api_per_hour: The same in an hour.
        api_per_day: The same in a day.
        uploads_per_minute: Upload requests in a minute.
        quota_bytes: Bytes of masters.
    """

    api_per_minute: int | None = field(default=None, validator=optional(ge(0)))
    api_per_hour: int | None = field(default=None, validator=optional(ge(0)))
    api_per_day: int | None = field(default=None, validator=optional(ge(0)))
    uploads_per_minute: int | None = field(default=None, validator=optional(ge(0)))
    quota_bytes: int | None = field(default=None, validator=optional(ge(0)))


@frozen(kw_only=True)
class Account:
    """A user of the host: whoever owns images, albums and keys.

    Attributes:
        id: Its number in this catalog; never shown outside.
        name: Its name, unique in the catalog.
        created_at: When it was made, in UTC.
        suspended_at: Since when its tokens are refused, or `None`.
        limits: The limits that it has of its own.
    """

    id: AccountId
    name: str
    created_at: datetime
    suspended_at: datetime | None = None
    limits: LimitOverrides = LimitOverrides()


@frozen(kw_only=True)
class Image:
    """An uploaded picture.

    Attributes:
        id: 16 characters of base62.
        account_id: Whose it is.
        album_id: The album that it is in, or `None`.
        filename: The name under which it is offered to browsers, with the stored format's extension.
        original_filename: The name that it came with, freed of paths and control characters.
        description: Up to 2,000 characters.
        is_public: Whether it is shown in the gallery, and served to everybody.
        format: The stored format.
        size: Bytes of the master.
        width: Pixels of the upright picture.
        height: The same.
        frames: 1, or more for an animation.
        has_alpha: Whether a pixel of it is not opaque.
        sha256: Of the master's bytes, 64 hexadecimal digits.
        placeholder: A ThumbHash, base64.
        created_at: When it was uploaded, in UTC.
        updated_at: When its record last changed, in UTC.
        rungs: The sizes of the reductions beside the master, largest first, in pixels.
    """

    id: ImageId
    account_id: AccountId
    album_id: AlbumId | None
    filename: str
    original_filename: str
    description: str
    is_public: bool
    format: Format
    size: int
    width: int
    height: int
    frames: int
    has_alpha: bool
    sha256: str
    placeholder: str
    created_at: datetime
    updated_at: datetime
    derivatives: tuple[tuple[int, int], ...] = ()

    @property
    def mime_type(self) -> str:
        """The media type of the master."""
        return FORMATS[self.format].media_type

    @property
    def is_animated(self) -> bool:
        """Whether it has more than one frame."""
        return self.frames > 1


@frozen(kw_only=True)
class Album:
    """A group of images of one account.

    Attributes:
        id: A positive integer.
        account_id: Whose it is.
        name: 1–100 characters.
        description: Up to 2,000 characters.
        is_public: A flag that is kept for the owner; the images' own flags decide what is shown.
        image_count: How many images are in it.
        cover: The image that stands for it: the newest in it, or `None`.
        created_at: When it was made, in UTC.
        updated_at: When its record or its membership last changed, in UTC.
    """

    id: AlbumId
    account_id: AccountId
    name: str
    description: str
    is_public: bool
    image_count: int
    cover: Image | None
    created_at: datetime
    updated_at: datetime


@frozen(kw_only=True)
class ApiKey:
    """A key of an account; its token is known to nobody but its holder.

    Attributes:
        id: 16 characters of base62.
        account_id: Whose it is.
        name: What its maker calls it.
        prefix: The first characters of the token, enough to tell keys apart.
        scopes: What it may do.
        expires_at: When it stops, or `None`.
        last_used_at: When it was last used, to the minute, or `None`.
        created_at: When it was made, in UTC.
        revoked_at: When it was revoked, or `None`.
    """

    id: KeyId
    account_id: AccountId
    name: str
    prefix: str
    scopes: frozenset[Scope]
    expires_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime
    revoked_at: datetime | None


@frozen
class ApiKeyWithToken:
    """A key just made, with the one sight of its token."""

    key: ApiKey
    token: str = field(repr=False)


@frozen
class SessionWithToken:
    """A session just begun, with the one sight of its token.

    Attributes:
        account: Whose it is.
        token: What the requests of it carry.
        expires_at: When it ends by itself, in UTC.
    """

    account: Account
    token: str = field(repr=False)
    expires_at: datetime


@frozen
class AccountUsage:
    """What an account has stored.

    Attributes:
        images: How many images.
        albums: How many albums.
        bytes: Of its masters.
    """

    images: int
    albums: int
    bytes: int


class DeliveryState(StrEnum):
    """What came of a webhook delivery so far."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@frozen(kw_only=True)
class Webhook:
    """A destination of events.

    Attributes:
        id: 16 characters of base62.
        account_id: Whose events it gets.
        url: Where they are sent.
        events: The kinds that it gets; empty: all.
        description: Up to 2,000 characters.
        is_active: Whether anything is sent.
        created_at: When it was made, in UTC.
        disabled_reason: Why we stopped sending, or `None`.
    """

    id: WebhookId
    account_id: AccountId
    url: str
    events: tuple[str, ...]
    description: str
    is_active: bool
    created_at: datetime
    disabled_reason: str | None = None


@frozen
class WebhookWithSecret:
    """A destination with the one sight of its secret: just made, or just rotated."""

    webhook: Webhook
    secret: str = field(repr=False)


@frozen(kw_only=True)
class WebhookDelivery:
    """One event on its way to one destination.

    Attributes:
        id: 16 characters of base62.
        webhook_id: To which destination.
        event_id: The `webhook-id` of every attempt.
        type: The kind of the event.
        state: What came of it so far.
        attempts: How many attempts were made.
        next_attempt_at: When the next is due, or `None`.
        created_at: When the event happened, in UTC.
        last_attempt_at: When the last attempt was made, or `None`.
        last_status: The HTTP status of its answer, or `None` where there was none.
        last_duration_ms: How long it took, in milliseconds, or `None`.
        last_answer: The first bytes of its answer, or why there was none.
    """

    id: DeliveryId
    webhook_id: WebhookId
    event_id: EventId
    type: str
    state: DeliveryState
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    last_attempt_at: datetime | None = None
    last_status: int | None = None
    last_duration_ms: int | None = None
    last_response: str = ""


@frozen
class Principal:
    """Who is asking, and what the token that was shown allows."""

    account: Account
    scopes: frozenset[Scope]
    key_id: KeyId | None = None

    @property
    def is_session(self) -> bool:
        """Whether the token is a session's: it alone manages keys (contract 8)."""
        return self.key_id is None


@frozen
class Page(Generic[T]):
    """A part of a list, newest first.

    Attributes:
        items: What is on it.
        page: Its number, from 1.
        per_page: How many items a page holds at most.
        total: How many items the whole list has.
        next_cursor: Where to walk on, or `None` at the end.
    """

    items: tuple[T, ...]
    page: int
    per_page: int
    total: int
    next_cursor: str | None

    @classmethod
    def empty(cls, page: int, per_page: int) -> Page[T]:
        """Return a page of a list that has nothing."""
        return cls((), page, per_page, 0, None)

    @property
    def total_pages(self) -> int:
        """How many pages the whole list has; 0 where it is empty."""
        return -(-self.total // self.per_page)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
