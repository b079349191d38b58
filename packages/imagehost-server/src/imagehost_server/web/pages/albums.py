"""The pages `/albums` and `/albums/{id}`: create, change, download and delete albums.

The ZIP archives `/albums/{id}/images.zip`, and `/a/{id}/images.zip` of public albums, are written while they
are sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import urlencode
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from litestar import Response
from litestar.params import FromPath
from litestar.response import Stream

from imagehost_core.errors import ImageHostError, NotFoundError, ValidationError
from imagehost_core.lists import ImageSort
from imagehost_core.models import Album, Image, Page
from imagehost_core.services.delivery import Blob
from imagehost_core.uploads import BOOLEANS
from imagehost_server.delivery.route import content_disposition
from imagehost_server.web.page import (
    WebRequest,
    page,
    page_headers,
    read_form,
    see_other,
    sign_in_if_closed,
)
from imagehost_server.web.pages.images import IMAGES_PER_PAGE, own_tiles, read_albums
from imagehost_server.web.pages.public import iter_gallery, read_gallery
from imagehost_server.web.presentation import Tile

ALBUMS_PER_PAGE = 48
ORDERS = (ImageSort.NEWEST.value, ImageSort.OLDEST.value)
"""The orders of an album's images that the page offers: by date."""


@page("/albums", sign_in=True)
async def albums(request: WebRequest) -> Response[Any]:
    """Show the albums of the account."""
    return await _show_albums(request)


@page("/albums", method="POST", sign_in=True)
async def create_album(request: WebRequest) -> Response[Any]:
    """Create an album, and show it."""
    form = await read_form(request)
    host, account = request.host, request.account
    try:
        album = await request.executors.database.run(
            host.albums.create,
            owner=account,
            name=form.get("name", ""),
            description=form.get("description", ""),
            is_public=_is_public(form),
        )
    except ValidationError as error:
        return await _show_albums(request, status=422, failure=error)
    return see_other(request, f"/albums/{album.id}")


@page("/albums/{album_id:str}", sign_in=True)
async def own_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Show an album of the account, with its images."""
    return await _show_album(request, album_id)


@page("/albums/{album_id:str}", method="POST", sign_in=True)
async def update_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Change an album, and show it."""
    form = await read_form(request)
    host, account = request.host, request.account
    changes = {name: form[name] for name in ("name", "description") if name in form}
    try:
        await request.executors.database.run(
            lambda: host.albums.update(album_id, owner=account, is_public=_is_public(form), **changes)
        )
    except ValidationError as error:
        return await _show_album(request, album_id, status=422, failure=error)
    return see_other(request, f"/albums/{album_id}", "saved")


@page("/albums/{album_id:str}/delete", method="POST", sign_in=True)
async def delete_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Delete an album, with its images if the form says so, and show the others."""
    form = await read_form(request)
    await request.executors.database.run(
        lambda: request.host.albums.delete(
            album_id, owner=request.account, delete_images=form.get("images") == "delete"
        )
    )
    return see_other(request, "/albums", "deleted")


def _is_public(form: dict[str, str]) -> bool:
    return BOOLEANS.get(form.get("is_public", "true").lower(), True)


async def _show_albums(
    request: WebRequest, *, status: int = 200, failure: ImageHostError | None = None
) -> Response[Any]:
    cursor = request.query_params.get("cursor")
    listed, covers = await request.executors.database.run(_read_albums, request, cursor)
    return request.render(
        "albums.html",
        status=status,
        albums=listed.items,
        covers=covers,
        cursor=cursor,
        failure=failure,
        next_cursor=listed.next_cursor,
    )


def _read_albums(request: WebRequest, cursor: str | None) -> tuple[Page[Album], dict[int, Tile]]:
    listed = request.host.albums.list(owner=request.account, per_page=ALBUMS_PER_PAGE, cursor=cursor)
    covers = [album.cover for album in listed if album.cover is not None]
    tiles = {image.id: tile for tile, image in own_tiles(request, covers)}
    return listed, {album.id: tiles[album.cover.id] for album in listed if album.cover is not None}


async def _show_album(
    request: WebRequest, album_id: str, *, status: int = 200, failure: ImageHostError | None = None
) -> Response[Any]:
    cursor, order = request.query_params.get("cursor"), request.query_params.get("sort", "")
    order = order if order in ORDERS else ORDERS[0]
    album, listed = await request.executors.database.run(_read_album, request, album_id, cursor, order)
    database, after = request.executors.database, {"cursor": cursor} if cursor else {}
    return request.render(
        "own_album.html",
        status=status,
        album=album,
        albums=await database.run(read_albums, request),
        api_query=urlencode({"album_id": album.id, "sort": order, **after}),
        cursor=cursor,
        failure=failure,
        images=await database.run(own_tiles, request, listed),
        link="" if order == ORDERS[0] else f"sort={order}",
        next_cursor=listed.next_cursor,
        order=order,
        orders=ORDERS,
        share_url=f"{request.settings.site_url}/a/{album.id}",
    )


def _read_album(
    request: WebRequest, album_id: str, cursor: str | None, order: str
) -> tuple[Album, Page[Image]]:
    host, account = request.host, request.account
    album = host.albums.get(album_id, owner=account)
    return album, host.images.list(
        owner=account, album_id=album, sort=order, per_page=IMAGES_PER_PAGE, cursor=cursor
    )


@page("/a/{album_id:str}/images.zip", public=True)
async def album_archive(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return the public images of a public album as a ZIP archive, the newest first."""
    if closed := sign_in_if_closed(request):
        return closed
    listed = await request.executors.reads.run(read_gallery, request, None, album_id, 1)
    assert listed.album is not None
    return _archive(request, listed.album.name, iter_gallery(request, album_id))


@page("/albums/{album_id:str}/images.zip", sign_in=True)
async def own_album_archive(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return all images of an album of the account as a ZIP archive, the newest first."""
    host, account = request.host, request.account
    album = await request.executors.database.run(host.albums.get, album_id, owner=account)
    return _archive(request, album.name, host.images.iter(owner=account, album_id=album))


def _archive(request: WebRequest, name: str, images: Iterator[Image]) -> Response[Any]:
    delivery, viewer = request.host.delivery, request.viewer
    pieces = zip_pieces(images, lambda image: delivery.open(delivery.resolve(str(image.id), viewer=viewer)))

    async def stream() -> AsyncIterator[bytes]:
        try:
            # The image may have to be downloaded from an object store.
            while piece := await request.executors.masters.run(next, pieces, b""):
                yield piece
        finally:
            pieces.close()

    headers = page_headers(request.settings.delivery_url, viewer, listed=False)
    # Litestar prefers the media type of the handler, which is that of pages, to the one of the response.
    headers["content-type"] = "application/zip"
    headers["content-disposition"] = content_disposition(f"{name.replace('/', '_')}.zip").decode()
    return Stream(stream(), headers=headers)


def zip_pieces(images: Iterator[Image], open_image: Callable[[Image], Blob]) -> Generator[bytes, None, None]:
    """Yield the pieces of a ZIP archive of images, about 1 MiB at most, as it is written.

    Nothing is compressed, because images are already. Of two images of one file name, the second has its id
    in the name. An image that is deleted meanwhile is left out.

    Args:
        images: The images.
        open_image: Opens an image; raises NotFoundError if there is none any more.
    """
    sink, names = _Sink(), set[str]()
    with ZipFile(sink, "w", ZIP_STORED) as archive:  # type: ignore[call-overload]
        for image in images:
            name = PurePath(image.filename)
            if image.filename in names:
                name = name.with_stem(f"{name.stem}-{image.id}")
            try:
                blob = open_image(image)
            except NotFoundError:
                continue
            names.add(str(name))
            entry = ZipInfo(str(name), image.created_at.timetuple()[:6])
            entry.external_attr = 0o644 << 16
            entry.file_size = blob.size
            with blob, archive.open(entry, "w") as file:
                for chunk in blob.chunks():
                    file.write(chunk)
                    yield sink.take()
    yield sink.take()


class _Sink:
    """A file for `ZipFile` that cannot seek; what was written is taken from it."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._written += data
        return len(data)

    def flush(self) -> None:
        """Do nothing; `ZipFile` calls it."""

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = bytes(self._written)
        self._written.clear()
        return taken


HANDLERS = (albums, create_album, own_album, update_album, delete_album, own_album_archive, album_archive)
