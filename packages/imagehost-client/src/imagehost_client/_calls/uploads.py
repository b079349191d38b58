"""Uploads of one file (form 2), and of several files in one request (form 1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import frozen

from imagehost_client import _wire
from imagehost_client._calls.arguments import album_id_of, checked
from imagehost_client._calls.call import Call, FilePart, format_name
from imagehost_client._multipart import URL_FIELD
from imagehost_client._types import UPLOAD_FORMATS, AlbumRef, Progress, Source, UploadFormat
from imagehost_client.errors import BY_CODE, ImageHostError, ServerError, ValidationError
from imagehost_client.files import is_url
from imagehost_client.models import Image, Result, ResultList
from imagehost_client.urls import choice, plain

MAX_FILES_PER_REQUEST = 20
"""The maximum number of files in a request."""


@frozen(kw_only=True)
class FailedFile(Result):
    """A file of a request that was not stored, while others were.

    Attributes:
        index: The file's position in the request, from 0.
    """

    index: int
    code: str
    message: str
    details: str = ""

    def error(self) -> ImageHostError:
        """Return the error that the file alone would have raised."""
        kind = BY_CODE.get(self.code, ImageHostError)
        return kind(
            self.details,
            message=self.message,
            code=self.code,
            status=kind.default_status or None,
            request_id=self.meta.request_id,
            rate_limit=self.meta.rate_limit,
        )


UploadedBatch = ResultList[Image | FailedFile]
"""The image or the error of each file, in the order of the request."""


def upload_batch(calls: Sequence[Call[Image]], key: str = "") -> Call[UploadedBatch]:
    """Return one call for several uploads with the same options.

    Args:
        calls: The uploads, at most `MAX_FILES_PER_REQUEST`.
        key: The idempotency key; random by default.
    """
    return Call(
        method="POST",
        path="/upload",
        decode=partial(_decode_batch, len(calls)),
        fields=calls[0].fields,
        files=tuple(part for call in calls for part in call.files),
        file_field="files[]",
        key=key,
    )


def _decode_batch(count: int, data: object) -> UploadedBatch:
    """Return the images and errors of `count` files in their order.

    Raises:
        ServerError: The response has not one image or error for each file.
    """
    images = _wire.decode_list(Image, "images", data).items
    failures = {failure.index: failure for failure in _wire.decode_list(FailedFile, "errors", data).items}
    if len(images) + len(failures) != count or not failures.keys() <= set(range(count)):
        raise ServerError(
            f"expected an image or an error for each of {count} files but received {len(images)} images and "
            f"{len(failures)} errors",
            message="The response cannot be decoded",
            code="INVALID_RESPONSE",
        )
    stored = iter(images)
    return ResultList(
        items=tuple(failures[index] if index in failures else next(stored) for index in range(count))
    )


@partial(checked, format=choice(*UPLOAD_FORMATS))
def upload(
    source: Source,
    *,
    filename: str | None = None,
    album_id: AlbumRef | None = None,
    description: str | None = None,
    quality: int | None = None,
    format: UploadFormat | None = None,  # noqa: A002 - the field's name in the API
    remove_exif: bool | None = None,
    convert_to_webp: bool | None = None,
    auto_rename: bool | None = None,
    is_public: bool | None = None,
    reuse: bool | None = None,
    delete_url: bool | None = None,
    checksum: bool = False,
    idempotency_key: str | None = None,
    progress: Progress | None = None,
) -> Call[Image]:
    """Upload an image; on return it is stored durably.

    By default, the host converts to WebP where that is smaller, keeps EXIF, and lists the image in the
    public gallery, unless its album is private.

    Args:
        source: A path, bytes, a binary file (sent from its current position), `(name, content)`, or an https
            URL whose image the host fetches.
        filename: The file name to send instead of the source's. An image of a URL has the name in it.
        album_id: The album of the image, or its id.
        description: At most 2,000 characters.
        quality: 1–100.
        format: The stored format, which takes precedence over `convert_to_webp` unless it is `auto`.
        remove_exif: Whether to remove EXIF, XMP and IPTC.
        convert_to_webp: Whether to store the image as WebP where that is smaller.
        auto_rename: Whether to give the image a random file name.
        is_public: Whether to list the image in the public gallery; by default unless its album is private.
        reuse: Whether to return your newest image of the same bytes and the same other options, if there is
            one, in place of storing another; `is_reused` of the image tells which.
        delete_url: Whether the image has `delete_url`: a page on which anyone can delete it, for 30 days.
        checksum: Whether to compare the SHA-256 of the stored file with the sent one. This requires
            `convert_to_webp=False`, and no `format`, `quality` or `remove_exif`, because the host
            would re-encode the image otherwise.
        idempotency_key: The idempotency key, for retries from another process; random by default.
        progress: A callback `progress(sent, total)` with bytes of the file.

    Raises:
        ImageHostError: The host rejected the upload, or could not be reached.
        OSError: The file cannot be read.
    """
    is_re_encoded = (
        convert_to_webp is not False or format not in {None, "auto"} or quality is not None or remove_exif
    )
    if checksum and is_re_encoded:
        raise ValidationError(
            "expected convert_to_webp=False, and no format, quality or remove_exif, for checksum "
            "but received options with which the host re-encodes the image"
        )
    is_fetched = is_url(source)
    if isinstance(source, str) and is_fetched:
        source = (URL_FIELD, source.encode())
    return Call(
        method="POST",
        path="/upload",
        decode=partial(_wire.decode, Image),
        fields=_fields(
            album_id=None if album_id is None else album_id_of(album_id),
            description=description,
            quality=quality,
            format=format_name(format),
            remove_exif=remove_exif,
            convertToWebP=convert_to_webp,
            auto_rename=auto_rename,
            is_public=is_public,
            reuse=reuse,
            delete_url=delete_url,
        ),
        files=(FilePart(source=source, filename=filename, progress=progress, checksum=checksum),),
        file_field=URL_FIELD if is_fetched else "image",
        key=idempotency_key or "",
    )


def _fields(**values: str | int | bool | None) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(plain(value)))
        for name, value in values.items()
        if value is not None
    )
