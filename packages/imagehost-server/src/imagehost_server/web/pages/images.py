"""The pages `/images`, with search, filters, order and selection, and `/images/{id}`, to edit one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from attrs import evolve
from litestar import Response
from litestar.params import FromPath
from litestar.response import Stream

from imagehost_core import CameraData, to_rfc3339
from imagehost_core.errors import (
    BadRequestError,
    FieldError,
    ForbiddenError,
    ImageHostError,
    NotFoundError,
    UnauthorizedError,
    ValidationError,
    quote_value,
)
from imagehost_core.formats import FORMATS, MASTERS, Format
from imagehost_core.ids import AlbumId, ImageId
from imagehost_core.lists import FILTER_RULES, MAX_PER_PAGE, ImageSort
from imagehost_core.models import Album, Image, Page
from imagehost_core.transform import TRANSFORM_PARAMETERS, Fit
from imagehost_core.uploads import BOOLEANS
from imagehost_server.http.responses import log_cause, to_api_error
from imagehost_server.middleware.response_cut import cut_response
from imagehost_server.routes.lists import list_keywords
from imagehost_server.web.forms import read_choice
from imagehost_server.web.page import page
from imagehost_server.web.page_headers import page_headers
from imagehost_server.web.presentation import (
    ImagePresenter,
    Tile,
    camera_facts,
    shape,
    size_text,
    still_format,
)
from imagehost_server.web.redirects import see_other
from imagehost_server.web.request import WebRequest
from imagehost_server.web.timeline import Place, Timeline, read_place, read_timeline

IMAGES_PER_PAGE = 40
"""Images of a grid in one page; 40 have at most 30 KB of HTML."""

IDS_PER_PIECE = MAX_PER_PAGE
"""Ids of images that are sent before the right to the list is looked at again."""
MAX_ALBUMS = MAX_PER_PAGE
"""The number of albums that forms offer: the newest."""

SIGNED_SECONDS = 3_600
"""How long a page can show private images from another origin than its own."""

THUMBNAIL = {"w": 320, "h": 320, "fit": "inside"}


def read_albums(request: WebRequest, album_id: AlbumId | str | None = None) -> tuple[Album, ...]:
    """Return the newest albums of the account, for a choice, with the one that is chosen.

    Args:
        request: The request.
        album_id: The chosen album, as received; one that the account does not have is left out.
    """
    albums, account = request.host.albums, request.account
    newest = albums.list(owner=account, per_page=MAX_ALBUMS).items
    if album_id is None or any(str(album.id) == str(album_id) for album in newest):
        return newest
    with suppress(NotFoundError):
        return (*newest, albums.get(album_id, owner=account))
    return newest


def own_tiles(request: WebRequest, images: Iterable[Image]) -> list[tuple[Tile, Image]]:
    """Return images of the account as a grid shows them to their owner.

    The session cookie gives access to private images below the URL of the pages. Where `cdn_url` is
    elsewhere, private images have signed URLs.
    """
    images = tuple(images)
    presenter = ImagePresenter(request.host.urls, request.settings.delivery)
    private = [image for image in images if not image.is_public]
    signed = _signed_thumbnails(request, private)
    animations = _signed_thumbnails(request, [image for image in private if image.is_animated], plays=True)
    tiles = []
    for image in images:
        tile = evolve(presenter.tile(image), page=f"/images/{image.id}")
        if image.id in signed:
            animation = animations.get(image.id, "")
            tile = evolve(
                tile, src=signed[image.id], srcset="", cover="", animation=animation, is_signed=True
            )
        tiles.append((tile, image))
    return tiles


def _signed_thumbnails(
    request: WebRequest, private: list[Image], *, plays: bool = False
) -> dict[ImageId, str]:
    """Return signed URLs of thumbnails, which show the first frame or play; none if the session suffices."""
    settings = request.settings
    if not private or f"{settings.delivery_url}/".startswith(f"{settings.site_url}/"):
        return {}
    formats = [FORMATS[(not plays and still_format(image)) or Format.WEBP] for image in private]
    items = [
        {"image_id": image.id, "fm": fmt.extensions[0], **THUMBNAIL}
        for image, fmt in zip(private, formats, strict=True)
    ]
    urls = request.host.images.signed_urls(items, owner=request.account, expires_in=SIGNED_SECONDS)
    return {signed.image_id: signed.url for signed in urls}


LIBRARY_FILTERS = ("q", "is_public", "format", "album_id", "sort")
"""Query parameters of the form that are those of `GET /v1/images`; an empty one is absent."""

FIRST_DAY, LAST_DAY = "from", "to"
"""Query parameters of the form: the days of the first and the last upload to list, in the browser's zone."""

FILTERS = ("album_id", *FILTER_RULES)
"""Query parameters of the API that select images."""

LIST_VIEW = "list"


@page("/images", sign_in=True)
async def library(request: WebRequest) -> Response[Any]:
    """Show a page of the account's images."""
    filters = {
        name: request.query_params.get(name, "").strip() for name in (*LIBRARY_FILTERS, FIRST_DAY, LAST_DAY)
    }
    used = {name: value for name, value in filters.items() if value}
    view = request.query_params.get("view", "")
    api_filters = _to_api_filters(used, request.zone)
    place = read_place(request, api_filters)
    listed, timeline, albums = await request.executors.database.run(_read, request, api_filters, place)
    link = urlencode({**used, **({"view": view} if view == LIST_VIEW else {})})
    return request.render(
        "library.html",
        albums=albums,
        api_filters=urlencode(api_filters),
        api_query=urlencode(place.filters),
        album_names={album.id: album.name for album in albums},
        filters=filters,
        formats=[(fmt.value, FORMATS[fmt].label) for fmt in MASTERS],
        images=[
            (tile, image, size_text(image.size, request.texts)) for tile, image in own_tiles(request, listed)
        ],
        has_filters=bool(used.keys() - {"q"}),
        is_filtered=bool(used),
        is_list=view == LIST_VIEW,
        link=link,
        next_cursor=listed.next_cursor,
        place=place,
        sorts=[order.value for order in ImageSort],
        timeline=timeline,
        total=timeline.total if timeline else listed.total,
        views={"grid": urlencode(used), LIST_VIEW: urlencode({**used, "view": LIST_VIEW})},
    )


def _read(
    request: WebRequest, filters: dict[str, str], place: Place
) -> tuple[Page[Image], Timeline | None, tuple[Album, ...]]:
    read: Callable[..., Page[Image]] = partial(request.host.images.list, owner=request.account)
    listed = read(**{"per_page": IMAGES_PER_PAGE, **place.filters})
    return listed, read_timeline(read, filters, request.zone, place.month), read_albums(request)


@page("/images/ids", sign_in=True, json=True)
async def listed_ids(request: WebRequest) -> Response[Any]:
    """Return the ids of all images of a list, by the filters of the API, separated by spaces."""
    keywords = list_keywords(request.query_params.multi_items(), FILTERS)
    host, token = request.host, request.identity.token
    images = host.images.iter(owner=request.account, **keywords)

    def read_next() -> str:
        host.authenticate(token)
        return "".join(f"{image.id} " for image in islice(images, IDS_PER_PIECE))

    database = request.executors.database
    first = await database.run(read_next)  # an error of the filters is a response

    async def pieces() -> AsyncIterator[str]:
        piece = first
        while piece:
            yield piece
            try:
                piece = await database.run(read_next)
            except (ForbiddenError, NotFoundError, UnauthorizedError):
                cut_response(request.scope)

    headers = page_headers(request.settings.delivery_url, request.viewer)
    return Stream(pieces(), headers={**headers, "content-type": "text/plain"})


def _to_api_filters(filters: dict[str, str], zone: tzinfo) -> dict[str, str]:
    """Return the filters as the API has them: with the times before and after the days.

    Raises:
        BadRequestError: A day is no date as `2026-11-22`.
    """
    found = {name: value for name, value in filters.items() if name in LIBRARY_FILTERS}
    if FIRST_DAY in filters:
        found["created_after"] = to_rfc3339(_midnight(filters, FIRST_DAY, zone) - timedelta(microseconds=1))
    if LAST_DAY in filters:
        found["created_before"] = to_rfc3339(_midnight(filters, LAST_DAY, zone, days=1))
    return found


def _midnight(filters: dict[str, str], name: str, zone: tzinfo, days: int = 0) -> datetime:
    """Return the beginning of the day that a filter names, or of a day after it, in UTC."""
    try:
        day = date.fromisoformat(filters[name])
        if not 1970 <= day.year < 9999:
            raise ValueError(name)
    except ValueError:
        errors = [FieldError(name, "a date such as 2026-11-22", quote_value(filters[name]))]
        raise BadRequestError(errors=errors) from None
    return datetime.combine(day + timedelta(days), time(), zone).astimezone(UTC)


BUILDER_FORMATS = ("auto", "avif", "webp", "jpeg", "png")

LIFETIMES = (3_600, 86_400, 604_800, 2_592_000)
"""Seconds that the form for signed URLs offers: an hour, a day, a week and 30 days."""


@page("/images/{image_id:str}", sign_in=True)
async def own_image(request: WebRequest, image_id: FromPath[str]) -> Response[Any]:
    """Show an image of the account."""
    image = await request.call(request.host.images.get, image_id)
    return await _show(request, image)


@page("/images/{image_id:str}", method="POST", sign_in=True)
async def update_image(request: WebRequest, image_id: FromPath[str]) -> Response[Any]:
    """Change the fields of an image, and show it."""
    form = request.fields
    changes: dict[str, Any] = {name: form[name] for name in ("filename", "description") if name in form}
    if "album_id" in form:
        changes["album_id"] = form["album_id"] or None
    images = request.host.images
    is_public = read_choice(form, "is_public", {"": None, **BOOLEANS})
    # The field that stays as it was is no request to publish an image that leaves a private album.
    if is_public not in (None, (await request.call(images.get, image_id)).is_public):
        changes["is_public"] = is_public
    try:
        await request.call(images.update, image_id, **changes)
    except ValidationError as error:
        image = await request.call(images.get, image_id)
        return await _show(request, image, failure=error)
    return see_other(request, f"/images/{image_id}", "saved")


@page("/images/{image_id:str}/delete", method="POST", sign_in=True)
async def delete_image(request: WebRequest, image_id: FromPath[str]) -> Response[Any]:
    """Delete an image for good, and show the others."""
    await request.call(request.host.images.delete, image_id)
    return see_other(request, "/images", "deleted")


@page("/images/{image_id:str}/sign", method="POST", sign_in=True)
async def sign_image(request: WebRequest, image_id: FromPath[str]) -> Response[Any]:
    """Show a signed URL of an image, or of a variant of it, which gives access until it expires."""
    form = request.fields
    images = request.host.images
    text = form.get("expires_in", "")
    seconds = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    parameters = {name: form[name] for name in TRANSFORM_PARAMETERS if form.get(name)}
    image = await request.call(images.get, image_id)
    try:
        signed = await request.call(images.signed_url, image_id, parameters, expires_in=seconds)
    except (BadRequestError, ValidationError) as error:
        return await _show(request, image, failure=error)
    return await _show(request, image, signed_url=signed.url)


async def _show(
    request: WebRequest,
    image: Image,
    *,
    failure: ImageHostError | None = None,
    signed_url: str = "",
) -> Response[Any]:
    albums = await request.executors.database.run(read_albums, request, image.album_id)
    presenter = ImagePresenter(request.host.urls, request.settings.delivery)
    ((tile, _),) = await request.executors.database.run(own_tiles, request, [image])
    camera = await request.executors.database.run(read_camera_data, request, image)
    urls = request.host.urls
    return request.render(
        "own_image.html",
        albums=albums,
        builder_formats=BUILDER_FORMATS,
        camera=camera,
        camera_facts=camera_facts(camera, request.texts) if camera else (),
        failure=failure,
        fits=[fit.value for fit in Fit],
        format=FORMATS[Format(image.format)].label,
        has_variants=presenter.has_variants and not tile.is_signed,
        image=image,
        large=(tile.animation or tile.src) if tile.is_signed else presenter.large(image),
        lifetimes=LIFETIMES,
        links=urls.links(image),
        master=urls.image(image),
        shape=shape(image.width, image.height),
        signed_url=signed_url,
        sizes=presenter.sizes(image),
        size=size_text(image.size, request.texts),
        srcset="" if tile.is_signed else presenter.srcset(image),
        still=(tile.src if tile.animation else "") if tile.is_signed else presenter.still(image),
        tile=tile,
    )


def read_camera_data(request: WebRequest, image: Image) -> CameraData | None:
    """Return what the image's metadata says, or `None` if its file cannot be read now."""
    try:
        return request.host.camera_data(image)
    except NotFoundError:
        raise
    except ImageHostError as error:
        log_cause(to_api_error(error), error, request.id)
        return None
