"""The public pages: the gallery `/`, albums `/a/{id}`, images `/i/{id}`, and their oEmbed description."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from litestar import Response
from litestar.params import FromPath

from imagehost_core import to_rfc3339
from imagehost_core.errors import (
    BadRequestError,
    FieldError,
    ImageHostError,
    NotFoundError,
    ValidationError,
    quote_value,
)
from imagehost_core.formats import FORMATS, Format
from imagehost_core.ids import parse_album_id
from imagehost_core.models import Image, Page, UrlBuilder
from imagehost_server.web.page import page
from imagehost_server.web.pages.images import IMAGES_PER_PAGE, read_camera_data
from imagehost_server.web.presentation import (
    PUBLIC_FACTS,
    CardImage,
    ImagePresenter,
    camera_facts,
    shape,
    size_text,
    title_text,
)
from imagehost_server.web.program_responses import for_programs
from imagehost_server.web.request import WebRequest

IMAGES_PER_READ = 100
"""Images that are read at once where all are needed."""


@page("/", public=True)
async def gallery(request: WebRequest) -> Response[Any]:
    """Show the newest public images, or those after a cursor."""
    return await _show(request, "gallery.html")


@page("/a/{album_id:str}", public=True)
async def album(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Show the public images of a public album."""
    return await _show(request, "album.html", album_id)


@page("/i/{image_id:str}", public=True)
async def public_image(request: WebRequest, image_id: FromPath[str]) -> Response[Any]:
    """Show one public image, its facts, and its URLs in sizes and formats."""
    image = await request.executors.reads.run(request.host.images.get, image_id, public=True)
    urls, presenter = request.host.urls, ImagePresenter(request.host.urls, request.settings.delivery)
    url = page_url(request, image)
    return request.render(
        "image.html",
        **await image_values(request, image, urls),
        is_mine=request.viewer is not None and request.viewer.id == image.account_id,
        links=urls.links(image),
        oembed=f"{request.settings.site_url}/oembed?url={quote(url, safe='')}",
        card_images=presenter.card_images(image),
        structured={
            "@context": "https://schema.org",
            "@type": "ImageObject",
            "name": title_text(image),
            "contentUrl": urls.image(image),
            "thumbnailUrl": urls.thumb(image),
            "url": url,
            "width": image.width,
            "height": image.height,
            "encodingFormat": image.mime_type,
            "uploadDate": to_rfc3339(image.created_at),
        },
        url=url,
    )


@page("/i/{image_id:str}/delete")
async def signed_deletion(request: WebRequest, image_id: FromPath[str]) -> Response[Any]:
    """Ask whether to delete an image, for who has the URL that permits it; nothing is deleted yet."""
    images, query = request.host.images, dict(request.query_params)
    image = await request.executors.reads.run(images.get_deletable, image_id, query)
    shown = request.host.urls.thumb(image) if image.is_public else ""
    return request.render("deletion.html", image=image, query=urlencode(query), shown=shown)


@page("/i/{image_id:str}/delete", method="POST")
async def delete_signed(request: WebRequest, image_id: FromPath[str]) -> Response[Any]:
    """Delete an image for good, for who has the URL that permits it."""
    images, query = request.host.images, dict(request.query_params)
    await request.executors.slow_writes.run(images.delete_signed, image_id, query)
    return request.render("deletion.html", image=None)


async def image_values(request: WebRequest, image: Image, urls: UrlBuilder) -> dict[str, Any]:
    """Return what the page of an image shows to everyone who may see it."""
    camera = await request.executors.database.run(read_camera_data, request, image)
    presenter = ImagePresenter(urls, request.settings.delivery)
    return {
        "camera_facts": camera_facts(camera, request.texts, PUBLIC_FACTS) if camera else (),
        "downloads": presenter.downloads(image),
        "format": FORMATS[Format(image.format)].label,
        "image": image,
        "large": presenter.large(image),
        "master": urls.image(image),
        "shape": shape(image.width, image.height),
        "size": size_text(image.size, request.texts),
        "sizes": presenter.sizes(image),
        "srcset": presenter.srcset(image),
        "still": presenter.still(image),
        "title": title_text(image),
    }


class UnsupportedOutputError(ImageHostError):
    """The format of a description is not supported (https://oembed.com, section 2.3)."""

    code = "NOT_IMPLEMENTED"
    status = 501
    default_message = "The format is not supported"


@page("/oembed", public=True, json=True)
async def oembed(request: WebRequest) -> Response[Any]:
    """Describe a public image to a site that embeds a link to its page (https://oembed.com, type `photo`)."""
    image = await request.executors.reads.run(request.host.images.get, _image_id_of(request), public=True)
    requested = request.query_params.get("format", "json")
    if requested != "json":
        raise UnsupportedOutputError(errors=[FieldError("format", "json", quote_value(requested))])
    presenter = ImagePresenter(request.host.urls, request.settings.delivery)
    limits = [_limit(request, name) for name in ("maxwidth", "maxheight")]
    shown, *_ = cards = presenter.card_images(image, *limits)
    description = {
        "version": "1.0",
        "type": "photo",
        "title": title_text(image),
        "provider_name": request.settings.web.site_name,
        "provider_url": f"{request.settings.site_url}/",
        "url": shown.url,
        "width": shown.width,
        "height": shown.height,
        "thumbnail_url": cards[-1].url,
        "thumbnail_width": cards[-1].width,
        "thumbnail_height": cards[-1].height,
    }
    return for_programs(request, json.dumps(description).encode(), "application/json", image.updated_at)


async def _show(request: WebRequest, template: str, album_id: str | None = None) -> Response[Any]:
    cursor = request.query_params.get("cursor")
    q = "" if album_id else request.query_params.get("q", "").strip()
    executor = request.executors.database if q else request.executors.reads
    listed = await executor.run(read_gallery, request, cursor, album_id, q=q)
    presenter = ImagePresenter(request.host.urls, request.settings.delivery)
    return request.render(
        template,
        album=listed.album,
        card_images=list_card_images(presenter, listed),
        cursor=cursor,
        link=urlencode({"q": q}) if q else "",
        next_cursor=listed.next_cursor,
        q=q,
        tiles=[presenter.tile(image) for image in listed],
        total=listed.total,
        url=f"{request.settings.site_url}/" + (f"a/{listed.album.id}" if listed.album else ""),
    )


def list_card_images(presenter: ImagePresenter, images: Iterable[Image]) -> tuple[CardImage, ...]:
    """Return what other sites show for a link to a page with images: the first of them, without motion."""
    first = next(iter(images), None)
    return () if first is None else presenter.card_images(first)[-1:]


def read_gallery(
    request: WebRequest,
    cursor: str | None,
    album_id: str | None,
    per_page: int = IMAGES_PER_PAGE,
    q: str = "",
) -> Page[Image]:
    """Return a page of the gallery, or of a public album by the id in a path.

    Raises:
        BadRequestError: The cursor or the search is invalid.
        NotFoundError: There is no such public album.
    """
    try:
        album = None if album_id is None else parse_album_id(album_id)
    except ValidationError as error:
        raise NotFoundError(errors=error.errors) from None
    return request.host.gallery(album_id=album, q=q, per_page=per_page, cursor=cursor)


def iter_gallery(request: WebRequest, album_id: str | None = None) -> Iterator[Image]:
    """Yield the images of the gallery or of a public album, the newest first; raises as `read_gallery`."""
    cursor = None
    while True:
        listed = read_gallery(request, cursor, album_id, IMAGES_PER_READ)
        yield from listed
        cursor = listed.next_cursor
        if cursor is None:
            return


def page_url(request: WebRequest, image: Image) -> str:
    """Return the URL of the page of a public image."""
    return f"{request.settings.site_url}/i/{image.id}"


def _image_id_of(request: WebRequest) -> str:
    """Return the id in the URL of an image's page.

    Raises:
        NotFoundError: The URL is of another site or page.
    """
    url = request.query_params.get("url", "")
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    prefix, page = f"{request.settings.site_url}/i/", f"{parts.scheme}://{parts.netloc}{parts.path}"
    if not page.startswith(prefix):
        raise NotFoundError("expected the URL of an image's page for url")
    return page.removeprefix(prefix).removesuffix("/")


def _limit(request: WebRequest, name: str) -> int | None:
    """Return the value of `maxwidth` or `maxheight`, or `None`.

    Raises:
        BadRequestError: It is no positive integer.
    """
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 6 and int(text)):
        raise BadRequestError(errors=[FieldError(name, "a positive integer", quote_value(text))])
    return int(text)
