"""Results of calls, as frozen values.

Unknown fields are dropped and unknown enum values stay strings, so a client works with newer hosts.
Every result has a `meta` attribute with the request id and the rate limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from attrs import field, frozen

T = TypeVar("T")


class Format(StrEnum):
    """A stored image format."""

    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"
    GIF = "gif"
    AVIF = "avif"


class MemberStatus(StrEnum):
    """The outcome for one image of `add_images` or `remove_images`."""

    ADDED = "added"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    NOT_FOUND = "not_found"


class EventKind(StrEnum):
    """The kind of a webhook event."""

    IMAGE_UPLOADED = "image.uploaded"
    IMAGE_DELETED = "image.deleted"
    ALBUM_CREATED = "album.created"
    ALBUM_UPDATED = "album.updated"


@frozen
class RateLimit:
    """The state of the rate limit window with the fewest requests remaining.

    Attributes:
        limit: Requests allowed in the window.
        remaining: Requests left in the window.
        reset: The end of the window.
    """

    limit: int
    remaining: int
    reset: datetime


@frozen
class ResponseMeta:
    """Metadata of a response.

    Attributes:
        request_id: The value of `X-Request-Id`.
        rate_limit: The rate limit, where the response has its headers.
        replayed: Whether the host replayed the response to an earlier request with the same
            `Idempotency-Key`.
        attempts: The number of requests sent, from 1.
    """

    request_id: str | None = None
    rate_limit: RateLimit | None = None
    replayed: bool = False
    attempts: int = 1


@frozen(kw_only=True)
class Result:
    """The base class of results; `meta` is ignored by comparisons."""

    meta: ResponseMeta = field(factory=ResponseMeta, eq=False, repr=False)


@frozen(kw_only=True)
class Links:
    """Markup for embedding an image."""

    url: str
    html: str
    markdown: str
    bbcode: str


@frozen(kw_only=True)
class Image(Result):
    """An uploaded image.

    Attributes:
        size: The size of the stored file, in bytes.
        width: Pixels.
        height: Pixels.
        frames: The number of frames; 1 for a still image.
        sha256: The SHA-256 of the stored file, in hexadecimal. It differs from that of the uploaded
            file where the host has re-encoded the image, as it does by default.
        placeholder: A ThumbHash in base64, for display while the image loads.
        url: The delivery URL of the stored file.
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
    """The public fields of an image, as listed in the gallery."""

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
class PublicAlbum:
    """The public fields of an album, as shown with its images in the gallery.

    Attributes:
        image_count: The number of its public images.
    """

    id: int
    name: str
    description: str = ""
    image_count: int = 0
    cover_image_id: str | None = None
    cover_url: str | None = None


@frozen(kw_only=True)
class Album(Result):
    """An album."""

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
    """The result of a deletion."""

    id: str
    deleted: bool = True


@frozen(kw_only=True)
class DeletedAlbum(Result):
    """The result of deleting an album."""

    id: int
    deleted: bool = True


@frozen(kw_only=True)
class Member:
    """The outcome for one image of `add_images` or `remove_images`."""

    image_id: str
    status: MemberStatus | str


@frozen(kw_only=True)
class Membership(Result):
    """The result of `add_images` and `remove_images`."""

    results: tuple[Member, ...]
    album: Album


@frozen(kw_only=True)
class SignedUrl(Result):
    """A delivery URL that needs no token until it expires."""

    url: str
    expires_at: datetime | None = None


@frozen(kw_only=True)
class Rendered(Result):
    """A rendered image.

    Attributes:
        data: The encoded image.
        media_type: The content type, such as `image/webp`.
        etag: The entity tag, if the response has one.
    """

    data: bytes = field(repr=False)
    media_type: str
    etag: str | None = None


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
class Webhook(Result):
    """A webhook: an endpoint that receives events."""

    id: str
    url: str
    events: tuple[EventKind | str, ...]
    description: str = ""
    is_active: bool
    created_at: datetime
    disabled_reason: str | None = None


@frozen(kw_only=True)
class WebhookWithSecret(Webhook):
    """A webhook with its signing secret, returned only on creation and rotation; `repr` hides it."""

    secret: str = field(repr=False)


@frozen(kw_only=True)
class WebhookDelivery(Result):
    """The delivery of one event to one webhook.

    Attributes:
        event_id: The `webhook-id` header of every attempt.
        event: The kind of the event; `webhook.test` for a test event.
        status: `pending`, `delivered` or `failed`; newer hosts may return other values.
        attempts: The number of attempts so far.
        next_attempt_at: The time of the next attempt; `None` if no attempt is scheduled.
        response_status: The HTTP status of the response to the last attempt.
        response_excerpt: The beginning of that response's body.
        duration_ms: The duration of the last attempt, in milliseconds.
        error: The reason why the last attempt got no response.
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
class Page(Result, Generic[T]):
    """One page of a list.

    Attributes:
        items: The records, in the order of the list.
        page: The number of the page, from 1; `None` for a page requested by cursor.
        per_page: The page size.
        total: The number of records on all pages; `None` if the host does not count them, as for a list
            with `q`, `format` or dates.
        total_pages: The number of pages; `None` if the host does not count the records.
        next_cursor: The cursor of the next page; `None` on the last page.
        album: The album of `gallery(album_id=…)`; `None` for every other list.
    """

    items: tuple[T, ...]
    page: int | None
    per_page: int
    total: int | None
    total_pages: int | None
    next_cursor: str | None = None
    album: PublicAlbum | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
