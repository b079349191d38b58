"""The scan of a file before any decoder runs: recognised, whole, and within the limits, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from imagehost_core.errors import FieldError, UnsupportedMediaTypeError
from imagehost_core.formats import SNIFF_BYTES, UPLOADABLE, Format, sniff
from imagehost_core.headers import gif, jpeg, png, webp
from imagehost_core.headers.header import ImageHeader
from imagehost_core.headers.limits import DEFAULT_LIMITS, SourceLimits, check_limits
from imagehost_core.headers.reader import HeaderReader

_READ: dict[Format, Callable[[HeaderReader], ImageHeader]] = {
    Format.JPEG: jpeg.read,
    Format.PNG: png.read,
    Format.GIF: gif.read,
    Format.WEBP: webp.read,
}
"""Who reads each format."""


def scan(file: BinaryIO, size: int, limits: SourceLimits = DEFAULT_LIMITS) -> ImageHeader:
    """Return what the headers of a picture say, or refuse it.

    Nothing is decoded or decompressed: memory stays at a few pages of the reader, and time grows with
    `size` alone. What passes may still hold pixels that cannot be decoded; only a decoder sees that.

    Args:
        file: A seekable binary file whose first byte is the picture's first. Its position is moved.
        size: The file's length in bytes; nothing beyond is read.
        limits: The most that the picture may be; by default the limits of contract 9.

    Raises:
        UnsupportedMediaTypeError: The content is not JPEG, PNG, WebP or GIF. Contract 2: *the file's
            content (never its name or declared type)*.
        ValidationError: It is one of them, but damaged, cut short, or over a limit.
    """
    reader = HeaderReader(file, size)
    found = sniff(reader.peek(0, SNIFF_BYTES))
    if found is None:
        names = ", ".join(fmt.upper() for fmt in UPLOADABLE)
        raise UnsupportedMediaTypeError(errors=[FieldError("image", f"content of {names}", "something else")])
    header = _READ[found](reader)
    check_limits(header, limits)
    return header
