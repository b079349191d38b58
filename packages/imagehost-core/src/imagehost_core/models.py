"""Stored resources as immutable values: accounts, images, albums, keys, sessions and webhooks.

Images know their URLs, which a `UrlBuilder` makes of the configured `base_url` and `cdn_url`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING, Generic, Literal, TypedDict, TypeVar

from attrs import asdict, field, frozen
from attrs.validators import ge, optional

from imagehost_core.errors import BaseUrlError
from imagehost_core.formats import FORMATS, Format, FormatName
from imagehost_core.ids import (
    AccountId,
    AlbumId,
    DeliveryId,
    EventId,
    ImageId,
    KeyId,
    SessionId,
    ShareId,
    WebhookId,
)
from imagehost_core.records import Record

T = TypeVar("T")


class Scope(StrEnum):
    """A permission of an API key."""

    IMAGES_READ = "images:read"
    IMAGES_WRITE = "images:write"
    IMAGES_DELETE = "images:delete"
    ALBUMS_READ = "albums:read"
    ALBUMS_WRITE = "albums:write"
    WEBHOOKS_MANAGE = "webhooks:manage"
    ACCOUNT_READ = "account:read"
    if TYPE_CHECKING:
        _other = ""  # mypy contracts a literal of all members to their class, which it compares with any text


ALL_SCOPES = frozenset(Scope)


ScopeName = (
    Scope
    | Literal[
        "images:read",
        "images:write",
        "images:delete",
        "albums:read",
        "albums:write",
        "webhooks:manage",
        "account:read",
    ]
)
"""A scope, or its name."""
KeyScope = Literal[
    "images:read",
    "images:write",
    "images:delete",
    "albums:read",
    "albums:write",
    "webhooks:manage",
    "account:read",
    Scope.IMAGES_READ,
    Scope.IMAGES_WRITE,
    Scope.IMAGES_DELETE,
    Scope.ALBUMS_READ,
    Scope.ALBUMS_WRITE,
    Scope.WEBHOOKS_MANAGE,
    Scope.ACCOUNT_READ,
]
"""A scope of a record, always a member; type checkers report comparisons with other names."""


class Role(StrEnum):
    """The role of an account: operators manage all accounts."""

    USER = "user"
    OPERATOR = "operator"
    if TYPE_CHECKING:
        _other = ""  # mypy contracts a literal of all members to their class, which it compares with any text


RoleName = Role | Literal["user", "operator"]
"""A role, or its name."""
AccountRole = Literal["user", "operator", Role.USER, Role.OPERATOR]
"""The role of a record, always a member; type checkers report comparisons with other names."""


@frozen(kw_only=True, cache_hash=True)
class AccountLimits:
    """The limits of an account: requests, and image ids of bulk requests.

    `None` is the host's limit, and 0 is unlimited.

    Attributes:
        api_per_minute: API requests per minute.
        api_per_hour: API requests per hour.
        api_per_day: API requests per day.
        uploads_per_minute: Upload requests per minute.
        bulk_ids_per_minute: Image ids in bulk requests per minute.
    """

    api_per_minute: int | None = field(default=None, validator=optional(ge(0)))
    api_per_hour: int | None = field(default=None, validator=optional(ge(0)))
    api_per_day: int | None = field(default=None, validator=optional(ge(0)))
    uploads_per_minute: int | None = field(default=None, validator=optional(ge(0)))
    bulk_ids_per_minute: int | None = field(default=None, validator=optional(ge(0)))


@frozen(kw_only=True)
class Account(Record):
    """A user of the host, the owner of images, albums, keys and webhooks.

    Attributes:
        id: The number of the account in this database; only operators see it.
        name: The unique name.
        created_at: The creation time, in UTC.
        role: Whether the account manages others.
        suspended_at: The time since which the account is suspended, or `None`.
        limits: The limits that differ from the host's.
        quota_bytes: The quota of masters in bytes; `None` is the host's, and 0 is unlimited.
    """

    _INTERNAL = frozenset({"is_active_operator", "suspended_at"})

    id: AccountId
    name: str
    created_at: datetime
    role: AccountRole = field(default=Role.USER, converter=Role)
    suspended_at: datetime | None = None
    limits: AccountLimits = AccountLimits()
    quota_bytes: int | None = field(default=None, validator=optional(ge(0)))

    @property
    def suspended(self) -> bool:
        """Whether tokens and sign-in are refused, images are not found, and webhooks are paused."""
        return self.suspended_at is not None

    @property
    def is_active_operator(self) -> bool:
        """Whether the account is an operator and not suspended."""
        return self.role is Role.OPERATOR and self.suspended_at is None


def own_limits(account: Account) -> dict[str, int | None]:
    """Return the limits and the quota that an account has in place of the host's, by name; `None`: none."""
    return {**asdict(account.limits), "quota_bytes": account.quota_bytes}


THUMB_SIDE = 320
"""The bounding box of `thumb_url`, in pixels. A smaller image is not enlarged."""
THUMB_FRAMES = 390
"""The longest animation that `thumb_url` keeps animated: the frames of 320×320 pixels that fit into the
largest output, 40 million pixels. A longer one is reduced to its first frame."""


@frozen(kw_only=True)
class Links:
    """Snippets that embed an image in a page or post.

    Attributes:
        url: The URL of the stored image.
        html: A snippet for web pages.
        markdown: A snippet for Markdown.
        bbcode: A snippet for forums.
    """

    url: str
    html: str
    markdown: str
    bbcode: str


@frozen(cache_hash=True)
class UrlBuilder:
    """Builder of image URLs; without a base URL, its methods raise `BaseUrlError`.

    `base_url` is the URL of the HTTP interface, ending in `/v1`, and `cdn_url` that of the image delivery
    route. Each is "" if there is none, and neither has a trailing slash. `share` is the id of the share that
    gives access to private images, or "".
    """

    _base_url: str = ""
    _cdn_url: str = ""
    share: str = ""

    def __bool__(self) -> bool:
        return bool(self._cdn_url)

    @property
    def base_url(self) -> str:
        """The URL of the HTTP interface, ending in `/v1`."""
        return _require_url(self._base_url, "base_url")

    @property
    def cdn_url(self) -> str:
        """The URL of the image delivery route."""
        return _require_url(self._cdn_url, "base_url or cdn_url")

    def image(self, image: Image, query: str = "", extension: str | None = None) -> str:
        """Return the delivery URL of an image or of a variant of it.

        Args:
            image: The image.
            query: The canonical query of a transform (`Transform.to_query`), or "".
            extension: The extension without its dot; by default that of the stored format.
        """
        suffix = extension or FORMATS[Format(image.format)].extensions[0]
        share = f"share={self.share}" if self.share and not image.is_public else ""
        parameters = "&".join(filter(None, (query, share)))
        return f"{self.cdn_url}/{image.id}.{suffix}" + (f"?{parameters}" if parameters else "")

    def thumb(self, image: Image) -> str:
        """Return the URL of an image's thumbnail, within 320×320 pixels.

        The thumbnail is a WebP, or a JPEG if the image is an animation of more than `THUMB_FRAMES` frames.
        """
        fmt = Format.WEBP if image.frames <= THUMB_FRAMES else Format.JPEG
        fits = max(image.width, image.height) <= THUMB_SIDE
        query = "" if fits else f"w={THUMB_SIDE}&h={THUMB_SIDE}&fit=inside"
        return self.image(image, query, FORMATS[fmt].extensions[0])

    def links(self, image: Image) -> Links:
        """Return snippets that embed an image."""
        return embed_links(self.image(image), image.description, image.filename, image.width, image.height)


NO_URLS = UrlBuilder()
"""The URLs of a host without a base URL."""


def embed_links(url: str, description: str, filename: str, width: int, height: int) -> Links:
    """Return snippets that embed the image at a URL, escaped for HTML, Markdown and BBCode."""
    text = " ".join(description.split()) or filename
    return Links(
        url=url,
        html=f'<img src="{escape(url)}" alt="{escape(text)}" width="{width}" height="{height}">',
        markdown=f"![{_markdown(text)}]({url})",
        bbcode=f"[img]{url}[/img]",
    )


def _require_url(url: str, setting: str) -> str:
    if not url:
        raise BaseUrlError(
            f"expected a host with the setting {setting} but it has none: "
            'open it with settings=Settings(base_url="https://…/v1")'
        )
    return url


def _markdown(text: str) -> str:
    """Escape the characters that are special between the brackets of a Markdown image."""
    return text.translate(_MARKUP)


_MARKUP = str.maketrans({char: f"\\{char}" for char in "\\`*_~|[]()!<>&"})
"""The special characters of CommonMark and of the common extensions for tables and strikethrough."""


@frozen(kw_only=True, cache_hash=True)
class Image(Record):
    """An uploaded image.

    Attributes:
        id: 16 characters of base62.
        account_id: The owner.
        album_id: The album that contains the image, or `None`.
        filename: The download name, with the extension of the stored format.
        original_filename: The uploaded file's name, without path and control characters.
        description: Up to 2,000 characters.
        is_public: Whether the image is delivered without a token, and listed by galleries if its album is.
        format: The stored format.
        size: The size of the master, in bytes.
        width: Pixels, after EXIF orientation is applied.
        height: Pixels, after EXIF orientation is applied.
        frames: 1, or more for an animation.
        has_alpha: Whether any pixel is not opaque.
        sha256: The SHA-256 of the master, 64 hexadecimal digits.
        placeholder: A ThumbHash, in base64.
        created_at: The upload time, in UTC: when the file was complete.
        updated_at: The time of the last change of the record, in UTC.
        taken_at: When the photograph was taken, as its EXIF said at the upload, or `None`. A time without a
            zone counts as UTC.
        derivatives: The sizes of the stored derivatives, largest first, in pixels.
        derivative_checksums: The CRC-32 of the file of each; empty if none was recorded.
        urls: The builder of the URLs of the host that has the image.
        is_reused: Whether the image was there before an upload; only of one with `reuse`.
    """

    _INTERNAL = frozenset({"account_id", "derivative_checksums", "derivatives", "urls"})

    id: ImageId
    account_id: AccountId
    album_id: AlbumId | None
    filename: str
    original_filename: str
    description: str
    is_public: bool
    format: FormatName = field(converter=Format)
    size: int
    width: int
    height: int
    frames: int
    has_alpha: bool
    sha256: str
    placeholder: str
    created_at: datetime
    updated_at: datetime
    taken_at: datetime | None = None
    derivatives: tuple[tuple[int, int], ...] = ()
    derivative_checksums: tuple[int, ...] = ()
    urls: UrlBuilder = field(default=NO_URLS, repr=False)
    is_reused: bool | None = field(default=None, eq=False)

    @property
    def url(self) -> str | None:
        """The delivery URL of the master; `None` if the host has no base URL."""
        return self.urls.image(self) if self.urls else None

    @property
    def thumb_url(self) -> str | None:
        """The URL of a thumbnail within 320×320 pixels; `None` if the host has no base URL."""
        return self.urls.thumb(self) if self.urls else None

    @property
    def links(self) -> Links | None:
        """Snippets that embed the image; `None` if the host has no base URL."""
        return self.urls.links(self) if self.urls else None

    @property
    def mime_type(self) -> str:
        """The media type of the master."""
        return FORMATS[Format(self.format)].media_type

    @property
    def is_animated(self) -> bool:
        """Whether the image has more than one frame."""
        return self.frames > 1

    def to_dict(self) -> dict[str, object]:
        """Return the image as the JSON object of the HTTP interface; `is_reused` only where it is set."""
        document = super().to_dict()
        if self.is_reused is None:
            del document["is_reused"]
        return document

    def _repr_html_(self) -> str | None:
        """Return the HTML with which notebooks display the image; `None` if the host has no base URL."""
        if not self.urls:
            return None
        url = escape(self.urls.image(self))
        thumb_url = escape(self.urls.thumb(self))
        text = escape(self.description or self.id)
        return f'<a href="{url}" title="{text}"><img src="{thumb_url}" alt="{text}" loading="lazy"></a>'


class ImageChanges(TypedDict, total=False):
    """The fields of an image that can be updated; a field that is left out keeps its value.

    `images_public` is none of them: it keeps an image public that leaves a private album.
    """

    album_id: int | str | None
    description: str
    is_public: bool
    filename: str
    images_public: bool


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
"""The name of an outcome."""


@frozen(kw_only=True)
class BulkError:
    """The error of one image of `update_many` or `delete_many`.

    Attributes:
        code: Such as `NOT_FOUND`.
        message: A short text.
        details: What was expected, and what was received.
    """

    code: str
    message: str
    details: str = ""


@frozen(kw_only=True)
class BulkResult(Record):
    """The outcome for one image of `update_many` or `delete_many`.

    Attributes:
        id: The id as given.
        status: The outcome; `failed` means that the image is deleted and some of its files are not yet, which
            the host repeats.
        error: The error of an image that was not found, or of which some files could not be deleted yet.
        made_private: Whether an updated image has become private, as it has left a private album.
    """

    id: str
    status: BulkStatusName
    error: BulkError | None = None
    made_private: bool = False


@frozen(kw_only=True)
class SignedUrl(Record):
    """A delivery URL that needs no token until it expires.

    Attributes:
        url: The URL, with the parameters `exp` and `sig`.
        expires_at: When it expires, in UTC.
    """

    url: str
    expires_at: datetime


@frozen(kw_only=True)
class SignedImageUrl(SignedUrl):
    """One of several signed URLs, with the id of its image.

    Attributes:
        image_id: The id of the image.
    """

    image_id: ImageId


@frozen(kw_only=True)
class Deleted(Record):
    """The result of a deletion.

    Attributes:
        id: The id of what was deleted.
        deleted: Always true.
    """

    id: str
    deleted: bool


@frozen(kw_only=True)
class Album(Record):
    """A group of images of one account.

    Attributes:
        id: A positive integer.
        account_id: The owner.
        name: 1–100 characters.
        description: Up to 2,000 characters.
        is_public: Whether galleries list the album and its public images; image URLs do not depend on it.
        image_count: The number of images in the album.
        public_image_count: How many of them are public.
        cover: The newest image in the album, or `None`.
        created_at: The creation time, in UTC.
        updated_at: The time of the last change of the record or the membership, in UTC.
    """

    _INTERNAL = frozenset({"account_id", "cover"})

    id: AlbumId
    account_id: AccountId
    name: str
    description: str
    is_public: bool
    image_count: int
    public_image_count: int
    cover: Image | None
    created_at: datetime
    updated_at: datetime

    @property
    def cover_image_id(self) -> ImageId | None:
        """The id of the cover, or `None`."""
        return self.cover.id if self.cover else None

    @property
    def cover_url(self) -> str | None:
        """The `thumb_url` of the cover, or `None`."""
        return self.cover.thumb_url if self.cover else None


@frozen(kw_only=True)
class DeletedAlbum(Record):
    """The result of deleting an album.

    Attributes:
        id: Its id.
        deleted: Always true.
        made_private_count: How many of its public images have become private, as the album was private.
    """

    id: AlbumId
    deleted: bool
    made_private_count: int = 0


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
"""The name of an outcome."""


@frozen(kw_only=True)
class Member:
    """The outcome for one image of `add_images` or `remove_images`.

    Attributes:
        image_id: The id of the image, as in the request.
        status: The outcome.
        made_private: Whether the image has become private, as it has left a private album.
    """

    image_id: str
    status: MemberStatusName
    made_private: bool = False


@frozen(kw_only=True)
class Membership(Record):
    """The result of `add_images` and `remove_images`.

    Attributes:
        results: The outcome for each image.
        album: The album after the change.
    """

    results: tuple[Member, ...]
    album: Album

    @property
    def made_private_count(self) -> int:
        """How many images have become private, as they have left a private album."""
        return sum(member.made_private for member in self.results)


@frozen(kw_only=True)
class AlbumShare(Record):
    """A share link of an album: who has it sees the album and its images, also the private ones.

    Attributes:
        id: 16 characters of base62, which the URLs of the images have as `share`.
        album_id: The album.
        created_at: The creation time, in UTC.
        expires_at: The expiry time, or `None`.
        password_hash: The argon2id hash of the password that the page requires, or `None`.
        token: The secret in the link; `None` except of a new share.
    """

    _INTERNAL = frozenset({"album_id", "password_hash"})

    id: ShareId
    album_id: AlbumId
    created_at: datetime
    expires_at: datetime | None
    password_hash: str | None = field(repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def has_password(self) -> bool:
        """Whether the page of the share requires a password."""
        return self.password_hash is not None


def _sorted_scopes(scopes: Iterable[ScopeName]) -> tuple[Scope, ...]:
    return tuple(sorted(map(Scope, scopes)))


@frozen(kw_only=True)
class ApiKey(Record):
    """An API key of an account, without its token.

    Attributes:
        id: 16 characters of base62.
        account_id: The owner.
        name: The owner's name for the key.
        prefix: The first characters of the token, to tell keys apart.
        scopes: The permissions, sorted.
        expires_at: The expiry time, or `None`.
        last_used_at: The time of the last use, to the minute, or `None`.
        created_at: The creation time, in UTC.
        revoked_at: The time of revocation, or `None`.
    """

    id: KeyId
    account_id: AccountId
    name: str
    prefix: str
    scopes: tuple[KeyScope, ...] = field(converter=_sorted_scopes)
    expires_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime
    revoked_at: datetime | None


@frozen(kw_only=True)
class ApiKeyWithToken(ApiKey):
    """A new API key with its token, which cannot be retrieved later."""

    token: str = field(repr=False)


@frozen(kw_only=True)
class Session(Record):
    """A session of a signed-in user, without its token.

    Attributes:
        id: 16 characters of base62.
        account_id: The signed-in account.
        user_agent: The `User-Agent` of the sign-in, up to 255 characters; "" if unknown.
        ip_address: The client IP address of the sign-in; "" if unknown.
        created_at: The sign-in time, in UTC.
        expires_at: The expiry time, in UTC.
        last_used_at: The time of the last use, to the minute.
    """

    id: SessionId
    account_id: AccountId
    user_agent: str
    ip_address: str
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime


@frozen(kw_only=True)
class SessionWithToken(Record):
    """A new session with its token, which cannot be retrieved later.

    Attributes:
        id: The id of the session.
        token: The bearer token of the session's requests.
        expires_at: The expiry time of the session, in UTC.
        account: The signed-in account.
    """

    id: SessionId
    token: str = field(repr=False)
    expires_at: datetime
    account: Account


@frozen
class AccountUsage:
    """What an account stores.

    Attributes:
        images: The number of images.
        albums: The number of albums.
        bytes: Bytes of all masters.
    """

    images: int
    albums: int
    bytes: int


@frozen(kw_only=True)
class Quota:
    """The storage quota of an account, in bytes; `None` means unlimited.

    Attributes:
        bytes: The quota.
        remaining: What is left of it.
    """

    bytes: int | None = None
    remaining: int | None = None


@frozen(kw_only=True)
class RateLimitWindow:
    """A window that limits an account, and its remaining requests.

    Attributes:
        name: A name such as `api_per_minute`.
        limit: Requests that it admits, at least 1.
        remaining: Requests left.
        reset: Its end, in UTC.
    """

    name: str
    limit: int
    remaining: int
    reset: datetime


@frozen(kw_only=True)
class AccountOverview(Record):
    """An account with its usage, quota and rate limits.

    Attributes:
        account: The account.
        usage: What it has stored.
        quota: Its storage quota.
        limits: The state of its rate limit windows.
    """

    account: Account
    usage: AccountUsage
    quota: Quota
    limits: tuple[RateLimitWindow, ...]


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
"""The name of an outcome."""


EventName = Literal["image.uploaded", "image.deleted", "album.created", "album.updated"]
"""The type of an event, as `imagehost_core.events` has them."""
DeliveryEventName = Literal["webhook.test", EventName]
"""The type of an event in deliveries."""


@frozen(kw_only=True)
class Webhook(Record):
    """An endpoint that receives events.

    Attributes:
        id: 16 characters of base62.
        account_id: The account whose events are sent.
        url: The endpoint's URL.
        events: The subscribed event types; empty means all.
        description: Up to 2,000 characters.
        is_active: Whether events are sent.
        created_at: The creation time, in UTC.
        disabled_reason: The reason for which the host disabled the webhook, or `None`.
    """

    id: WebhookId
    account_id: AccountId
    url: str
    events: tuple[EventName, ...]
    description: str
    is_active: bool
    created_at: datetime
    disabled_reason: str | None = None


@frozen(kw_only=True)
class WebhookWithSecret(Webhook):
    """A webhook with a new signing secret, which cannot be retrieved later."""

    secret: str = field(repr=False)


@frozen(kw_only=True)
class WebhookDelivery(Record):
    """The delivery of one event to one webhook.

    Attributes:
        id: 16 characters of base62.
        webhook_id: The receiving webhook.
        event_id: The `webhook-id` of every attempt.
        event: The kind of the event; `webhook.test` for a test event.
        status: `pending`, `delivered` or `failed`.
        attempts: The number of attempts so far.
        next_attempt_at: The time of the next attempt, or `None`.
        created_at: The time of the event, in UTC.
        last_attempt_at: The time of the last attempt, or `None`.
        response_status: The HTTP status of the response to the last attempt, or `None` without a response.
        response_excerpt: The beginning of that response's body.
        duration_ms: The duration of the last attempt, in milliseconds, or `None`.
        error: The reason for which the last attempt got no response, or `None`.
    """

    id: DeliveryId
    webhook_id: WebhookId
    event_id: EventId
    event: DeliveryEventName
    status: DeliveryStatusName
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    last_attempt_at: datetime | None = None
    response_status: int | None = None
    response_excerpt: str = ""
    duration_ms: int | None = None
    error: str | None = None


@frozen
class Principal:
    """An authenticated account with the permissions of its token.

    Attributes:
        account: The account.
        scopes: The permissions.
        key_id: The API key of the token, or `None`.
        session_id: The session of the token, or `None`.
        expires_at: When the token expires, or `None`.
    """

    account: Account
    scopes: frozenset[Scope]
    key_id: KeyId | None = None
    session_id: SessionId | None = None
    expires_at: datetime | None = None

    @property
    def is_session(self) -> bool:
        """Whether the token is a session's; only sessions manage keys, sessions, passwords and accounts."""
        return self.key_id is None


@frozen(kw_only=True)
class PublicAlbum(Record):
    """An album as the gallery shows it.

    Attributes:
        id: A positive integer.
        name: 1–100 characters.
        description: Up to 2,000 characters.
        image_count: The number of public images in the album.
        cover: The newest public image in the album, or `None`.
    """

    _INTERNAL = frozenset({"cover"})

    id: AlbumId
    name: str
    description: str
    image_count: int
    cover: Image | None

    @property
    def cover_image_id(self) -> ImageId | None:
        """The id of the cover, or `None`."""
        return self.cover.id if self.cover else None

    @property
    def cover_url(self) -> str | None:
        """The `thumb_url` of the cover, or `None`."""
        return self.cover.thumb_url if self.cover else None


@frozen
class Page(Record, Generic[T]):
    """A page of a list.

    Attributes:
        items: The items of the page.
        page: The page number, from 1; `None` if a cursor was given.
        per_page: The maximum number of items on a page.
        total: The number of items in the whole list; `None` where counting them would read them all.
        next_cursor: The cursor of the following page, or `None` on the last one.
        album: The album of `gallery(album_id=…)`; `None` for every other list.
    """

    items: tuple[T, ...]
    page: int | None
    per_page: int
    total: int | None
    next_cursor: str | None
    album: PublicAlbum | None = None

    @classmethod
    def empty(cls, page: int, per_page: int) -> Page[T]:
        """Return a page of an empty list."""
        return cls((), page, per_page, 0, None)

    @property
    def total_pages(self) -> int | None:
        """The number of pages in the whole list, 0 if it is empty; `None` if `total` is."""
        return None if self.total is None else -(-self.total // self.per_page)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
