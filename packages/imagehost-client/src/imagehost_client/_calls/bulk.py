"""Operations on many images: one request for each 100 of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar, Unpack

from attrs import evolve

from imagehost_client import _wire
from imagehost_client._calls._arguments import checked
from imagehost_client._calls._call import UNSET, Call, Unset, drop_unset
from imagehost_client._calls._refs import AlbumRef, ImageRef, album_id_of, image_id_of
from imagehost_client.models import (
    BulkResult,
    BulkStatus,
    Image,
    PublicImage,
    Result,
    ResultList,
    SignedImageUrl,
)
from imagehost_client.urls import TransformParams, build_query

R = TypeVar("R", bound=Result)
V = TypeVar("V")

MAX_IMAGES = 100
"""The maximum number of images in a request."""

Calls = tuple[Call[ResultList[R]], ...]
"""Calls whose results are parts of one list."""

SignItem = ImageRef | tuple[ImageRef, TransformParams]
"""An image of `signed_urls`, alone or with its own processing parameters."""


@checked
def update_images(
    images: Iterable[ImageRef] | ImageRef,
    *,
    album_id: AlbumRef | Unset | None = UNSET,
    description: str | Unset = UNSET,
    is_public: bool | Unset = UNSET,
    filename: str | Unset = UNSET,
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

    Returns:
        A result for each image, in the order of `images`; a missing image stops no other.
    """
    album = album_id if album_id is None or album_id is UNSET else album_id_of(album_id)
    changes = drop_unset(album_id=album, description=description, is_public=is_public, filename=filename)
    return tuple(
        Call(
            method="PATCH",
            path="/images",
            decode=partial(_wire.decode_list, BulkResult, "results"),
            body={"image_ids": ids, **changes},
        )
        for ids in _chunks(_unique_ids(images))
    )


@checked
def delete_images(images: Iterable[ImageRef] | ImageRef) -> Calls[BulkResult]:
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
        Call(
            method="POST",  # some proxies drop the body of a DELETE
            path="/images/delete",
            decode=partial(_wire.decode_list, BulkResult, "results"),
            body={"image_ids": ids},
            on_repeat=_not_found_as_deleted,
        )
        for ids in _chunks(_unique_ids(images))
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
        ValueError: A parameter is out of its range.
        NotFoundError: You have no such image; no URL is returned.
    """
    if isinstance(images, (str, Image, PublicImage)):
        images = (images,)
    items = [_sign_item(item, params) for item in images]
    return tuple(
        Call(
            method="POST",
            path="/signed-urls",
            decode=partial(_wire.decode_list, SignedImageUrl, "items"),
            body={"items": chunk, "expires_in": expires_in},
        )
        for chunk in _chunks(items)
    )


def _sign_item(item: SignItem, params: TransformParams) -> dict[str, object]:
    image, own = item if isinstance(item, tuple) else (item, {})
    return {"image_id": image_id_of(image), **build_query({**params, **own})}


def _unique_ids(images: Iterable[ImageRef] | ImageRef) -> list[str]:
    if isinstance(images, (str, Image, PublicImage)):
        images = (images,)
    return list(dict.fromkeys(map(image_id_of, images)))


def _chunks(values: Sequence[V]) -> Iterator[Sequence[V]]:
    for start in range(0, len(values), MAX_IMAGES):
        yield values[start : start + MAX_IMAGES]


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
