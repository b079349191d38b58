"""Operations on images, one or many of them, and their signed URLs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, Unpack

from attrs import evolve

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
    Call,
    chunks,
    drop_unset,
    format_name,
    paged,
    single,
)
from imagehost_client._types import (
    STORED_FORMATS,
    UNSET,
    AlbumRef,
    ImageRef,
    ImageSort,
    PageOptions,
    SignItem,
    StoredFormat,
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
    Page,
    PublicImage,
    Result,
    ResultList,
    SignedImageUrl,
    SignedUrl,
)
from imagehost_client.urls import (
    build_query,
    choice,
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
