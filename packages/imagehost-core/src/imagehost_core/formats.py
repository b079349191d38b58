"""The table of image formats: names, media types, signatures and capabilities."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from attrs import frozen

DEFAULT_AVIF_SPEED = 9
"""The speed of the AVIF encoder, from 0, the slowest and best, to 10."""
MAX_QUALITY = 100
"""The highest quality of an upload or a variant."""


class Format(StrEnum):
    """An image format; the value is its name in image records and upload options."""

    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"
    GIF = "gif"
    AVIF = "avif"
    if TYPE_CHECKING:
        _other = ""  # mypy contracts a literal of all members to their class, which it compares with any text


FormatName = Literal[
    "jpeg", "png", "webp", "gif", "avif", Format.JPEG, Format.PNG, Format.WEBP, Format.GIF, Format.AVIF
]
"""The format of a record, always a member; type checkers report comparisons with other names."""


@frozen(kw_only=True)
class PixelMemory:
    """The most bytes of memory that a task needs for each pixel, by measured peaks of worker processes.

    Attributes:
        opaque_upload: Of an upload without transparency.
        alpha_upload: Of an upload that can have transparent pixels.
        decoded: Of the source of a render.
        encoded: Of the output of a render.
    """

    opaque_upload: int
    alpha_upload: int
    decoded: int
    encoded: int


@frozen(kw_only=True)
class FormatInfo:
    """Properties of an image format.

    Attributes:
        label: The usual spelling of its name.
        media_type: The registered media type.
        extensions: File extensions without the dot; the first one is used in new file names and URLs.
        parameter: The value of the transform parameter `fm`, or `None` where it cannot be requested.
        is_upload_option: Whether uploads may request it as the stored format.
        accepted: Whether uploads in the format are accepted.
        stored: Whether masters are stored in it, so that lists are filtered by it.
        has_alpha: Whether the format supports transparency.
        animated: Whether imagehost encodes animations in the format.
        default_quality: The quality without `q`, 1–100; `None` where the encoder has no quality setting.
        turned_by_exif: Whether browsers rotate and mirror an image by its EXIF orientation.
        max_side: The largest encoded width or height, in pixels: the limit of the encoder
            (libjpeg-turbo: 65,500; libwebp: 16,383; the fields of GIF: 65,535) or of decoders
            (libavif rejects sides above 32,768 by default).
        encode_seconds: CPU seconds to encode a million pixels.
        memory: The memory of tasks.
    """

    label: str
    media_type: str
    extensions: tuple[str, ...]
    parameter: str | None
    is_upload_option: bool
    accepted: bool
    stored: bool
    has_alpha: bool
    animated: bool
    default_quality: int | None
    turned_by_exif: bool
    max_side: int
    encode_seconds: float
    memory: PixelMemory

    @property
    def has_quality(self) -> bool:
        """Whether the encoder has a quality setting; `q` is ignored for the others."""
        return self.default_quality is not None


FORMATS: dict[Format, FormatInfo] = {
    Format.JPEG: FormatInfo(
        label="JPEG",
        media_type="image/jpeg",
        extensions=("jpg", "jpeg"),
        parameter="jpg",
        is_upload_option=True,
        accepted=True,
        stored=True,
        has_alpha=False,
        animated=False,
        default_quality=80,
        turned_by_exif=True,
        max_side=65_500,
        encode_seconds=0.017,
        memory=PixelMemory(opaque_upload=20, alpha_upload=20, decoded=20, encoded=20),
    ),
    Format.PNG: FormatInfo(
        label="PNG",
        media_type="image/png",
        extensions=("png",),
        parameter="png",
        is_upload_option=True,
        accepted=True,
        stored=True,
        has_alpha=True,
        animated=False,
        default_quality=None,
        turned_by_exif=True,
        max_side=2**31 - 1,
        encode_seconds=0.09,
        memory=PixelMemory(opaque_upload=36, alpha_upload=48, decoded=20, encoded=20),
    ),
    Format.WEBP: FormatInfo(
        label="WebP",
        media_type="image/webp",
        extensions=("webp",),
        parameter="webp",
        is_upload_option=True,
        accepted=True,
        stored=True,
        has_alpha=True,
        animated=True,
        default_quality=80,
        turned_by_exif=False,
        max_side=16_383,
        encode_seconds=0.04,
        memory=PixelMemory(opaque_upload=28, alpha_upload=32, decoded=24, encoded=24),
    ),
    Format.GIF: FormatInfo(
        label="GIF",
        media_type="image/gif",
        extensions=("gif",),
        parameter=None,
        is_upload_option=False,
        accepted=True,
        stored=True,
        has_alpha=True,
        animated=True,
        default_quality=None,
        turned_by_exif=False,
        max_side=65_535,
        encode_seconds=0.05,
        memory=PixelMemory(opaque_upload=36, alpha_upload=36, decoded=24, encoded=24),
    ),
    Format.AVIF: FormatInfo(
        label="AVIF",
        media_type="image/avif",
        extensions=("avif",),
        parameter="avif",
        is_upload_option=False,
        accepted=False,
        stored=False,
        has_alpha=True,
        animated=False,
        default_quality=60,
        turned_by_exif=True,
        max_side=32_768,
        encode_seconds=0.08,
        memory=PixelMemory(opaque_upload=20, alpha_upload=20, decoded=20, encoded=60),
    ),
}
"""One row a format. Beside it, `imagehost_core.pixels.codecs` has the options of its encoder."""

BY_EXTENSION: dict[str, Format] = {
    extension: fmt for fmt, info in FORMATS.items() for extension in info.extensions
}
"""Every format by each of its extensions."""

UPLOADABLE: tuple[Format, ...] = tuple(fmt for fmt, info in FORMATS.items() if info.accepted)
MASTERS: tuple[Format, ...] = tuple(fmt for fmt, info in FORMATS.items() if info.stored)
"""The formats of masters, by which lists are filtered."""

SNIFF_BYTES = 16
"""The number of leading bytes of a file that `sniff` and `detect` inspect."""
_AVIF_BRAND = b"ftypavif"
"""The content of an AVIF file at offset 4 (ISO/IEC 14496-12, section 4.3)."""


def detect(head: bytes) -> Format | None:
    """Return the format of a stored or rendered file: of AVIF, too, which uploads do not accept.

    Args:
        head: As for `sniff`.
    """
    return Format.AVIF if head[4:12] == _AVIF_BRAND else sniff(head)


def sniff(head: bytes) -> Format | None:
    """Return the format that a file's first bytes indicate, or `None` unless uploads accept it.

    File name and declared media type are ignored. WebP is recognised by its RIFF container
    (RFC 9649, section 2.4), the others by their signatures.

    Args:
        head: The first `SNIFF_BYTES` bytes, fewer if the file is shorter.
    """
    if head.startswith(b"\xff\xd8\xff"):
        return Format.JPEG
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return Format.PNG
    if head.startswith((b"GIF87a", b"GIF89a")):
        return Format.GIF
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return Format.WEBP
    return None
