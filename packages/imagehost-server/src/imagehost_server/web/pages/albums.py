"""The pages `/albums` and `/albums/{id}`: create, change, share and delete albums."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from litestar import Response
from litestar.params import FromPath

from imagehost_core.errors import (
    ImageHostError,
    ValidationError,
)
from imagehost_core.lists import ImageSort
from imagehost_core.models import Album, AlbumShare, Image, Page
from imagehost_core.services.albums import MAX_SHARES
from imagehost_core.uploads import BOOLEANS
from imagehost_server.routes.albums import ShareRecord, new_share
from imagehost_server.web.forms import read_choice
from imagehost_server.web.page import page
from imagehost_server.web.pages.images import IMAGES_PER_PAGE, LIFETIMES, own_tiles, read_albums
from imagehost_server.web.presentation import Tile
from imagehost_server.web.redirects import see_other
from imagehost_server.web.request import WebRequest
from imagehost_server.web.timeline import Place, Timeline, read_place, read_timeline

ALBUMS_PER_PAGE = 48
ORDERS = (ImageSort.NEWEST.value, ImageSort.OLDEST.value, ImageSort.TAKEN_FIRST.value)
"""The orders of an album's images that the page offers: by date."""


@page("/albums", sign_in=True)
async def albums(request: WebRequest) -> Response[Any]:
    """Show the albums of the account."""
    return await _show_albums(request)


@page("/albums", method="POST", sign_in=True)
async def create_album(request: WebRequest) -> Response[Any]:
    """Create an album, and show it."""
    form = request.fields
    try:
        album = await request.call(
            request.host.albums.create,
            name=form.get("name", ""),
            description=form.get("description", ""),
            is_public=_boolean(form.get("is_public") or "true"),
        )
    except ValidationError as error:
        return await _show_albums(request, failure=error)
    return see_other(request, f"/albums/{album.id}")


@page("/albums/{album_id:str}", sign_in=True)
async def own_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Show an album of the account, with its images."""
    return await _show_album(request, album_id)


@page("/albums/{album_id:str}", method="POST", sign_in=True)
async def update_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Change an album, and show it."""
    form = request.fields
    changes: dict[str, Any] = {name: form[name] for name in ("name", "description") if name in form}
    if form.get("is_public"):
        changes["is_public"] = _boolean(form["is_public"])
    if form.get("images_public"):
        changes["images_public"] = _boolean(form["images_public"])
    try:
        await request.call(request.host.albums.update, album_id, **changes)
    except ValidationError as error:
        return await _show_album(request, album_id, failure=error)
    return see_other(request, f"/albums/{album_id}", "saved")


@page("/albums/{album_id:str}/delete", method="POST", sign_in=True)
async def delete_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Delete an album, with its images if the form says so, and show the others."""
    choice = read_choice(request.fields, "images", {name: name for name in ("", "keep", "publish", "delete")})
    await request.call(
        request.host.albums.delete,
        album_id,
        delete_images=choice == "delete",
        images_public=choice == "publish",
    )
    return see_other(request, "/albums", "deleted")


@page("/albums/{album_id:str}/shares", method="POST", sign_in=True)
async def share_album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Create a share link of an album, and show it."""
    form = request.fields
    members: dict[str, object] = {"password": form["password"]} if form.get("password") else {}
    try:
        lifetime = read_choice(
            form, "expires_in", {"": None} | {str(seconds): seconds for seconds in LIFETIMES}
        )
        if lifetime is not None:
            members["expires_at"] = request.host.now() + timedelta(seconds=lifetime)
        return await _show_album(request, album_id, share=await new_share(request, album_id, members))
    except ValidationError as error:
        return await _show_album(request, album_id, failure=error)


@page("/albums/{album_id:str}/shares/{share_id:str}/delete", method="POST", sign_in=True)
async def revoke_share(
    request: WebRequest, album_id: FromPath[str], share_id: FromPath[str]
) -> Response[Any]:
    """Revoke a share link of an album, and show the album."""
    await request.call(request.host.albums.delete_share, album_id, share_id)
    return see_other(request, f"/albums/{album_id}", "saved")


def _boolean(text: str) -> bool | str:
    """Return the value of a boolean field; another text is an error of the core."""
    return BOOLEANS.get(text.lower(), text)


async def _show_albums(request: WebRequest, *, failure: ImageHostError | None = None) -> Response[Any]:
    cursor = request.query_params.get("cursor")
    listed, covers = await request.executors.database.run(_read_albums, request, cursor)
    return request.render(
        "albums.html",
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
    request: WebRequest,
    album_id: str,
    *,
    failure: ImageHostError | None = None,
    share: ShareRecord | None = None,
) -> Response[Any]:
    order = request.query_params.get("sort", "")
    order = order if order in ORDERS else ORDERS[0]
    filters = {"album_id": album_id, "sort": order}
    place, database = read_place(request, filters), request.executors.database
    album, listed, timeline, shares = await database.run(_read_album, request, album_id, filters, place)
    return request.render(
        "own_album.html",
        album=album,
        albums=await database.run(read_albums, request),
        api_filters=urlencode(filters),
        api_query=urlencode(place.filters),
        failure=failure,
        images=await database.run(own_tiles, request, listed),
        lifetimes=LIFETIMES,
        link="" if order == ORDERS[0] else f"sort={order}",
        next_cursor=listed.next_cursor,
        order=order,
        orders=ORDERS,
        path=f"/albums/{album.id}",
        place=place,
        share=share,
        shares=shares,
        share_url=f"{request.settings.site_url}/a/{album.id}",
        timeline=timeline,
    )


def _read_album(
    request: WebRequest, album_id: str, filters: dict[str, str], place: Place
) -> tuple[Album, Page[Image], Timeline | None, Page[AlbumShare]]:
    host, account = request.host, request.account
    album = host.albums.get(album_id, owner=account)
    read: Callable[..., Page[Image]] = partial(host.images.list, owner=account)
    listed = read(**{"per_page": IMAGES_PER_PAGE, **place.filters})
    timeline = read_timeline(read, filters, request.zone, place.month)
    return album, listed, timeline, host.albums.list_shares(album, owner=account, per_page=MAX_SHARES)
