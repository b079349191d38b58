"""The pages `/albums` and `/albums/{id}`: create, change and delete albums."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from litestar import Response
from litestar.params import FromPath

from imagehost_core.errors import ImageHostError, ValidationError
from imagehost_core.lists import ImageSort
from imagehost_core.models import Album, Image, Page
from imagehost_core.uploads import BOOLEANS
from imagehost_server.web.page import WebRequest, page, read_form, see_other
from imagehost_server.web.pages.images import IMAGES_PER_PAGE, own_tiles, read_albums
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


HANDLERS = (albums, create_album, own_album, update_album, delete_album)
