"""The page `/images`: the images of the account, with search, filters, order and selection."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from litestar import Response

from imagehost_core import to_rfc3339
from imagehost_core.errors import BadRequestError, FieldError, quote_value
from imagehost_core.lists import STORED, ImageSort
from imagehost_core.models import Album, Image, Page
from imagehost_server.web.page import PageRequest, page
from imagehost_server.web.pages.lists import IMAGES_PER_PAGE, own_tiles, read_albums
from imagehost_server.web.presentation import format_label, size_text

FILTERS = ("q", "is_public", "format", "album_id", "sort")
"""Query parameters of the form that are those of `GET /v1/images`; an empty one is absent."""
FIRST_DAY, LAST_DAY = "from", "to"
"""Query parameters of the form: the days, in UTC, of the first and of the last upload to list."""
LIST_VIEW = "list"


@page("/images", sign_in=True)
async def library(request: PageRequest) -> Response[Any]:
    """Show a page of the account's images."""
    filters = {name: request.query_params.get(name, "").strip() for name in (*FILTERS, FIRST_DAY, LAST_DAY)}
    used = {name: value for name, value in filters.items() if value}
    view = request.query_params.get("view", "")
    cursor = request.query_params.get("cursor")
    listed, albums = await request.executors.database.run(_read, request, used, cursor)
    link = urlencode({**used, **({"view": view} if view == LIST_VIEW else {})})
    return request.render(
        "library.html",
        albums=albums,
        api_query=urlencode({**_to_api_filters(used), **({"cursor": cursor} if cursor else {})}),
        album_names={album.id: album.name for album in albums},
        cursor=cursor,
        filters=filters,
        formats=[(name, format_label(fmt)) for name, fmt in STORED.items()],
        images=[
            (tile, image, size_text(image.size, request.texts)) for tile, image in own_tiles(request, listed)
        ],
        has_filters=bool(used.keys() - {"q"}),
        is_filtered=bool(used),
        is_list=view == LIST_VIEW,
        link=link,
        next_cursor=listed.next_cursor,
        sorts=[order.value for order in ImageSort],
        total=listed.total,
        views={"grid": urlencode(used), LIST_VIEW: urlencode({**used, "view": LIST_VIEW})},
    )


def _read(
    request: PageRequest, filters: dict[str, str], cursor: str | None
) -> tuple[Page[Image], tuple[Album, ...]]:
    parameters = [*_to_api_filters(filters).items(), ("per_page", str(IMAGES_PER_PAGE))]
    if cursor is not None:
        parameters.append(("cursor", cursor))
    listed = request.host.images.list_by_parameters(parameters, owner=request.account)
    return listed, read_albums(request)


def _to_api_filters(filters: dict[str, str]) -> dict[str, str]:
    """Return the filters as the API has them: with the times before and after the days.

    Raises:
        BadRequestError: A day is no date as `2026-11-22`.
    """
    found = {name: value for name, value in filters.items() if name in FILTERS}
    if FIRST_DAY in filters:
        found["created_after"] = to_rfc3339(_midnight(filters, FIRST_DAY) - timedelta(microseconds=1))
    if LAST_DAY in filters:
        found["created_before"] = to_rfc3339(_midnight(filters, LAST_DAY) + timedelta(days=1))
    return found


def _midnight(filters: dict[str, str], name: str) -> datetime:
    try:
        day = date.fromisoformat(filters[name])
        if not 1970 <= day.year < 9999:
            raise ValueError(name)
    except ValueError:
        errors = [FieldError(name, "a date such as 2026-11-22", quote_value(filters[name]))]
        raise BadRequestError(errors=errors) from None
    return datetime.combine(day, time(), UTC)


HANDLERS = (library,)
