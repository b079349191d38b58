"""The table of image formats: names, media types, signatures and capabilities."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


class Format(StrEnum):
    """An image format; the value is its name in image records and upload options."""

    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"
    GIF = "gif"
    AVIF = "avif"


@frozen
class FormatInfo:
    """Properties of an image format.

    Attributes:
        media_type: The registered media type.
        extensions: File extensions without the dot; the first one is used in new file names and URLs.
        uploadable: Whether uploads in the format are accepted.
        has_alpha: Whether the format supports transparency.
        animated: Whether imagehost encodes animations in the format.
        has_quality: Whether the encoder has a quality setting; `q` is ignored for the others.
        max_side: The largest encoded width or height, in pixels: the limit of the encoder
            (libjpeg-turbo: 65,500; libwebp: 16,383; the fields of GIF: 65,535) or of decoders
            (libavif rejects sides above 32,768 by default).
    """

    media_type: str
    extensions: tuple[str, ...]
    uploadable: bool
    has_alpha: bool
    animated: bool
    has_quality: bool
    max_side: int


FORMATS: dict[Format, FormatInfo] = {
    Format.JPEG: FormatInfo("image/jpeg", ("jpg", "jpeg"), True, False, False, True, 65_500),
    Format.PNG: FormatInfo("image/png", ("png",), True, True, False, False, 2**31 - 1),
    Format.WEBP: FormatInfo("image/webp", ("webp",), True, True, True, True, 16_383),
    Format.GIF: FormatInfo("image/gif", ("gif",), True, True, True, False, 65_535),
    Format.AVIF: FormatInfo("image/avif", ("avif",), False, True, False, True, 32_768),
}

BY_EXTENSION: dict[str, Format] = {
    extension: fmt for fmt, info in FORMATS.items() for extension in info.extensions
}
"""Every format by each of its extensions."""

UPLOADABLE: tuple[Format, ...] = tuple(fmt for fmt, info in FORMATS.items() if info.uploadable)

SNIFF_BYTES = 16
"""The number of leading bytes of a file that `sniff` inspects."""


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
