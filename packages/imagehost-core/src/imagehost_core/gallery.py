"""The gallery: pages of public images, of all accounts or of one public album."""

from __future__ import annotations

from attrs import frozen

from imagehost_core.ids import AlbumId
from imagehost_core.models import Image, Page


@frozen(kw_only=True)
class PublicAlbum:
    """An album as the gallery shows it.

    Attributes:
        id: A positive integer.
        name: 1–100 characters.
        description: Up to 2,000 characters.
        image_count: The number of public images in the album.
        cover: The newest public image in the album, or `None`.
    """

    id: AlbumId
    name: str
    description: str
    image_count: int
    cover: Image | None


@frozen
class GalleryPage(Page[Image]):
    """A page of public images.

    Attributes:
        album: The album whose images are listed; `None` for the images of all accounts.
    """

    album: PublicAlbum | None = None
