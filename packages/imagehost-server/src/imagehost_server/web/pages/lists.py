"""What several pages list: the account's albums, and its images with URLs that its browser may load."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from imagehost_core.formats import FORMATS, Format
from imagehost_core.ids import ImageId
from imagehost_core.lists import PageRequest as ListRequest
from imagehost_core.models import Album, Image
from imagehost_server.web.page import PageRequest, origin_of
from imagehost_server.web.presentation import ImagePresenter, Tile, still_format

IMAGES_PER_PAGE = 40
"""Images of a grid in one page; 40 have at most 30 KB of HTML."""
MAX_ALBUMS = 100
"""The number of albums that forms offer: the newest."""
SIGNED_SECONDS = 3_600
"""How long a page can show private images from another origin than its own."""
THUMBNAIL = {"w": 320, "h": 320, "fit": "inside"}


def read_albums(request: PageRequest) -> tuple[Album, ...]:
    """Return the newest albums of the account."""
    return request.host.albums.list(owner=request.account, page=ListRequest(per_page=MAX_ALBUMS)).items


def own_tiles(request: PageRequest, images: Iterable[Image]) -> list[tuple[Tile, Image]]:
    """Return images of the account as a grid shows them to their owner.

    The session cookie gives access to private images at the origin of the pages. Where `cdn_url` has another
    origin, private images have signed URLs.
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
            tile = evolve(tile, src=signed[image.id], srcset="", animation=animation, is_signed=True)
        tiles.append((tile, image))
    return tiles


def _signed_thumbnails(
    request: PageRequest, private: list[Image], *, plays: bool = False
) -> dict[ImageId, str]:
    """Return signed URLs of thumbnails, which show the first frame or play; none if the session suffices."""
    if not private or origin_of(request.settings.delivery_url) == origin_of(request.settings.base_url):
        return {}
    formats = [FORMATS[(not plays and still_format(image)) or Format.WEBP] for image in private]
    items = [
        {"image_id": image.id, "fm": fmt.extensions[0], **THUMBNAIL}
        for image, fmt in zip(private, formats, strict=True)
    ]
    urls = request.host.images.signed_urls(items, owner=request.account, expires_in=SIGNED_SECONDS)
    return {image.id: url for image, url in zip(private, urls, strict=True)}
