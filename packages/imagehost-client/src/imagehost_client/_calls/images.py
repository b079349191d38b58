"""Operations on images: one or many of them, their bytes, and markup with signed URLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, Unpack
from urllib.parse import urlencode

from attrs import evolve, field, frozen

from imagehost_client import _wire
from imagehost_client._calls.arguments import (
    album_id_of,
    as_list,
    checked,
    image_id_of,
    image_ids_of,
    raise_faults,
    text,
)
from imagehost_client._calls.call import (
    MAX_IMAGES,
    Call,
    OpenResponse,
    chunks,
    drop_unset,
    format_name,
    paged,
    path_segment,
    query_pairs,
    single,
)
from imagehost_client._types import (
    STORED_FORMATS,
    UNSET,
    AlbumRef,
    ImageRef,
    ImageSort,
    PageOptions,
    PictureOptions,
    Progress,
    SignItem,
    SrcsetParams,
    StoredFormat,
    Target,
    Time,
    TransformParams,
    Unset,
)
from imagehost_client.errors import BadRequestError, ValidationError, fault
from imagehost_client.models import (
    BulkResult,
    BulkStatus,
    Deleted,
    Image,
    ImageHead,
    Page,
    PublicImage,
    Rendered,
    Result,
    ResultList,
    SignedImageUrl,
    SignedUrl,
)
from imagehost_client.urls import (
    DEFAULT_WIDTHS,
    build_query,
    choice,
    format_srcset,
    plan_picture,
    srcset_variants,
)

R = TypeVar("R", bound=Result)


@partial(checked, error=BadRequestError, q=text(0, 100), format=choice(*STORED_FORMATS))
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
    sha256: str | None = None,
    sort: ImageSort | None = None,
) -> Call[Page[Image]]:
    """List your images, newest first.

    With `q`, `format`, `created_after`, `created_before` or `sha256` the host does not count the images:
    `total` and `total_pages` are `None`.

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
        sha256: The SHA-256 of the bytes that were uploaded, 64 hexadecimal digits.
        sort: The order: `created_at`, `taken_at`, `filename` or `size`, with the prefix `-` for descending;
            by default `-created_at`. Images without `taken_at` are the last.
    """
    return paged(
        "/images",
        "images",
        Image,
        album_id=None if album_id is None else album_id_of(album_id),
        page=page,
        per_page=per_page,
        cursor=cursor,
        q=q,
        is_public=None if is_public is None else str(is_public).lower(),
        format=format_name(format),
        created_after=_timestamp(created_after),
        created_before=_timestamp(created_before),
        sha256=sha256,
        sort=sort,
    )


@partial(checked, error=BadRequestError, q=text(0, 100))
def gallery(
    *, album_id: AlbumRef | None = None, q: str | None = None, **paging: Unpack[PageOptions]
) -> Call[Page[PublicImage]]:
    """List the public images of all accounts, newest first; this requires no token.

    Args:
        album_id: A public album or its id, to list its public images; each page has the album in `album`.
        q: Words in the file name or the description, at most 100 characters; `total` is then `None`.
        **paging: `page` (the first page, from 1), `per_page` (1–100; 20 by default), and `cursor` (the
            `next_cursor` of a page, to continue after it; not together with `page`).

    Raises:
        NotFoundError: There is no public album with this id.
    """
    album = None if album_id is None else album_id_of(album_id)
    return paged("/gallery", "images", PublicImage, album_id=album, q=q, **paging)


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
    images_public: bool = False,
) -> Call[Image]:
    """Change an image; omitted arguments leave their values unchanged.

    Args:
        image: The image, its id, or any of its URLs.
        album_id: The new album, or its id; `None` removes the image from its album.
        description: At most 2,000 characters.
        is_public: Whether to list the image in the public gallery.
        filename: The file name; the host adapts its extension to the stored format.
        images_public: Whether the image stays public if it leaves a private album for a public one or
            for none; without this and `is_public`, it becomes private.
    """
    album = album_id if album_id is None or album_id is UNSET else album_id_of(album_id)
    body = drop_unset(
        album_id=album,
        description=description,
        is_public=is_public,
        filename=filename,
        images_public=images_public or UNSET,
    )
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
    return single("DELETE", Deleted, "images", image_id, on_not_found=Deleted(id=image_id))


@partial(checked, error=BadRequestError)
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
        BadRequestError: Values are out of their ranges.
        NotFoundError: There is no such image that you may view.
    """
    query = query_pairs(**build_query(params))
    path = f"/img/{path_segment(image_id_of(image))}"
    headers = {"If-None-Match": if_none_match} if if_none_match else {}
    return Call(
        method="GET",
        path=path,
        query=query,
        decode=partial(_wire.of_kind, Rendered),
        binary=True,
        headers=headers,
    )


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


def _timestamp(time: Time | None) -> str | None:
    return _wire.rfc3339(time) if isinstance(time, datetime) else time


Calls = tuple[Call[ResultList[R]], ...]
"""Calls whose results are parts of one list."""


@checked
def update_images(
    images: Iterable[ImageRef],
    *,
    album_id: AlbumRef | Unset | None = UNSET,
    description: str | Unset = UNSET,
    is_public: bool | Unset = UNSET,
    filename: str | Unset = UNSET,
    images_public: bool = False,
) -> Calls[BulkResult]:
    """Change images in the same way; omitted arguments leave their values unchanged.

    Each 100 images are one request. An error of a request is raised, and the effect of earlier ones remains;
    the call may be repeated.

    Args:
        images: Images, ids or URLs of images; of equal ones only the first counts.
        album_id: The new album, or its id; `None` removes the images from their albums.
        description: At most 2,000 characters.
        is_public: Whether to list the images in the public gallery.
        filename: The file name; the host adapts its extension to the stored format.
        images_public: Whether public images stay public that leave a private album for a public one or
            for none; without this and `is_public`, they become private.

    Returns:
        A result for each image, in the order of `images`; a missing image stops no other.
    """
    album = album_id if album_id is None or album_id is UNSET else album_id_of(album_id)
    changes = drop_unset(
        album_id=album,
        description=description,
        is_public=is_public,
        filename=filename,
        images_public=images_public or UNSET,
    )
    return tuple(
        _bulk("PATCH", "/images", BulkResult, "results", body={"image_ids": ids, **changes})
        for ids in chunks(list(dict.fromkeys(image_ids_of(images))))
    )


@checked
def delete_images(images: Iterable[ImageRef]) -> Calls[BulkResult]:
    """Delete images with all their variants, permanently.

    Each 100 images are one request. An error of a request is raised, and the effect of earlier ones remains;
    the call may be repeated, and then reports deleted images as `not_found`.

    Args:
        images: Images, ids or URLs of images; of equal ones only the first counts.

    Returns:
        A result for each image, in the order of `images`; a missing image stops no other. On a retry, a
        missing image counts as deleted.
    """
    return tuple(
        # Some proxies drop the body of a DELETE.
        _bulk(
            "POST",
            "/images/delete",
            BulkResult,
            "results",
            body={"image_ids": ids},
            on_repeat=_not_found_as_deleted,
        )
        for ids in chunks(list(dict.fromkeys(image_ids_of(images))))
    )


@checked
def signed_urls(
    images: Iterable[SignItem] | ImageRef, *, expires_in: int = 3600, **params: Unpack[TransformParams]
) -> Calls[SignedImageUrl]:
    """Return signed delivery URLs of images, which give access without a token until they expire.

    Each 100 images are one request.

    Args:
        images: Images, ids or URLs of images; or pairs of one of them and a mapping of its own parameters,
            which take precedence over `params`.
        expires_in: The lifetime in seconds, at most 365 days; an hour by default.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.

    Returns:
        A URL for each image, in the order of `images`.

    Raises:
        ValidationError: Parameters are out of their ranges.
        NotFoundError: You have no such image; no URL is returned.
    """
    items, faults = [], []
    given = as_list(images)
    for index, item in enumerate(given):
        image, own = item if isinstance(item, tuple) else (item, {})
        try:
            query = build_query({**params, **own}, f"items[{index}].")
            items.append({"image_id": image_id_of(image), **query})
        except (BadRequestError, ValidationError) as error:
            faults.append(error.details)
    if not given:
        faults.append(fault("items", "one or more images", images))
    raise_faults(faults)
    return tuple(
        _bulk(
            "POST", "/signed-urls", SignedImageUrl, "items", body={"items": chunk, "expires_in": expires_in}
        )
        for chunk in chunks(items)
    )


def _bulk(method: str, path: str, kind: type[R], name: str, **attributes: Any) -> Call[ResultList[R]]:
    """Return a call whose result is a list of records, which the response has in `name`."""
    return Call(method=method, path=path, decode=partial(_wire.decode_list, kind, name), **attributes)


def _not_found_as_deleted(results: ResultList[BulkResult]) -> ResultList[BulkResult]:
    """Return results with `deleted` for `not_found`: an earlier attempt may have deleted the image."""
    return evolve(
        results,
        items=tuple(
            evolve(item, status=BulkStatus.DELETED, error=None)
            if item.status == BulkStatus.NOT_FOUND
            else item
            for item in results.items
        ),
    )


@frozen(kw_only=True)
class ImageDownload:
    """A request for the bytes of an image that is not yet sent.

    Attributes:
        call: The request.
        image_id: The id of the image, for names of files.
        sha256: The SHA-256 of all bytes in hexadecimal, where it is known.
        target: Where the bytes are written; `None` for a stream.
        progress: The progress callback.
    """

    call: Call[ImageHead]
    image_id: str
    sha256: str | None = None
    target: Target | None = field(default=None, repr=False)
    progress: Progress | None = None


@partial(checked, error=BadRequestError)
def stream_image(
    image: ImageRef, *, if_none_match: str | None = None, **params: Unpack[TransformParams]
) -> ImageDownload:
    """Return the bytes of an image in chunks as they arrive, for files that do not fit into memory.

    The result is used in `with`, with `AsyncClient` in `async with`, where the request is sent, and is
    iterated over once. If the connection breaks, the rest is requested, and no byte is lost or repeated; the
    stream ends with an error after more than `max_retries` failures in succession. At the end, the length is
    checked, and for an `Image` without parameters also its SHA-256.

    Args:
        image: The image, its id, or any of its URLs.
        if_none_match: The `etag` of an earlier result with the same parameters: if it still holds, the
            result is `not_modified`, and has no bytes.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.

    Raises:
        BadRequestError: Values are out of their ranges.
        NotFoundError: There is no such image that you may view.
        APIConnectionError: The connection broke, and the rest cannot be requested.
        ChecksumError: The bytes are not those of the image; raised after the last chunk.
    """
    call = render_image(image, if_none_match=if_none_match, **params)
    return ImageDownload(
        call=Call(
            method="GET",
            path=call.path,
            query=call.query,
            headers={**call.headers, "Accept-Encoding": "identity"},
            decode=partial(_wire.of_kind, ImageHead),
            binary=True,
            opened=OpenResponse(),
        ),
        image_id=call.path.rpartition("/")[2],
        sha256=image.sha256 if isinstance(image, Image) and not call.query else None,
    )


@partial(checked, error=BadRequestError)
def download_image(
    image: ImageRef,
    target: Target,
    *,
    progress: Progress | None = None,
    if_none_match: str | None = None,
    **params: Unpack[TransformParams],
) -> ImageDownload:
    """Write the bytes of an image to a file, resized or in another format, with little memory.

    The bytes arrive and are checked as those of `stream`. A file is written completely or not at all: its new
    content replaces the old one after the last byte.

    Args:
        image: The image, its id, or any of its URLs.
        target: The path of the file; or of an existing directory, in which the file is named by the image's
            id; or an open binary file, which after an error has a part of the bytes.
        progress: A callback `progress(received, total)` with bytes; `total` is 0 if the host does not tell.
        if_none_match: The `etag` of an earlier result with the same parameters: if it still holds, the
            result is `not_modified`, and nothing is written.
        **params: `w`, `h`, `q`, `fit` and `fm`, as for `image_url`.

    Raises:
        OSError: The file cannot be written.
        BadRequestError: Values are out of their ranges.
        NotFoundError: There is no such image that you may view.
        APIConnectionError: The connection broke, and the rest cannot be requested.
        ChecksumError: The bytes are not those of the image.
    """
    download = stream_image(image, if_none_match=if_none_match, **params)
    return evolve(download, target=target, progress=progress)


@checked
def signed_srcset(
    image: Image | PublicImage,
    widths: Iterable[int] = DEFAULT_WIDTHS,
    *,
    expires_in: int = 3600,
    **params: Unpack[SrcsetParams],
) -> Call[str]:
    """Return the value of a `srcset` attribute with signed URLs, for an image that may be private.

    Args:
        image: The image.
        widths: Widths in pixels, limited to the image's width.
        expires_in: The lifetime of the URLs in seconds, at most 365 days; an hour by default.
        **params: `h` (the height at the largest of `widths`), `q`, `fit` and `fm`.

    Raises:
        NotFoundError: You have no such image.
    """
    variants = srcset_variants(image, widths, params)
    return _signed(image, variants, expires_in, partial(format_srcset, variants))


@checked
def signed_picture(
    image: Image | PublicImage,
    widths: Iterable[int] = DEFAULT_WIDTHS,
    *,
    expires_in: int = 3600,
    **options: Unpack[PictureOptions],
) -> Call[str]:
    """Return a responsive `<picture>` element with signed URLs, for an image that may be private.

    Args:
        image: The image.
        widths: Widths in pixels, limited to the image's width.
        expires_in: The lifetime of the URLs in seconds, at most 365 days; an hour by default.
        **options: See `PictureOptions`.

    Raises:
        NotFoundError: You have no such image.
    """
    plan = plan_picture(image, widths, options)
    return _signed(image, plan.variants, expires_in, plan.html)


def _signed(
    image: Image | PublicImage,
    variants: Sequence[TransformParams],
    expires_in: int,
    build: Callable[[Sequence[str]], str],
) -> Call[str]:
    """Return the call that signs the URLs of variants, each once, and builds its result from them.

    Raises:
        ValidationError: The image has no id, or there are more variants than a request may have.
    """
    if not isinstance(image, Image | PublicImage):
        raise ValidationError(fault("image", "an Image or a PublicImage", image))
    queries = [build_query(variant) for variant in variants]
    items = {urlencode(query): query for query in queries}
    if len(items) > MAX_IMAGES:
        raise ValidationError(fault("widths", f"at most {MAX_IMAGES} URLs of all formats", len(items)))

    def decode(data: object) -> str:
        signed = _wire.decode_list(SignedImageUrl, "items", data).items
        urls = dict(zip(items, (item.url for item in signed), strict=True))
        return build([urls[urlencode(query)] for query in queries])

    return Call(
        method="POST",
        path="/signed-urls",
        decode=decode,
        body={
            "items": [{"image_id": image.id, **query} for query in items.values()],
            "expires_in": expires_in,
        },
    )
