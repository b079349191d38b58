"""Removal of EXIF, XMP, IPTC and comments from a file without re-encoding its pixels.

Everything that decoders do not need to show the same image is removed: comments, timestamps, previews, maker
notes, and bytes between the segments of a JPEG and the blocks of a GIF. The ICC profile stays.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator

from imagehost_core.formats import Format
from imagehost_core.pixels.gif import (
    APPLICATION,
    EXTENSION,
    GRAPHIC_CONTROL,
    LOOP_COUNTS,
    SCREEN_BYTES,
    TRAILER,
    colour_table_bytes,
    iter_blocks,
)
from imagehost_core.pixels.png import SIGNATURE_BYTES, iter_chunks


def strip_metadata(fmt: Format, data: bytes) -> bytes:
    """Return the file without metadata.

    Args:
        fmt: JPEG, PNG, WebP or GIF.
        data: A whole file that a decoder has accepted.

    Raises:
        ValueError: The file is malformed.
        IndexError: The file is truncated.
    """
    return _STRIPPERS[fmt](data)


_JPEG_EOI, _JPEG_SOS, _JPEG_COM = 0xD9, 0xDA, 0xFE
_JPEG_MARKER = re.compile(rb"\xff[\xc0-\xc7\xc9-\xcf\xd8-\xef\xfe]")
"""The markers of segments and of the end; the header scan explains the others. Decoders skip fill bytes, and
other bytes between segments."""
_JPEG_APPS = range(0xE0, 0xF0)
_JPEG_KEPT_APPS = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}
"""The application segments that affect how the image is shown, by marker, with the start of their content."""


def _strip_jpeg(data: bytes) -> bytes:
    parts = [data[:2]]
    offset, in_pixels = 2, False
    while True:
        found = _JPEG_MARKER.search(data, offset)
        if found is None:
            raise ValueError(f"expected a marker after byte {offset} but received none")
        start = found.start()
        if in_pixels:
            parts.append(data[offset:start])
        marker = data[start + 1]
        if marker == _JPEG_EOI:
            parts.append(data[start : start + 2])
            return b"".join(parts)
        offset = start + 2 + max(2, int.from_bytes(data[start + 2 : start + 4], "big"))
        is_kept_app = data[start + 4 : offset].startswith(_JPEG_KEPT_APPS.get(marker, b"\xff\xff"))
        if is_kept_app or (marker not in _JPEG_APPS and marker != _JPEG_COM):
            parts.append(data[start:offset])
        # Metadata can follow after the pixels of each scan.
        in_pixels = marker == _JPEG_SOS


_PNG_CHUNKS = frozenset(
    b"IHDR PLTE IDAT IEND tRNS acTL fcTL fdAT cICP iCCP sRGB gAMA cHRM mDCV cLLI sBIT bKGD pHYs".split()
)
"""The chunks that affect how the image is shown."""


def _strip_png(data: bytes) -> bytes:
    kept = (data[start:end] for kind, start, end in iter_chunks(data) if kind in _PNG_CHUNKS)
    return b"".join((data[:SIGNATURE_BYTES], *kept))


_WEBP_CHUNKS = frozenset({b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF", b"ICCP"})
"""All chunks of the format (RFC 9649) but EXIF and XMP."""
_WEBP_METADATA_FLAGS = 0b0000_1100
"""The VP8X flags for EXIF and XMP (RFC 9649, section 2.7)."""


WEBP_HEADER_BYTES = 12
"""Bytes before the first chunk: `RIFF`, size, `WEBP`."""
_WEBP_FRAME_HEADER_BYTES = 16
"""Bytes of an ANMF chunk before those of its frame."""


def _strip_webp(data: bytes) -> bytes:
    container = data[: 8 + int.from_bytes(data[4:8], "little")]
    body = b"WEBP" + _strip_riff_chunks(container, WEBP_HEADER_BYTES)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _strip_riff_chunks(data: bytes, offset: int) -> bytes:
    """Return the chunks from an offset without those of metadata, also within the frames of an animation."""
    chunks = []
    for fourcc, content in iter_riff_chunks(data, offset):
        if fourcc == b"VP8X":
            content = bytes([content[0] & ~_WEBP_METADATA_FLAGS]) + content[1:]
        elif fourcc == b"ANMF" and offset == WEBP_HEADER_BYTES:
            frame = _strip_riff_chunks(content, _WEBP_FRAME_HEADER_BYTES)
            content = content[:_WEBP_FRAME_HEADER_BYTES] + frame
        if fourcc in _WEBP_CHUNKS:
            chunks.append(fourcc + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2))
    return b"".join(chunks)


def iter_riff_chunks(data: bytes, offset: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the type and the content of each chunk from an offset on."""
    while offset + 8 <= len(data):
        length = int.from_bytes(data[offset + 4 : offset + 8], "little")
        yield data[offset : offset + 4], data[offset + 8 : offset + 8 + length]
        offset += 8 + length + length % 2


def webp_bitstreams(data: bytes, offset: int = WEBP_HEADER_BYTES) -> Iterator[bytes]:
    """Yield `VP8 ` or `VP8L` for each frame of a WebP: whether it was encoded with or without losses."""
    for fourcc, content in iter_riff_chunks(data, offset):
        if fourcc == b"ANMF":
            yield from webp_bitstreams(content, _WEBP_FRAME_HEADER_BYTES)
        elif fourcc in (b"VP8 ", b"VP8L"):
            yield fourcc


_GIF_KEPT_APPLICATIONS = (*LOOP_COUNTS, b"ICCRGBG1012")
"""The application extensions that affect how a GIF is shown: loop count and ICC profile."""


def _strip_gif(data: bytes) -> bytes:
    parts = [data[: SCREEN_BYTES + colour_table_bytes(data[10])]]
    for begin, end in iter_blocks(data):
        label, application = data[begin + 1 : begin + 2], data[begin + 3 : begin + 14]
        is_extension = data[begin : begin + 1] == EXTENSION
        # At the end of a file, the content of an extension may be missing. With a terminator it would be
        # empty, which the header scan does not accept.
        is_shown = begin + 2 < len(data) and (
            label == GRAPHIC_CONTROL or (label == APPLICATION and application in _GIF_KEPT_APPLICATIONS)
        )
        if is_shown or not is_extension:
            # The terminator of the last sub-blocks may be missing.
            parts.append(data[begin:end].ljust(end - begin, b"\0"))
    return b"".join((*parts, TRAILER))


_STRIPPERS: dict[Format, Callable[[bytes], bytes]] = {
    Format.JPEG: _strip_jpeg,
    Format.PNG: _strip_png,
    Format.WEBP: _strip_webp,
    Format.GIF: _strip_gif,
}
