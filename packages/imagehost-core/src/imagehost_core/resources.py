"""Image and album records, as responses and events contain them.

Every URL is built from the configured `base_url` and `cdn_url`, never from a request.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Self

from attrs import asdict, fields, frozen

from imagehost_core.formats import Format
from imagehost_core.ids import AlbumId, ImageId
from imagehost_core.models import Album, Image, Links, PublicAlbum, UrlBuilder, embed_links

_WITHOUT_URLS = {"url": "", "thumb_url": "", "links": Links(url="", html="", markdown="", bbcode="")}
"""The values in the events of a host without a base URL."""


@frozen
class _Record:
    """The base class of records."""

    @classmethod
    def of(cls, source: Image | Album | PublicAlbum) -> Self:
        """Return the record of an image or album."""
        values = {part.name: getattr(source, part.name) for part in fields(cls)}
        missing = {name: value for name, value in _WITHOUT_URLS.items() if values.get(name, "") is None}
        return cls(**{**values, **missing})


@frozen(kw_only=True)
class ImageRecord(_Record):
    """An image record, as its owner sees it.

    Attributes:
        id: Identifier.
        album_id: The album that contains the image, if any.
        filename: The name that is offered to browsers, with the extension of the stored format.
        original_filename: The name of the uploaded file, without path components and control characters.
        description: Up to 2,000 characters.
        is_public: Whether galleries show it.
        format: The stored format.
        mime_type: The media type of the stored format.
        size: Bytes of the stored image.
        width: Pixels of the upright image.
        height: Pixels of the upright image.
        is_animated: Whether it has more than one frame.
        frames: The number of frames.
        has_alpha: Whether it has transparent pixels.
        sha256: SHA-256 of the stored bytes, in hexadecimal.
        placeholder: A ThumbHash in base64: a blurred preview in about 25 bytes.
        url: The URL of the stored image.
        thumb_url: The URL of a thumbnail within 320×320 pixels.
        links: Snippets that embed the image.
        created_at: When it was created.
        updated_at: When it was last changed.
        taken_at: When the photograph was taken, by the EXIF of the uploaded file; null if that did not say.
    """

    id: ImageId
    album_id: AlbumId | None
    filename: str
    original_filename: str
    description: str
    is_public: bool
    format: Format
    mime_type: str
    size: int
    width: int
    height: int
    is_animated: bool
    frames: int
    has_alpha: bool
    sha256: str
    placeholder: str
    url: str
    thumb_url: str
    links: Links
    created_at: datetime
    updated_at: datetime
    taken_at: datetime | None


@frozen(kw_only=True)
class PublicImageRecord(_Record):
    """An image record of the public gallery.

    Attributes:
        id: Identifier.
        description: Up to 2,000 characters.
        width: Pixels of the upright image.
        height: Pixels of the upright image.
        is_animated: Whether it has more than one frame.
        placeholder: A ThumbHash in base64: a blurred preview in about 25 bytes.
        url: The URL of the stored image.
        thumb_url: The URL of a thumbnail within 320×320 pixels.
        created_at: When it was created.
    """

    id: ImageId
    description: str
    width: int
    height: int
    is_animated: bool
    placeholder: str
    url: str
    thumb_url: str
    created_at: datetime


@frozen(kw_only=True)
class AlbumRecord(_Record):
    """An album record, as its owner sees it.

    Attributes:
        id: Identifier.
        name: Up to 100 characters.
        description: Up to 2,000 characters.
        is_public: Whether galleries show it.
        image_count: The number of images in the album.
        public_image_count: How many of them are public; galleries show these while the album is public too.
        cover_image_id: The newest image of the album.
        cover_url: The `thumb_url` of the cover.
        created_at: When it was created.
        updated_at: When it was last changed.
    """

    id: AlbumId
    name: str
    description: str
    is_public: bool
    image_count: int
    public_image_count: int
    cover_image_id: ImageId | None
    cover_url: str | None
    created_at: datetime
    updated_at: datetime


@frozen(kw_only=True)
class PublicAlbumRecord(_Record):
    """An album record of the public gallery.

    Attributes:
        id: Identifier.
        name: Up to 100 characters.
        description: Up to 2,000 characters.
        image_count: The number of public images in the album.
        cover_image_id: The newest public image of the album.
        cover_url: The `thumb_url` of the cover.
    """

    id: AlbumId
    name: str
    description: str
    image_count: int
    cover_image_id: ImageId | None
    cover_url: str | None


def with_current_urls(body: bytes, urls: UrlBuilder) -> bytes:
    """Return a stored JSON body with URLs of the host's present `cdn_url` in its records.

    What is stored to be sent later, a pending event or the response of an idempotent request, may have been
    recorded before the host moved to another domain. Texts of users are not changed.

    Args:
        body: A JSON value that contains records at any depth; anything else is returned as it is.
        urls: The builder of the host's URLs; without a base URL, nothing is changed.
    """
    if not urls or b'url":"' not in body:
        return body
    try:
        value = json.loads(body)
    except ValueError:
        return body
    if not _replace_urls(value, f"{urls.cdn_url}/"):
        return body
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


_URL_MEMBERS = ("url", "thumb_url", "cover_url")
"""The members of records that are image URLs: below `cdn_url`, an id with an extension, and a query."""


def _replace_urls(value: Any, prefix: str) -> bool:
    """Let the image URLs of all records in a JSON value begin with a prefix; return whether one did not."""
    if isinstance(value, list):
        return sum(_replace_urls(item, prefix) for item in value) > 0
    if not isinstance(value, dict):
        return False
    if "id" not in value:
        return sum(_replace_urls(item, prefix) for item in value.values()) > 0
    former = {name: value[name] for name in _URL_MEMBERS if value.get(name)}
    current = {name: prefix + url.rpartition("/")[2] for name, url in former.items()}
    value.update(current)
    if "links" in value:
        parts = (value[name] for name in ("description", "filename", "width", "height"))
        value["links"] = asdict(embed_links(value["url"], *parts))
    return current != former
