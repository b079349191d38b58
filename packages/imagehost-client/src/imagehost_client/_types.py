"""The types of arguments: what the parameters of the clients' methods accept."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import BinaryIO, Final, Literal, Protocol, TypedDict, runtime_checkable

from attrs import frozen

from imagehost_client.models import (
    Account,
    Album,
    ApiKey,
    Format,
    Image,
    PublicImage,
    Role,
    RoleName,
    Session,
    SessionWithToken,
    Webhook,
    WebhookDelivery,
)

__all__ = [
    "UNSET",
    "AccountProperties",
    "AccountRef",
    "AlbumRef",
    "Attributes",
    "BatchOptions",
    "BatchProgress",
    "DeliveryRef",
    "DisplayedImage",
    "Fit",
    "ImageRef",
    "ImageRow",
    "ImageSort",
    "KeyRef",
    "Loading",
    "OutputFormat",
    "PageOptions",
    "PictureOptions",
    "PictureParams",
    "Progress",
    "RequestMethod",
    "SessionRef",
    "SignItem",
    "Source",
    "SourceFormat",
    "SrcsetParams",
    "StoredFormat",
    "Target",
    "Time",
    "TransformParams",
    "Unset",
    "UploadFormat",
    "UploadOptions",
    "WebhookRef",
]


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""The default of `update` arguments, which leaves a value unchanged; `None` is a value (no album)."""

ImageRef = str | Image | PublicImage
"""An image, its id, its file name such as `<id>.webp` in URLs, or any of its URLs."""
AlbumRef = int | str | Album
"""An album, or its id."""
KeyRef = str | ApiKey
"""An API key, or its id."""
SessionRef = str | Session | SessionWithToken
"""A session, or its id."""
AccountRef = int | str | Account
"""An account, or its id."""
WebhookRef = str | Webhook
"""A webhook, or its id."""
DeliveryRef = str | WebhookDelivery
"""A webhook delivery, or its id."""


@runtime_checkable
class Readable(Protocol):
    """A binary stream."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, and no bytes at the end."""


Content = str | os.PathLike[str] | bytes | bytearray | memoryview | Readable | AsyncIterable[bytes]
"""A path, bytes, a file opened in binary mode, or, for `AsyncClient`, an asynchronous iterable of bytes."""
Source = Content | tuple[str, Content]
"""The source of an upload: content, or a pair of a file name and content."""
Target = str | os.PathLike[str] | BinaryIO
"""Where a download is written: the path of a file or an existing directory, or an open binary file."""

Progress = Callable[[int, int], object]
"""A callback `(sent, total)` with bytes of the file; a retry starts again at 0."""
BatchProgress = Callable[[Source, int, int], object]
"""A callback `(source, sent, total)` with bytes of the source."""

RequestMethod = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
"""The HTTP method of a request."""
ImageSort = Literal[
    "created_at", "-created_at", "taken_at", "-taken_at", "filename", "-filename", "size", "-size"
]
"""The order of a list of images; `-` means descending. Images without `taken_at` are always the last."""
Time = datetime | str
"""A time with a UTC offset, or its text in RFC 3339."""


@frozen
class FormatInfo:
    """Properties of an image format.

    Attributes:
        label: The name in messages.
        media_type: The registered media type.
        extensions: File extensions without the dot; the first one is used in URLs and new file names.
        uploadable: Whether hosts accept uploads in the format.
        deliverable: Whether hosts deliver images in the format on request; GIF only as it is stored.
        max_side: The largest width or height that hosts encode, in pixels.
    """

    label: str
    media_type: str
    extensions: tuple[str, ...]
    uploadable: bool
    deliverable: bool
    max_side: int


FORMATS: dict[Format, FormatInfo] = {
    Format.JPEG: FormatInfo("JPEG", "image/jpeg", ("jpg", "jpeg"), True, True, 65_500),
    Format.PNG: FormatInfo("PNG", "image/png", ("png",), True, True, 2**31 - 1),
    Format.WEBP: FormatInfo("WebP", "image/webp", ("webp",), True, True, 16_383),
    Format.GIF: FormatInfo("GIF", "image/gif", ("gif",), True, False, 65_535),
    Format.AVIF: FormatInfo("AVIF", "image/avif", ("avif",), False, True, 32_768),
}
"""The image formats; type checkers require that the types below name them again."""

UPLOADABLE = {kind: info for kind, info in FORMATS.items() if info.uploadable}
DELIVERABLE = {kind: info for kind, info in FORMATS.items() if info.deliverable}
BY_EXTENSION = {extension: kind for kind, info in FORMATS.items() for extension in info.extensions}

STORED_FORMATS = tuple(
    dict.fromkeys(name for kind, info in UPLOADABLE.items() for name in (str(kind), *info.extensions))
)
"""The names of stored formats."""
UPLOAD_FORMATS = ("auto", *(name for name in STORED_FORMATS if BY_EXTENSION.get(name, name) in DELIVERABLE))
"""The names of formats in which hosts store an upload on request."""

UploadFormat = Literal["auto", "jpeg", "jpg", "png", "webp", Format.JPEG, Format.PNG, Format.WEBP]
"""The `format` of an upload; `jpg` and `jpeg` are the same."""
StoredFormat = Format | Literal["jpeg", "jpg", "png", "webp", "gif"]
"""The format of stored images; `jpg` and `jpeg` are the same."""
SourceFormat = Literal[
    "jpg", "jpeg", "png", "webp", "avif", Format.JPEG, Format.PNG, Format.WEBP, Format.AVIF
]
"""The format of a `<source>` in a `<picture>` element; `jpg` and `jpeg` are the same."""
OutputFormat = SourceFormat | Literal["auto"]
"""The `fm` of a URL; with `auto`, the host selects a format that the browser accepts."""

Fit = Literal["cover", "contain", "fill", "inside", "outside"]
"""How an image is fitted into `w` and `h`."""
Loading = Literal["lazy", "eager"]
"""When a browser loads an image: near the viewport, or at once."""
Attributes = Mapping[str, str | int | bool | None]
"""Attributes of an HTML element."""


class AccountProperties(TypedDict, total=False):
    """What operators set of an account; limits of `None` are the host's, and 0 is unlimited.

    Attributes:
        role: `user` or `operator`; of a new account `user` by default.
        quota_bytes: The quota in bytes.
        api_per_minute: Requests per minute.
        api_per_hour: Requests per hour.
        api_per_day: Requests per day.
        uploads_per_minute: Upload requests per minute.
        bulk_ids_per_minute: Image ids of bulk requests per minute.
    """

    role: Role | RoleName | Unset
    quota_bytes: int | Unset | None
    api_per_minute: int | Unset | None
    api_per_hour: int | Unset | None
    api_per_day: int | Unset | None
    uploads_per_minute: int | Unset | None
    bulk_ids_per_minute: int | Unset | None


class UploadOptions(TypedDict, total=False):
    """The options of `upload` for all files of a batch."""

    album_id: AlbumRef | None
    description: str | None
    quality: int | None
    format: UploadFormat | None
    remove_exif: bool | None
    convert_to_webp: bool | None
    auto_rename: bool | None
    is_public: bool | None
    reuse: bool | None
    delete_url: bool | None
    checksum: bool


class PageOptions(TypedDict, total=False):
    """Where a list begins, and how many records a request of it reads.

    Attributes:
        page: The first page, from 1.
        per_page: The page size, 1–100.
        cursor: The `next_cursor` of a page, to continue after it; not together with `page`.
    """

    page: int | None
    per_page: int | None
    cursor: str | None


class BatchOptions(UploadOptions, total=False):
    """The options of `upload_iter`, with those of `upload` for all files."""

    parallel: int
    files_per_request: int | None
    journal: str | os.PathLike[str] | None
    progress: BatchProgress | None


class PictureParams(TypedDict, total=False):
    """The transform parameters of a `<picture>` element; `None` omits one.

    Attributes:
        h: The height at the largest width, 1–8192 pixels; at others it is scaled to the same aspect ratio.
        q: The quality, 1–100.
        fit: How the image is fitted into the size; with `h`, `cover`, `contain` or `fill`.
    """

    h: int | None
    q: int | None
    fit: Fit | None


class PictureOptions(PictureParams, total=False):
    """The options of a `<picture>` element.

    Attributes:
        alt: The alternative text; by default the image's description.
        loading: `lazy`, the default, to load the image only when it is near the viewport, or `eager`.
        sizes: The `sizes` attribute: the display width; by default `100vw`.
        formats: Formats offered in `<source>` elements before `fm=auto`, in order of preference; by default
            none. With `avif` and `webp`, caches need not tell clients apart, but screenshots become AVIF.
        attributes: Attributes of `<img>`, such as `{"class": "hero"}`; `None` and `False` omit one, and
            `True` is one without a value.
    """

    alt: str | None
    loading: Loading
    sizes: str
    formats: Iterable[SourceFormat]
    attributes: Attributes | None


class SrcsetParams(PictureParams, total=False):
    """The transform parameters of a `srcset`, which sets the widths; `None` omits one.

    Attributes:
        fm: The format.
    """

    fm: OutputFormat | None


class TransformParams(SrcsetParams, total=False):
    """The transform parameters of an image URL; `None` omits one.

    Attributes:
        w: The width in pixels, 1–8192, after applying the EXIF orientation.
        h: The height in pixels, 1–8192.
    """

    w: int | None


ImageRow = Mapping[str, object]
"""A row with the keys of a `DisplayedImage`; `description` and `placeholder` may be absent."""

SignItem = ImageRef | tuple[ImageRef, TransformParams]
"""An image of `signed_urls`, alone or with its own transform parameters."""


class DisplayedImage(Protocol):
    """What a `srcset` and a `<picture>` element need of an image.

    `Image` and `PublicImage` have it, as may a record of your own, such as a row of a database.
    """

    @property
    def url(self) -> str:
        """The delivery URL of the stored file."""

    @property
    def width(self) -> int:
        """The width in pixels."""

    @property
    def height(self) -> int:
        """The height in pixels."""

    @property
    def description(self) -> str | None:
        """The default of the alternative text."""

    @property
    def placeholder(self) -> str | None:
        """The ThumbHash in base64; `None` or an empty string without one."""
