"""Images, their URLs, and the results of bulk requests."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path

from attrs import field, frozen

from imagehost_client.models.results import Result


class Format(StrEnum):
    """A stored image format."""

    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"
    GIF = "gif"
    AVIF = "avif"


class BulkStatus(StrEnum):
    """The outcome for one image of `update_many` or `delete_many`."""

    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    NOT_FOUND = "not_found"
    FAILED = "failed"


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
    """

    id: str
    status: BulkStatus | str
    error: BulkError | None = None


@frozen(kw_only=True)
class SignedUrl(Result):
    """A delivery URL that needs no token until it expires."""

    url: str
    expires_at: datetime | None = None


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
        etag: The entity tag, if the response has one.
        not_modified: Whether the image has the entity tag of `if_none_match`, so that `data` is empty.
    """

    data: bytes = field(repr=False)
    media_type: str
    etag: str | None = None
    not_modified: bool = False


@frozen(kw_only=True)
class DownloadedImage(Result):
    """The bytes of an image that were written to a file.

    Attributes:
        path: The path of the file; `None` if it was an open file.
        size: The number of bytes.
        media_type: The content type, such as `image/webp`.
        sha256: The SHA-256 of the bytes, in hexadecimal.
        etag: The entity tag, if the response has one.
        not_modified: Whether the image has the entity tag of `if_none_match`, so that nothing was written.
    """

    path: Path | None
    size: int
    media_type: str
    sha256: str
    etag: str | None = None
    not_modified: bool = False


@frozen(kw_only=True)
class ImageHead(Result):
    """The headers of a response with an image.

    Attributes:
        media_type: The content type.
        offset: The position of the first byte of the response in the image.
        size: The number of bytes of the whole image, if the response has it.
        etag: The entity tag, if the response has one.
        not_modified: Whether the image has the entity tag of the request, and the response no body.
    """

    media_type: str
    offset: int = 0
    size: int | None = None
    etag: str | None = None
    not_modified: bool = False
