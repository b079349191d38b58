"""What the host answers with, as frozen values.

Unknown fields are dropped and unknown kinds stay plain text, so a newer host breaks no older client.
Every result of a call carries `meta`: the request's id and the state of the rate limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from attrs import field, frozen

T = TypeVar("T")


class Format(StrEnum):
    """An image format, as records and upload options name it."""

    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"
    GIF = "gif"
    AVIF = "avif"


class MemberStatus(StrEnum):
    """What became of one image in a call that changes an album's members."""

    ADDED = "added"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    NOT_FOUND = "not_found"


class EventKind(StrEnum):
    """The kinds of events that webhooks bring."""

    IMAGE_UPLOADED = "image.uploaded"
    IMAGE_DELETED = "image.deleted"
    ALBUM_CREATED = "album.created"
    ALBUM_UPDATED = "album.updated"


@frozen
class RateLimit:
    """The window of the rate limit that will refuse first.

    Attributes:
        limit: Requests allowed in the window.
        remaining: Requests left in it.
        reset: When it ends.
    """

    limit: int
    remaining: int
    reset: datetime


@frozen
class ResponseMeta:
    """What an answer says beside its data.

    Attributes:
        request_id: The answer's `X-Request-Id`.
        rate_limit: The state of the rate limit, where the answer gives one.
        replayed: Whether the host gave the first answer to a repeated `Idempotency-Key` again.
        tries: How many times the request was sent.
    """

    request_id: str | None = None
    rate_limit: RateLimit | None = None
    replayed: bool = False
    tries: int = 1


@frozen(kw_only=True)
class Result:
    """The base of everything that a call returns; `meta` takes no part in comparisons."""

    meta: ResponseMeta = field(factory=ResponseMeta, eq=False, repr=False)


@frozen(kw_only=True)
class Links:
    """Ready text that shows an image elsewhere."""

    url: str
    html: str
    markdown: str
    bbcode: str


@frozen(kw_only=True)
class Image(Result):
    """An uploaded image.

    Attributes:
        size: Bytes of the stored file.
        width: Pixels.
        height: Pixels.
        frames: 1, or the number of frames of an animation.
        sha256: Of the stored bytes, in hexadecimal. The host re-encodes by default, so these are
            seldom the bytes that were sent.
        placeholder: A ThumbHash in base64, to show while the image loads.
        url: The stored file's address.
    """

    id: str
    album_id: int | None
    filename: str
    original_filename: str
    description: str
    is_public: bool
    format: Format | str
    mime_type: str
    size: int
    width: int
    height: int
    is_animated: bool
    frames: int
    has_alpha: bool
    sha256: str
    placeholder: str
    url: str
    thumb_url: str
    links: Links
    created_at: datetime
    updated_at: datetime


@frozen(kw_only=True)
class PublicImage(Result):
    """An image as the public gallery shows it."""

    id: str
    description: str
    width: int
    height: int
    is_animated: bool
    placeholder: str
    url: str
    thumb_url: str
    created_at: datetime


@frozen(kw_only=True)
class Album(Result):
    """A group of images."""

    id: int
    name: str
    description: str
    is_public: bool
    image_count: int
    cover_image_id: str | None
    cover_url: str | None
    created_at: datetime
    updated_at: datetime


@frozen(kw_only=True)
class Deleted(Result):
    """The answer to a delete.

    Attributes:
        deleted: `True`.
    """

    id: str
    deleted: bool = True


@frozen(kw_only=True)
class DeletedAlbum(Result):
    """The answer to deleting an album.

    Attributes:
        deleted: `True`.
    """

    id: int
    deleted: bool = True


@frozen(kw_only=True)
class Member:
    """What became of one image of a membership call."""

    image_id: str
    status: MemberStatus | str


@frozen(kw_only=True)
class Membership(Result):
    """The answer to adding images to an album or removing them from it."""

    results: tuple[Member, ...]
    album: Album


@frozen(kw_only=True)
class SignedUrl(Result):
    """A delivery address that works without a token until it expires."""

    url: str
    expires_at: datetime | None = None


@frozen(kw_only=True)
class Rendered(Result):
    """A picture as the processing route delivers it.

    Attributes:
        data: Its bytes.
        media_type: Such as `image/webp`.
        etag: What tells it from other bytes at the same address; `None` where the host says none.
    """

    data: bytes = field(repr=False)
    media_type: str
    etag: str | None = None


@frozen(kw_only=True)
class AccountSummary(Result):
    """The account itself."""

    name: str
    created_at: datetime


@frozen(kw_only=True)
class Session(Result):
    """A sign-in. Its token acts with all scopes, and alone manages keys; `repr` hides it."""

    token: str = field(repr=False)
    expires_at: datetime
    account: AccountSummary


@frozen(kw_only=True)
class SignedOut(Result):
    """The answer to ending a session."""


@frozen(kw_only=True)
class ApiKey(Result):
    """An API key; its token was shown once, when it was made."""

    id: str
    name: str
    prefix: str
    scopes: tuple[str, ...]
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    created_at: datetime
    revoked_at: datetime | None = None


@frozen(kw_only=True)
class NewApiKey(ApiKey):
    """An API key with its token, which the host never shows again; `repr` hides it."""

    token: str = field(repr=False)


@frozen(kw_only=True)
class Webhook(Result):
    """A destination of events."""

    id: str
    url: str
    events: tuple[EventKind | str, ...]
    description: str = ""
    is_active: bool
    created_at: datetime
    disabled_reason: str | None = None


@frozen(kw_only=True)
class NewWebhook(Webhook):
    """A destination with its signing secret, which the host never shows again; `repr` hides it."""

    secret: str = field(repr=False)


@frozen(kw_only=True)
class WebhookDelivery(Result):
    """One event on its way to one destination.

    Attributes:
        webhook_id: The destination's id.
        event_id: The `webhook-id` of every attempt.
        event: The event's kind; `webhook.test` where a test was asked for.
        status: `pending`, `delivered`, `failed` or what else the host says.
        attempts: How many were made.
        next_attempt_at: When the next attempt is due; `None` where there is to be none.
        response_status: The HTTP status of the last attempt's answer.
        response_excerpt: The first bytes of that answer.
        duration_ms: How long the last attempt took, in milliseconds.
        error: Why the last attempt had no answer.
    """

    id: str
    webhook_id: str
    event_id: str
    event: EventKind | str
    status: str
    attempts: int
    next_attempt_at: datetime | None = None
    created_at: datetime
    last_attempt_at: datetime | None = None
    response_status: int | None = None
    response_excerpt: str = ""
    duration_ms: int | None = None
    error: str | None = None


@frozen(kw_only=True)
class Usage:
    """What an account uses: bytes of stored files, images, and albums."""

    bytes: int
    images: int
    albums: int = 0


@frozen(kw_only=True)
class Quota:
    """What an account may use, in bytes; `None` means without bounds."""

    bytes: int | None = None
    remaining: int | None = None


@frozen(kw_only=True)
class RateLimitWindow:
    """One window of the rate limits, by name."""

    name: str
    limit: int
    remaining: int
    reset: datetime


@frozen(kw_only=True)
class Account(Result):
    """The caller's account: usage, quota and limits."""

    account: AccountSummary
    usage: Usage
    quota: Quota
    limits: tuple[RateLimitWindow, ...] = ()


@frozen(kw_only=True)
class Page(Result, Generic[T]):
    """One page of a list.

    Attributes:
        items: The records, newest first.
        page: The page's number, from 1.
        per_page: The most records that a page has.
        total: The records on all pages.
        total_pages: The number of pages.
        next_cursor: What the next page is asked for by; `None` on the last one.
    """

    items: tuple[T, ...]
    page: int
    per_page: int
    total: int
    total_pages: int
    next_cursor: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
