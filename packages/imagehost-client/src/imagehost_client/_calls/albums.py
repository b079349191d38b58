"""The operations on albums."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from imagehost_client._calls._call import (
    UNSET,
    Call,
    Unset,
    drop_none,
    drop_unset,
    paged,
    query_pairs,
    single,
)
from imagehost_client._calls._refs import AlbumRef, ImageRef, album_id_of, image_id
from imagehost_client.models import Album, DeletedAlbum, Image, Membership, Page, PublicImage


def list_albums(*, page: int | None = None, per_page: int | None = None) -> Call[Page[Album]]:
    """List your albums, newest first.

    Args:
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    return paged("/albums", "albums", Album, query_pairs(page=page, per_page=per_page))


def create_album(
    name: str,
    *,
    description: str | None = None,
    is_public: bool | None = None,
    idempotency_key: str | None = None,
) -> Call[Album]:
    """Make an album.

    Args:
        name: 1–100 characters.
        description: At most 2,000 characters.
        is_public: Whether others may see it; the host's default is that they may.
        idempotency_key: The key of this call, to repeat it in another process; random by default.
    """
    body = {"name": name, **drop_none(description=description, is_public=is_public)}
    return evolve(single("POST", Album, "albums", body=body), key=idempotency_key or "")


def get_album(album: AlbumRef) -> Call[Album]:
    """Return one album of yours.

    Args:
        album: The album, or its id.
    """
    return single("GET", Album, "albums", album_id_of(album))


def update_album(
    album: AlbumRef,
    *,
    name: str | Unset = UNSET,
    description: str | Unset = UNSET,
    is_public: bool | Unset = UNSET,
) -> Call[Album]:
    """Change an album's record; what is left out stays as it is.

    Args:
        album: The album, or its id.
        name: 1–100 characters.
        description: At most 2,000 characters.
        is_public: Whether others may see it.
    """
    body = drop_unset(name=name, description=description, is_public=is_public)
    return single("PATCH", Album, "albums", album_id_of(album), body=body)


def delete_album(album: AlbumRef, *, delete_images: bool = False) -> Call[DeletedAlbum]:
    """Delete an album; its images stay, unless they are to go with it.

    Args:
        album: The album, or its id.
        delete_images: Whether its images are deleted too, for good.
    """
    number = album_id_of(album)
    call = single("DELETE", DeletedAlbum, "albums", number)
    query = (("delete_images", "true"),) if delete_images else ()
    return evolve(call, query=query, on_not_found=DeletedAlbum(id=int(number)))


def add_images(album: AlbumRef, images: Iterable[ImageRef] | ImageRef) -> Call[Membership]:
    """Put images into an album.

    Args:
        album: The album, or its id.
        images: Images, or their ids; one alone will do.
    """
    return _members("PUT", album, images)


def remove_images(album: AlbumRef, images: Iterable[ImageRef] | ImageRef) -> Call[Membership]:
    """Take images out of an album; they are not deleted.

    Args:
        album: The album, or its id.
        images: Images, or their ids; one alone will do.
    """
    return _members("DELETE", album, images)


def _members(method: str, album: AlbumRef, images: Iterable[ImageRef] | ImageRef) -> Call[Membership]:
    if isinstance(images, (str, Image, PublicImage)):
        images = (images,)
    body = {"image_ids": [image_id(image) for image in images]}
    return single(method, Membership, "albums", album_id_of(album), "images", body=body)
