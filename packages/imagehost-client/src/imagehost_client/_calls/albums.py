"""Operations on albums."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Unpack

from imagehost_client import _wire
from imagehost_client._calls.arguments import album_id_of, checked, id_of, image_ids_of, text
from imagehost_client._calls.call import Call, drop_none, drop_unset, paged, single
from imagehost_client._types import UNSET, AlbumRef, ImageRef, PageOptions, Unset
from imagehost_client.errors import BadRequestError
from imagehost_client.models import Album, AlbumShare, Deleted, DeletedAlbum, Membership, Page


@partial(checked, error=BadRequestError)
def list_albums(**paging: Unpack[PageOptions]) -> Call[Page[Album]]:
    """List your albums, newest first.

    Args:
        **paging: `page` (the first page, from 1), `per_page` (1–100; 20 by default), and `cursor` (the
            `next_cursor` of a page, to continue after it; not together with `page`).
    """
    return paged("/albums", "albums", Album, **paging)


@partial(checked, name=text(1, 100))
def create_album(
    name: str,
    *,
    description: str | None = None,
    is_public: bool | None = True,
    idempotency_key: str | None = None,
) -> Call[Album]:
    """Create an album.

    Args:
        name: 1–100 characters.
        description: At most 2,000 characters.
        is_public: Whether others may view the album.
        idempotency_key: The idempotency key, for retries from another process; random by default.
    """
    body = {"name": name, **drop_none(description=description, is_public=is_public)}
    return single("POST", Album, "albums", body=body, key=idempotency_key or "")


@checked
def get_album(album: AlbumRef) -> Call[Album]:
    """Return one of your albums.

    Args:
        album: The album, or its id.
    """
    return single("GET", Album, "albums", album_id_of(album))


@partial(checked, name=text(1, 100))
def update_album(
    album: AlbumRef,
    *,
    name: str | Unset = UNSET,
    description: str | Unset = UNSET,
    is_public: bool | Unset = UNSET,
    images_public: bool | Unset = UNSET,
) -> Call[Album]:
    """Change an album; omitted arguments leave their values unchanged.

    Args:
        album: The album, or its id.
        name: 1–100 characters.
        description: At most 2,000 characters.
        is_public: Whether others may view the album.
        images_public: Whether all its images become public, or private.
    """
    body = drop_unset(name=name, description=description, is_public=is_public, images_public=images_public)
    return single("PATCH", Album, "albums", album_id_of(album), body=body)


@partial(checked, error=BadRequestError)
def delete_album(
    album: AlbumRef, *, delete_images: bool = False, images_public: bool = False
) -> Call[DeletedAlbum]:
    """Delete an album; its images are kept by default.

    Args:
        album: The album, or its id.
        delete_images: Whether to delete its images too, permanently.
        images_public: Whether the public images of a private album stay public, so that the gallery lists
            them; they become private by default.
    """
    album_id = album_id_of(album)
    flags = {"delete_images": delete_images, "images_public": images_public}
    query = tuple((name, "true") for name, is_set in flags.items() if is_set)
    deleted = DeletedAlbum(id=int(album_id))
    return single("DELETE", DeletedAlbum, "albums", album_id, query=query, on_not_found=deleted)


@checked
def add_images(
    album: AlbumRef, images: Iterable[ImageRef] | ImageRef, *, images_public: bool = False
) -> Call[Membership]:
    """Add images to an album.

    Args:
        album: The album, or its id.
        images: Images, ids or URLs of images; one, or several.
        images_public: Whether public images that leave a private album for a public one stay public, so that
            the gallery lists them; they become private by default.
    """
    return _members("PUT", album, images, images_public)


@checked
def remove_images(
    album: AlbumRef, images: Iterable[ImageRef] | ImageRef, *, images_public: bool = False
) -> Call[Membership]:
    """Remove images from an album, without deleting them.

    Args:
        album: The album, or its id.
        images: Images, ids or URLs of images; one, or several.
        images_public: Whether the public images of a private album stay public, so that the gallery lists
            them; they become private by default.
    """
    return _members("DELETE", album, images, images_public)


def _members(
    method: str, album: AlbumRef, images: Iterable[ImageRef] | ImageRef, images_public: bool
) -> Call[Membership]:
    body: dict[str, object] = {"image_ids": image_ids_of(images)}
    if images_public:
        body["images_public"] = True
    return single(method, Membership, "albums", album_id_of(album), "images", body=body)


@checked
def create_share(
    album: AlbumRef, *, expires_at: datetime | None = None, password: str | None = None
) -> Call[AlbumShare]:
    """Create a share link, with which anyone sees an album and its images; only this result contains it.

    Args:
        album: The album, or its id.
        expires_at: The expiry, with a UTC offset; none by default.
        password: The password that the page requires, at least 8 characters; none by default.
    """
    expiry = None if expires_at is None else _wire.rfc3339(expires_at)
    body = drop_none(expires_at=expiry, password=password)
    return single("POST", AlbumShare, "albums", album_id_of(album), "shares", body=body, idempotent=False)


@partial(checked, error=BadRequestError)
def list_shares(album: AlbumRef, **paging: Unpack[PageOptions]) -> Call[Page[AlbumShare]]:
    """List the share links of an album that have not expired, newest first.

    Args:
        album: The album, or its id.
        **paging: `page` (the first page, from 1), `per_page` (1–100; 20 by default), and `cursor` (the
            `next_cursor` of a page, to continue after it; not together with `page`).
    """
    return paged(f"/albums/{album_id_of(album)}/shares", "shares", AlbumShare, **paging)


@checked
def delete_share(album: AlbumRef, share: AlbumShare | str) -> Call[Deleted]:
    """Revoke a share link, with immediate effect.

    Args:
        album: The album, or its id.
        share: The share, or its id.
    """
    path = ("albums", album_id_of(album), "shares", id_of(share))
    deleted = Deleted(id=id_of(share))
    return single("DELETE", Deleted, *path, on_not_found=deleted)
