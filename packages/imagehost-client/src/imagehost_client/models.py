"""Results of calls, as frozen values.

Unknown fields are dropped and unknown enum values stay strings, so a client works with newer hosts.
Every result has a `meta` attribute with the request id and the rate limit.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from attrs import field, fields, frozen, has

__all__ = [
    "Account",
    "AccountLimits",
    "AccountOverview",
    "AccountSummary",
    "AccountUsage",
    "Album",
    "AlbumShare",
    "ApiKey",
    "ApiKeyWithToken",
    "BulkError",
    "BulkResult",
    "BulkStatus",
    "BulkStatusName",
    "Deleted",
    "DeletedAlbum",
    "DeliveryEventName",
    "DeliveryStatus",
    "DeliveryStatusName",
    "DownloadedImage",
    "EventKind",
    "EventName",
    "Format",
    "FormatName",
    "Image",
    "ImageHead",
    "Links",
    "Member",
    "MemberStatus",
    "MemberStatusName",
    "Membership",
    "Page",
    "PasswordChanged",
    "PublicAlbum",
    "PublicImage",
    "Quota",
    "RateLimit",
    "RateLimitWindow",
    "RawResponse",
    "Rendered",
    "ResponseMeta",
    "Result",
    "ResultList",
    "Role",
    "RoleName",
    "Scope",
    "Session",
    "SessionWithToken",
    "SignedImageUrl",
    "SignedUrl",
    "SigningSecretRenewed",
    "Webhook",
    "WebhookDelivery",
    "WebhookWithSecret",
]

T = TypeVar("T")


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

    def to_dict(self) -> dict[str, object]:
        """Return the result as a JSON object, without `meta`; times are in RFC 3339, bytes in base64.

        Tokens and secrets are included.
        """
        return {
            attribute.name: _to_json(getattr(self, attribute.name))
            for attribute in fields(type(self))
            if attribute.name != "meta"
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the result as the text of a JSON object, as `to_dict` does.

        Args:
            indent: The number of spaces of each level; `None` for one line.
        """
        import json  # not needed before the first result

        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)


def _to_json(value: object) -> object:
    if isinstance(value, Result):
        return value.to_dict()
    kind = type(value)
    if has(kind):
        return {one.name: _to_json(getattr(value, one.name)) for one in fields(kind)}
    if isinstance(value, (tuple, list)):
        return [_to_json(item) for item in value]
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value) if isinstance(value, Enum) else value


def rfc3339(time: datetime) -> str:
    """Return a time in RFC 3339, in UTC with `Z`.

    Raises:
        ValueError: The time has no UTC offset.
    """
    if time.tzinfo is None:
        raise ValueError(f"expected a time with a UTC offset but received {time.isoformat()}")
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


@frozen(kw_only=True)
class RawResponse(Generic[T]):
    """A response as it was received, and the result decoded from it.

    Attributes:
        status: The HTTP status.
        headers: The headers; names are in lower case.
        content: The body.
        parsed: What the method returns without `with_raw_response`.
        meta: The request id, the rate limit and the number of attempts.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    parsed: T
    meta: ResponseMeta = field(factory=ResponseMeta, repr=False)

    @property
    def request_id(self) -> str | None:
        """The value of `X-Request-Id`."""
        return self.meta.request_id


@frozen(kw_only=True)
class ResultList(Result, Generic[T]):
    """A part of a list of results: those of one request."""

    items: tuple[T, ...]


@frozen(kw_only=True)
class Deleted(Result):
    """The result of a deletion."""

    id: str
    deleted: bool = True


class Format(StrEnum):
    """A stored image format."""

    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"
    GIF = "gif"
    AVIF = "avif"
    if TYPE_CHECKING:
        _other = ""  # mypy contracts a literal of all members to their class, which it compares with any text


FormatName = Literal[
    "jpeg", "png", "webp", "gif", "avif", Format.JPEG, Format.PNG, Format.WEBP, Format.GIF, Format.AVIF
]
"""The format of an image; type checkers report comparisons with other names. Newer hosts may have others."""


class BulkStatus(StrEnum):
    """The outcome for one image of `update_many` or `delete_many`."""

    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    NOT_FOUND = "not_found"
    FAILED = "failed"
    if TYPE_CHECKING:
        _other = ""  # mypy contracts a literal of all members to their class, which it compares with any text


BulkStatusName = Literal[
    "updated",
    "unchanged",
    "deleted",
    "not_found",
    "failed",
    BulkStatus.UPDATED,
    BulkStatus.UNCHANGED,
    BulkStatus.DELETED,
    BulkStatus.NOT_FOUND,
    BulkStatus.FAILED,
]
"""The name of an outcome. Newer hosts may have others."""


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
        taken_at: When the photograph was taken, as the EXIF of the uploaded file said.
        delete_url: The page on which anyone can delete the image for 30 days; only of an upload with
            `delete_url=True`, to a host that has pages.
        is_reused: Whether the image was there before an upload; only of one with `reuse=True`.
    """

    id: str
    album_id: int | None
    filename: str
    original_filename: str
    description: str
    is_public: bool
    format: FormatName
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
    taken_at: datetime | None = None
    delete_url: str | None = field(default=None, repr=False)
    is_reused: bool | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the image as the JSON object of the host, which has some members only where asked for."""
        document = super().to_dict()
        for name in ("delete_url", "is_reused"):
            if document[name] is None:
                del document[name]
        return document

    def __repr__(self) -> str:
        return f"<Image {self.id} {self.filename!r} {self.width}x{self.height} {self.url}>"

    def _repr_html_(self) -> str:
        return _thumbnail(self)


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

    def __repr__(self) -> str:
        return f"<PublicImage {self.id} {self.width}x{self.height} {self.url}>"

    def _repr_html_(self) -> str:
        return _thumbnail(self)


def _thumbnail(image: Image | PublicImage) -> str:
    """Return the HTML with which notebooks display an image: its thumbnail, linked to the image."""
    from html import escape  # slow to import

    url = escape(image.url)
    thumb_url = escape(image.thumb_url)
    text = escape(image.description or image.id)
    return f'<a href="{url}" title="{text}"><img src="{thumb_url}" alt="{text}" loading="lazy"></a>'


@frozen(kw_only=True)
class BulkError:
    """The error of one image of `update_many` or `delete_many`."""

    code: str
    message: str
    details: str = ""


@frozen(kw_only=True)
class BulkResult(Result):
    """The outcome for one image of `update_many` or `delete_many`.

    Attributes:
        status: The outcome; `failed` means that the image is deleted and some of its files are not yet,
            which the host repeats.
        error: The error, if the image was not found or the deletion failed.
        made_private: Whether the image has become private, as it has left a private album.
    """

    id: str
    status: BulkStatusName
    error: BulkError | None = None
    made_private: bool = False


@frozen(kw_only=True)
class SignedUrl(Result):
    """A delivery URL that needs no token until it expires."""

    url: str
    expires_at: datetime


@frozen(kw_only=True)
class SignedImageUrl(SignedUrl):
    """One of several signed URLs."""

    image_id: str


@frozen(kw_only=True)
class Rendered(Result):
    """A rendered image.

    Attributes:
        data: The encoded image.
        media_type: The content type, such as `image/webp`.
        width: Pixels, of a format that this client knows; otherwise 0.
        height: Pixels, of a format that this client knows; otherwise 0.
        etag: The entity tag; "" if the response has none.
        not_modified: Whether the image has the entity tag of `if_none_match`. Then `data` and `media_type`
            are empty, and `width` and `height` are 0.
    """

    data: bytes = field(repr=False)
    media_type: str
    width: int = 0
    height: int = 0
    etag: str = ""
    not_modified: bool = False


@frozen(kw_only=True)
class DownloadedImage(Result):
    """The bytes of an image that were written to a file.

    Attributes:
        path: The path of the file; `None` if it was an open file.
        size: The number of bytes.
        media_type: The content type, such as `image/webp`.
        sha256: The SHA-256 of the bytes, in hexadecimal.
        etag: The entity tag; "" if the response has none.
        not_modified: Whether the image has the entity tag of `if_none_match`, so that nothing was written.
    """

    path: Path | None
    size: int
    media_type: str
    sha256: str
    etag: str = ""
    not_modified: bool = False


@frozen(kw_only=True)
class ImageHead(Result):
    """The headers of a response with an image.

    Attributes:
        media_type: The content type.
        offset: The position of the first byte of the response in the image.
        size: The number of bytes of the whole image, if the response has it.
        etag: The entity tag; "" if the response has none.
        not_modified: Whether the image has the entity tag of the request, and the response no body.
    """

    media_type: str
    offset: int = 0
    size: int | None = None
    etag: str = ""
    not_modified: bool = False


class MemberStatus(StrEnum):
    """The outcome for one image of `add_images` or `remove_images`."""

    ADDED = "added"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    NOT_FOUND = "not_found"
    if TYPE_CHECKING:
        _other = ""  # mypy contracts a literal of all members to their class, which it compares with any text


MemberStatusName = Literal[
    "added",
    "removed",
    "unchanged",
    "not_found",
    MemberStatus.ADDED,
    MemberStatus.REMOVED,
    MemberStatus.UNCHANGED,
    MemberStatus.NOT_FOUND,
]
"""The name of an outcome. Newer hosts may have others."""


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
    """An album.

    Attributes:
        public_image_count: How many of its images are public: anyone who knows their URLs gets them, also if
            the album is private.
    """

    id: int
    name: str
    description: str
    is_public: bool
    image_count: int
    public_image_count: int
    cover_image_id: str | None
    cover_url: str | None
    created_at: datetime
    updated_at: datetime


@frozen(kw_only=True)
class DeletedAlbum(Result):
    """The result of deleting an album.

    Attributes:
        made_private_count: How many of its public images have become private, as the album was private.
    """

    id: int
    deleted: bool = True
    made_private_count: int = 0


@frozen(kw_only=True)
class AlbumShare(Result):
    """A share link of an album; its `url` is returned only on creation, and hidden by `repr`."""

    id: str
    url: str | None = field(default=None, repr=False)
    has_password: bool
    created_at: datetime
    expires_at: datetime | None = None


@frozen(kw_only=True)
class Member:
    """The outcome for one image of `add_images` or `remove_images`.

    Attributes:
        made_private: Whether the image has become private, as it has left a private album.
    """

    image_id: str
    status: MemberStatusName
    made_private: bool = False


@frozen(kw_only=True)
class Membership(Result):
    """The result of `add_images` and `remove_images`.

    Attributes:
        made_private_count: How many images have become private, as they have left a private album.
    """

    results: tuple[Member, ...]
    album: Album
    made_private_count: int = 0


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
    if TYPE_CHECKING:
        _other = ""  # mypy contracts a literal of all members to their class, which it compares with any text


RoleName = Literal["user", "operator", Role.USER, Role.OPERATOR]
"""The name of a role. Newer hosts may have others."""


@frozen(kw_only=True)
class AccountSummary(Result):
    """The name, role and creation time of an account."""

    name: str
    role: RoleName = Role.USER
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

    id: str
    token: str = field(repr=False)
    expires_at: datetime
    account: AccountSummary


@frozen(kw_only=True)
class PasswordChanged(Result):
    """The result of changing the password."""

    changed: bool = True


@frozen(kw_only=True)
class SigningSecretRenewed(Result):
    """The result of ending all signed URLs.

    Attributes:
        signing_key: The new key for `urls.sign`, which the host does not return again.
    """

    renewed: bool = True
    signing_key: str = field(default="", repr=False)


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
class AccountOverview(Result):
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
class Account(Result):
    """An account, as operators see it.

    Attributes:
        limits: The limits that differ from the host's.
        quota_bytes: The quota in bytes; `None` is the host's, and 0 is unlimited.
        suspended: Whether tokens and sign-in are refused, images are not found, and webhooks are paused.
    """

    id: int
    name: str
    role: RoleName
    limits: AccountLimits
    quota_bytes: int | None = None
    suspended: bool = False
    created_at: datetime
    usage: AccountUsage


class EventKind(StrEnum):
    """The kind of a webhook event."""

    IMAGE_UPLOADED = "image.uploaded"
    IMAGE_DELETED = "image.deleted"
    ALBUM_CREATED = "album.created"
    ALBUM_UPDATED = "album.updated"
    if TYPE_CHECKING:
        _other = ""  # mypy contracts a literal of all members to their class, which it compares with any text


EventName = Literal[
    "image.uploaded",
    "image.deleted",
    "album.created",
    "album.updated",
    EventKind.IMAGE_UPLOADED,
    EventKind.IMAGE_DELETED,
    EventKind.ALBUM_CREATED,
    EventKind.ALBUM_UPDATED,
]
"""The name of a kind of webhook events. Newer hosts may have others."""
DeliveryEventName = Literal["webhook.test", EventName]
"""The name of a kind of events in deliveries."""


@frozen(kw_only=True)
class Webhook(Result):
    """A webhook: an endpoint that receives events."""

    id: str
    url: str
    events: tuple[EventName, ...]
    description: str = ""
    is_active: bool
    created_at: datetime
    disabled_reason: str | None = None


@frozen(kw_only=True)
class WebhookWithSecret(Webhook):
    """A webhook with its signing secret, returned only on creation and rotation; `repr` hides it."""

    secret: str = field(repr=False)


class DeliveryStatus(StrEnum):
    """The outcome of a webhook delivery."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    if TYPE_CHECKING:
        _other = ""  # mypy contracts a literal of all members to their class, which it compares with any text


DeliveryStatusName = Literal[
    "pending", "delivered", "failed", DeliveryStatus.PENDING, DeliveryStatus.DELIVERED, DeliveryStatus.FAILED
]
"""The name of an outcome. Newer hosts may have others."""


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
    event: DeliveryEventName
    status: DeliveryStatusName
    attempts: int
    next_attempt_at: datetime | None = None
    created_at: datetime
    last_attempt_at: datetime | None = None
    response_status: int | None = None
    response_excerpt: str = ""
    duration_ms: int | None = None
    error: str | None = None
