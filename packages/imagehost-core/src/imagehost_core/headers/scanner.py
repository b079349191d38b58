"""The scan of a file before any decoder runs: its format is supported, it is complete and within limits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import BinaryIO

from imagehost_core.errors import UnsupportedMediaTypeError
from imagehost_core.formats import SNIFF_BYTES, UPLOADABLE, Format, sniff
from imagehost_core.headers import gif, jpeg, png, webp
from imagehost_core.headers.exif import PREFIX, scan_orientation
from imagehost_core.headers.header import DEFAULT_LIMITS, ImageHeader, SourceLimits, require_within_limits
from imagehost_core.headers.metadata_blocks import MetadataBlocks, read_blocks, read_exif
from imagehost_core.headers.reader import HeaderReader

# Names of the formats that uploads do not accept, for the errors that reject them.
#
# They are found by the first bytes. The names are for people: nothing depends on them.

NAMED_BYTES = 1_024
"""The number of leading bytes of a file that `name_content` inspects."""

_SIGNATURES = (
    (rb"%PDF-", "PDF"),
    (rb"(?s)....ftyp(avif|avis|....(....)*?avi[fs])", "AVIF"),
    (rb"(?s)....ftyp(hei|hev|mif1|msf1)", "HEIC"),
    (rb"(?s)....ftyp|\x1aE\xdf\xa3", "a video"),
    (rb"II\*\0|MM\0\*|II\+\0|MM\0\+", "TIFF"),
    (rb"BM", "BMP"),
    (rb"\xff\x0a|\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
    (rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51", "JPEG 2000"),
    (rb"8BPS", "PSD"),
    (rb"\0\0\x01\0", "ICO"),
    (rb"PK\x03\x04", "a ZIP archive"),
    (rb"(?i)(\xef\xbb\xbf)?\s*<(!doctype html|html|head|body)\b", "HTML"),
    (rb"(?si)(\xef\xbb\xbf)?\s*<(?=[!?s]).*?(?<=<)svg[\s>:/]", "SVG"),
)
"""Patterns of the first bytes, and the name of the format; the first that matches counts."""
_PATTERNS = tuple((re.compile(pattern), name) for pattern, name in _SIGNATURES)


def name_content(head: bytes) -> str:
    """Return the name of a format that uploads do not accept, for an error.

    Args:
        head: The first `NAMED_BYTES` bytes, fewer if the file is shorter.
    """
    if not head:
        return "0 bytes"
    return next((name for pattern, name in _PATTERNS if pattern.match(head)), "another format")


_READERS: dict[Format, Callable[[HeaderReader], ImageHeader]] = {
    Format.JPEG: jpeg.read,
    Format.PNG: png.read,
    Format.GIF: gif.read,
    Format.WEBP: webp.read,
}
"""The header reader of each format."""


def scan(file: BinaryIO, size: int, limits: SourceLimits = DEFAULT_LIMITS) -> ImageHeader:
    """Return the header of an image, and raise an error for an invalid file.

    Nothing is decoded or decompressed: memory is limited to a few pages of the reader, and time is linear in
    `size`. The pixels of an accepted file can still be damaged; only a decoder detects that.

    Args:
        file: A seekable binary file that starts with the image. Its position changes.
        size: Length of the file in bytes; nothing beyond is read.
        limits: Limits of the image.

    Raises:
        UnsupportedMediaTypeError: The content is not JPEG, PNG, WebP or GIF, whatever the file's name or
            declared type says.
        ValidationError: The image is damaged, truncated, or exceeds a limit.
    """
    header = _read(HeaderReader(file, size))
    require_within_limits(header, limits)
    return header


def read_first_exif(file: BinaryIO, size: int, header: ImageHeader) -> bytes:
    """Return the first EXIF block of a file that was scanned, at most 4 MiB; no bytes without one.

    Args:
        file: The file. Its position changes.
        size: Length of the file in bytes.
        header: The result of `scan`.
    """
    return read_exif(HeaderReader(file, size), header)


def read_metadata(file: BinaryIO, size: int) -> MetadataBlocks:
    """Return the metadata of an image, at most 4 MiB of each kind.

    Args:
        file: A seekable binary file that starts with the image. Its position changes.
        size: Length of the file in bytes.

    Raises:
        UnsupportedMediaTypeError: The content is not JPEG, PNG, WebP or GIF.
        ValidationError: The image is damaged or truncated.
    """
    reader = HeaderReader(file, size)
    return read_blocks(reader, _read(reader))


def is_upright_in_browsers(fmt: Format, file: BinaryIO) -> bool:
    """Return whether browsers show a stored file upright; of a JPEG no more is read than that needs.

    Args:
        fmt: The format of the file.
        file: A seekable binary file, at its first byte. Its position changes.

    Raises:
        ValidationError: The image is damaged or truncated.
    """
    reader = HeaderReader(file, file.seek(0, os.SEEK_END))
    if fmt is Format.JPEG:
        return scan_orientation(reader, jpeg.find_exif(reader)).is_applied_by_browsers(len(PREFIX))
    return fmt is Format.GIF or _READERS[fmt](reader).is_upright_in_browsers


def _read(reader: HeaderReader) -> ImageHeader:
    detected = sniff(reader.peek(0, SNIFF_BYTES))
    if detected is None:
        expected = f"content of {', '.join(fmt.upper() for fmt in UPLOADABLE)}"
        raise UnsupportedMediaTypeError.of("image", expected, name_content(reader.peek(0, NAMED_BYTES)))
    return _READERS[detected](reader)
