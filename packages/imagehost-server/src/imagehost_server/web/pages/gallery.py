"""The pages `/` and `/a/{id}`: public images of all accounts, and those of one public album."""

from __future__ import annotations

from typing import Any

from litestar import Response
from litestar.params import FromPath

from imagehost_core.lists import parse_page_request
from imagehost_core.models import GalleryPage
from imagehost_server.web.page import PageRequest, page, sign_in_if_closed
from imagehost_server.web.pages.lists import IMAGES_PER_PAGE
from imagehost_server.web.presentation import ImagePresenter


@page("/", public=True)
async def gallery(request: PageRequest) -> Response[Any]:
    """Show the newest public images, or those after a cursor."""
    return await _show(request, "gallery.html")


@page("/a/{album_id:str}", public=True)
async def album(request: PageRequest, album_id: FromPath[str]) -> Response[Any]:
    """Show the public images of a public album."""
    return await _show(request, "album.html", album_id)


async def _show(request: PageRequest, template: str, album_id: str | None = None) -> Response[Any]:
    if closed := sign_in_if_closed(request):
        return closed
    cursor = request.query_params.get("cursor")
    listed = await request.executors.reads.run(_read, request, cursor, album_id)
    presenter = ImagePresenter(request.host.urls, request.settings.delivery)
    return request.render(
        template,
        album=listed.album,
        cursor=cursor,
        next_cursor=listed.next_cursor,
        tiles=[presenter.tile(image) for image in listed],
        total=listed.total,
    )


def _read(request: PageRequest, cursor: str | None, album_id: str | None) -> GalleryPage:
    page_request = parse_page_request(per_page=IMAGES_PER_PAGE, cursor=cursor)
    return request.host.gallery(page_request, album_id=album_id)


HANDLERS = (gallery, album)
