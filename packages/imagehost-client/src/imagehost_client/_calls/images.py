"""Operations on images."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Literal, Unpack

from attrs import evolve

from imagehost_client import _wire
from imagehost_client._calls._arguments import checked, choice
from imagehost_client._calls._call import (
    UNSET,
    Call,
    FilePart,
    Unset,
    drop_unset,
    paged,
    path_segment,
    query_pairs,
    single,
)
from imagehost_client._calls._refs import AlbumRef, ImageRef, album_id_of, image_id_of
from imagehost_client._multipart import Progress
from imagehost_client.files import Source
from imagehost_client.models import Deleted, Format, Image, Page, PublicImage, Rendered, SignedUrl
from imagehost_client.urls import TransformParams, build_query

UploadFormat = Literal["auto", "jpeg", "jpg", "png", "webp", Format.JPEG, Format.PNG, Format.WEBP]
"""The `format` of an upload; `jpg` and `jpeg` are the same."""
StoredFormat = Format | Literal["jpeg", "jpg", "png", "webp", "gif"]
"""The format of stored images; `jpg` and `jpeg` are the same."""
ImageSort = Literal["created_at", "-created_at", "filename", "-filename", "size", "-size"]
"""The order of a list of images; `-` means descending."""
Time = datetime | str
"""A time with a UTC offset, or its text in RFC 3339."""


@partial(checked, format=choice("auto", "jpeg", "jpg", "png", "webp"))
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
    checksum: bool = False,
    idempotency_key: str | None = None,
    progress: Progress | None = None,
) -> Call[Image]:
    """Upload an image; on return it is stored durably.

    By default, the host converts to WebP where that is smaller, keeps EXIF, and lists the image in the
    public gallery.

    Args:
        source: A path, bytes, a binary file (sent from its current position), or `(name, content)`.
        filename: The file name to send instead of the source's.
        album_id: The album of the image, or its id.
        description: At most 2,000 characters.
        quality: 1–100.
        format: The stored format, which takes precedence over `convert_to_webp` unless it is `auto`.
        remove_exif: Whether to remove EXIF, XMP and IPTC.
        convert_to_webp: Whether to store the image as WebP where that is smaller.
        auto_rename: Whether to give the image a random file name.
        is_public: Whether to list the image in the public gallery.
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
        raise ValueError(
            "expected convert_to_webp=False, and no format, quality or remove_exif, for checksum=True "
            "but received options with which the host re-encodes the image"
        )
    return Call(
        method="POST",
        path="/upload",
        decode=partial(_wire.decode, Image),
        fields=_fields(
            album_id=None if album_id is None else album_id_of(album_id),
            description=description,
            quality=quality,
            format=_format(format),
            remove_exif=remove_exif,
            convertToWebP=convert_to_webp,
            auto_rename=auto_rename,
            is_public=is_public,
        ),
        file=FilePart(source=source, filename=filename, progress=progress, checksum=checksum),
        key=idempotency_key or "",
    )


@partial(checked, format=choice("jpeg", "jpg", "png", "webp", "gif"))
def list_images(
    *,
    album_id: AlbumRef | None = None,
    page: int | None = None,
    per_page: int | None = None,
    cursor: str | None = None,
    q: str | None = None,
    is_public: bool | None = None,
    format: StoredFormat | None = None,  # noqa: A002 - the parameter's name in the API
    created_after: Time | None = None,
    created_before: Time | None = None,
    sort: ImageSort | None = None,
) -> Call[Page[Image]]:
    """List your images, newest first.

    With `q`, `format`, `created_after` or `created_before` the host does not count the images: `total` and
    `total_pages` are `None`.

    Args:
        album_id: An album or its id, to list only its images.
        page: The first page, from 1.
        per_page: The page size, 1–100; 20 by default.
        cursor: The `next_cursor` of a page with the same filters and order, to continue after it; not
            together with `page`.
        q: Words in the file name or the description, at most 100 characters.
        is_public: Whether to list only public (`True`) or only private (`False`) images.
        format: The stored format of the images.
        created_after: A time with a UTC offset, or its text in RFC 3339; only later images are listed.
        created_before: A time with a UTC offset, or its text in RFC 3339; only earlier images are listed.
        sort: The order: `created_at`, `filename` or `size`, with the prefix `-` for descending; by
            default `-created_at`.
    """
    query = query_pairs(
        album_id=None if album_id is None else album_id_of(album_id),
        page=page,
        per_page=per_page,
        cursor=cursor,
        q=q,
        is_public=None if is_public is None else str(is_public).lower(),
        format=_format(format),
        created_after=_timestamp(created_after),
        created_before=_timestamp(created_before),
        sort=sort,
    )
    return paged("/images", "images", Image, query)


@checked
def gallery(
    *,
    album_id: AlbumRef | None = None,
    page: int | None = None,
    per_page: int | None = None,
    cursor: str | None = None,
) -> Call[Page[PublicImage]]:
    """List the public images of all accounts, newest first; this requires no token.

    Args:
        album_id: A public album or its id, to list its public images; each page has the album in `album`.
        page: The first page, from 1.
        per_page: The page size, 1–100; 20 by default.
        cursor: The `next_cursor` of a page, to continue after it; not together with `page`.

    Raises:
        NotFoundError: There is no public album with this id.
    """
    album = None if album_id is None else album_id_of(album_id)
    query = query_pairs(album_id=album, page=page, per_page=per_page, cursor=cursor)
    return paged("/gallery", "images", PublicImage, query)


@checked
def get_image(image: ImageRef) -> Call[Image]:
    """Return one of your images.

    Args:
        image: The image, its id, or any of its URLs.
    """
    return single("GET", Image, "images", image_id_of(image))


@checked
def update_image(
    image: ImageRef,
    *,
    album_id: AlbumRef | Unset | None = UNSET,
    description: str | Unset = UNSET,
    is_public: bool | Unset = UNSET,
    filename: str | Unset = UNSET,
) -> Call[Image]:
    """Change an image; omitted arguments leave their values unchanged.

    Args:
        image: The image, its id, or any of its URLs.
        album_id: The new album, or its id; `None` removes the image from its album.
        description: At most 2,000 characters.
        is_public: Whether to list the image in the public gallery.
        filename: The file name; the host adapts its extension to the stored format.
    """
    album = album_id if album_id is None or album_id is UNSET else album_id_of(album_id)
    body = drop_unset(album_id=album, description=description, is_public=is_public, filename=filename)
    return single("PATCH", Image, "images", image_id_of(image), body=body)


@checked
def delete_image(image: ImageRef) -> Call[Deleted]:
    """Delete an image with all its variants, permanently.

    Args:
        image: The image, its id, or any of its URLs.

    Raises:
        NotFoundError: You have no such image. On a retry, a missing image counts as deleted.
    """
    image_id = image_id_of(image)
    return evolve(single("DELETE", Deleted, "images", image_id), on_not_found=Deleted(id=image_id))


@checked
def render_image(
    image: ImageRef, *, if_none_match: str | None = None, **params: Unpack[TransformParams]
) -> Call[Rendered]:
    """Return the bytes of an image, resized or in another format; without parameters, the stored file.

    The request is authenticated, so your private images can be rendered.

    Args:
        image: The image, its id, or any of its URLs.
        if_none_match: The `etag` of an earlier result with the same parameters: if it still holds, the
            result is `not_modified`, and its `data` is empty.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.

    Raises:
        ValueError: A value is out of its range.
        NotFoundError: There is no such image that you may view.
    """
    query = query_pairs(**build_query(params))
    path = f"/img/{path_segment(image_id_of(image))}"
    headers = {} if if_none_match is None else {"If-None-Match": if_none_match}
    return Call(method="GET", path=path, query=query, decode=_wire.decode_image, binary=True, headers=headers)


@checked
def signed_url(
    image: ImageRef, *, expires_in: int = 3600, **params: Unpack[TransformParams]
) -> Call[SignedUrl]:
    """Return a signed delivery URL of an image, which gives access without a token until it expires.

    Args:
        image: The image, its id, or any of its URLs.
        expires_in: The lifetime in seconds, at most 365 days; an hour by default.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.
    """
    body: dict[str, object] = {**build_query(params), "expires_in": expires_in}
    return single("POST", SignedUrl, "images", image_id_of(image), "signed-url", body=body)


def _format(name: str | None) -> str | None:
    """Return a format as the API calls it."""
    return "jpeg" if name == "jpg" else name


def _timestamp(time: Time | None) -> str | None:
    return _wire.rfc3339(time) if isinstance(time, datetime) else time


def _fields(**values: str | int | bool | None) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in values.items()
        if value is not None
    )
