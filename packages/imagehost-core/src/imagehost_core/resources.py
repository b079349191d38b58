"""Image and album records, as responses, events and links contain them.

Every URL is built from the configured `base_url` and `cdn_url`, never from a request.
"""

from __future__ import annotations

from datetime import datetime
from html import escape

from attrs import frozen

from imagehost_core.formats import FORMATS, Format
from imagehost_core.ids import AlbumId, ImageId
from imagehost_core.models import Album, Image, PublicAlbum

THUMB_SIDE = 320
"""The bounding box of `thumb_url`, in pixels. A smaller image is not enlarged."""
THUMB_FRAMES = 390
"""The longest animation that `thumb_url` keeps animated: the frames of 320×320 pixels that fit into the
largest output, 40 million pixels. A longer one is reduced to its first frame."""


@frozen(kw_only=True)
class Links:
    """Snippets that embed an image in a page or post.

    Attributes:
        url: The URL of the stored image.
        html: A snippet for web pages.
        markdown: A snippet for Markdown.
        bbcode: A snippet for forums.
    """

    url: str
    html: str
    markdown: str
    bbcode: str


@frozen(kw_only=True)
class ImageRecord:
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


@frozen(kw_only=True)
class PublicImageRecord:
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
class AlbumRecord:
    """An album record, as its owner sees it.

    Attributes:
        id: Identifier.
        name: Up to 100 characters.
        description: Up to 2,000 characters.
        is_public: Whether galleries show it.
        image_count: The number of images in the album.
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
    cover_image_id: ImageId | None
    cover_url: str | None
    created_at: datetime
    updated_at: datetime


@frozen(kw_only=True)
class PublicAlbumRecord:
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


@frozen
class UrlBuilder:
    """Builder of image URLs and of the records that contain them.

    Attributes:
        base_url: The URL of the HTTP interface, ending in `/v1`.
        cdn_url: The URL of the image delivery route. Neither has a trailing slash.
    """

    base_url: str
    cdn_url: str

    def image(self, image: Image, query: str = "", extension: str | None = None) -> str:
        """Return the delivery URL of an image or of a variant of it.

        Args:
            image: The image.
            query: The canonical query of a transform (`Transform.to_query`), or "".
            extension: The extension without its dot; by default that of the stored format.
        """
        suffix = extension or FORMATS[image.format].extensions[0]
        return f"{self.cdn_url}/{image.id}.{suffix}" + (f"?{query}" if query else "")

    def thumb(self, image: Image) -> str:
        """Return the URL of an image's thumbnail, within 320×320 pixels.

        The thumbnail is a WebP, or a JPEG if the image is an animation of more than `THUMB_FRAMES` frames.
        """
        fmt = Format.WEBP if image.frames <= THUMB_FRAMES else Format.JPEG
        fits = max(image.width, image.height) <= THUMB_SIDE
        query = "" if fits else f"w={THUMB_SIDE}&h={THUMB_SIDE}&fit=inside"
        return self.image(image, query, FORMATS[fmt].extensions[0])

    def links(self, image: Image) -> Links:
        """Return snippets that embed an image, escaped for HTML, Markdown and BBCode."""
        url, text = self.image(image), " ".join(image.description.split()) or image.filename
        size = f'width="{image.width}" height="{image.height}"'
        return Links(
            url=url,
            html=f'<img src="{escape(url)}" alt="{escape(text)}" {size}>',
            markdown=f"![{_markdown(text)}]({url})",
            bbcode=f"[img]{url}[/img]",
        )

    def image_record(self, image: Image) -> ImageRecord:
        """Return an image's record for its owner."""
        return ImageRecord(
            id=image.id,
            album_id=image.album_id,
            filename=image.filename,
            original_filename=image.original_filename,
            description=image.description,
            is_public=image.is_public,
            format=image.format,
            mime_type=image.mime_type,
            size=image.size,
            width=image.width,
            height=image.height,
            is_animated=image.is_animated,
            frames=image.frames,
            has_alpha=image.has_alpha,
            sha256=image.sha256,
            placeholder=image.placeholder,
            url=self.image(image),
            thumb_url=self.thumb(image),
            links=self.links(image),
            created_at=image.created_at,
            updated_at=image.updated_at,
        )

    def public_record(self, image: Image) -> PublicImageRecord:
        """Return an image's record for the public gallery."""
        return PublicImageRecord(
            id=image.id,
            description=image.description,
            width=image.width,
            height=image.height,
            is_animated=image.is_animated,
            placeholder=image.placeholder,
            url=self.image(image),
            thumb_url=self.thumb(image),
            created_at=image.created_at,
        )

    def album_record(self, album: Album) -> AlbumRecord:
        """Return an album's record for its owner."""
        return AlbumRecord(
            id=album.id,
            name=album.name,
            description=album.description,
            is_public=album.is_public,
            image_count=album.image_count,
            cover_image_id=album.cover.id if album.cover else None,
            cover_url=self.thumb(album.cover) if album.cover else None,
            created_at=album.created_at,
            updated_at=album.updated_at,
        )

    def public_album_record(self, album: PublicAlbum) -> PublicAlbumRecord:
        """Return an album's record for the public gallery."""
        return PublicAlbumRecord(
            id=album.id,
            name=album.name,
            description=album.description,
            image_count=album.image_count,
            cover_image_id=album.cover.id if album.cover else None,
            cover_url=self.thumb(album.cover) if album.cover else None,
        )


def _markdown(text: str) -> str:
    """Escape the characters that are special between the brackets of a Markdown image."""
    return text.translate(_MARKUP)


_MARKUP = str.maketrans({char: f"\\{char}" for char in "\\`*_~|[]()!<>&"})
"""The special characters of CommonMark and of the common extensions for tables and strikethrough."""
