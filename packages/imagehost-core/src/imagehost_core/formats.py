"""The table of image formats: how each is recognised, named, and what it can hold."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


class Format(StrEnum):
    """An image format; the value is its name in records and upload options."""

    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"
    GIF = "gif"
    AVIF = "avif"


@frozen
class FormatInfo:
    """What is known of a format.

    Attributes:
        media_type: The registered media type.
        extensions: File extensions without the dot; the first is the one that we write.
        uploadable: Whether it may come in (SPEC 8: JPG, PNG, WebP, GIF).
        alpha: Whether it can hold transparency.
        animated: Whether we write animations in it (contract 7: webp and gif).
        quality: Whether `q` means anything for it (contract 7: ignored for PNG and GIF).
        max_side: The largest width or height that we write in it, in pixels: what its encoder takes
            (libjpeg-turbo: 65,500; libwebp: 16,383; GIF's own fields: 65,535), and what can be read
            again (libavif refuses sides above 32,768 unless told otherwise).
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

BY_EXTENSION: dict[str, Format] = {ext: fmt for fmt, traits in FORMATS.items() for ext in traits.extensions}
"""Every format by each of its extensions."""

UPLOADABLE: tuple[Format, ...] = tuple(fmt for fmt, traits in FORMATS.items() if traits.uploadable)

SNIFF_BYTES = 16
"""How many bytes of a file `sniff` looks at."""


def sniff(head: bytes) -> Format | None:
    """Return the format that a file's first bytes say, or `None` for anything that may not come in.

    The file's name and declared type have no say. WebP is told by the RIFF container
    (RFC 9649, section 2.4), the others by their signatures.

    Args:
        head: The first `SNIFF_BYTES` bytes, or fewer where the file is shorter.
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
