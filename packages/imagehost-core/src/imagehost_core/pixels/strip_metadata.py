"""Removal of EXIF, XMP, IPTC and comments from a file without re-encoding its pixels.

Everything that decoders do not need to show the same image is removed: comments, timestamps, previews and
maker notes. The ICC profile stays.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from imagehost_core.formats import Format


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


_JPEG_SOS, _JPEG_COM = 0xDA, 0xFE
_JPEG_APPS = range(0xE0, 0xF0)
_JPEG_KEPT_APPS = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}
"""The application segments that affect how the image is shown, by marker, with the start of their content."""


def _strip_jpeg(data: bytes) -> bytes:
    parts = [data[:2]]
    offset = 2
    while data[offset + 1] != _JPEG_SOS:
        if data[offset] != 0xFF:
            raise ValueError(f"expected a marker at byte {offset} but received {data[offset]:#x}")
        marker = data[offset + 1]
        if marker == 0xFF:  # fill byte
            offset += 1
            continue
        end = offset + 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
        is_kept_app = data[offset + 4 : end].startswith(_JPEG_KEPT_APPS.get(marker, b"\xff\xff"))
        if is_kept_app or (marker not in _JPEG_APPS and marker != _JPEG_COM):
            parts.append(data[offset:end])
        offset = end
    parts.append(data[offset:])
    return b"".join(parts)


_PNG_SIGNATURE_BYTES = 8
_PNG_METADATA_CHUNKS = frozenset({b"eXIf", b"tEXt", b"zTXt", b"iTXt", b"tIME"})


def _strip_png(data: bytes) -> bytes:
    parts = [data[:_PNG_SIGNATURE_BYTES]]
    offset = _PNG_SIGNATURE_BYTES
    while offset < len(data):
        end = offset + 12 + int.from_bytes(data[offset : offset + 4], "big")
        chunk_type = data[offset + 4 : offset + 8]
        if chunk_type not in _PNG_METADATA_CHUNKS:
            parts.append(data[offset:end])
        if chunk_type == b"IEND":
            break
        offset = end
    return b"".join(parts)


_WEBP_METADATA_CHUNKS = frozenset({b"EXIF", b"XMP "})
_WEBP_METADATA_FLAGS = 0b0000_1100
"""The VP8X flags for EXIF and XMP (RFC 9649, section 2.7)."""


def _strip_webp(data: bytes) -> bytes:
    chunks = []
    for fourcc, content in _iter_riff_chunks(data):
        if fourcc == b"VP8X":
            content = bytes([content[0] & ~_WEBP_METADATA_FLAGS]) + content[1:]
        if fourcc not in _WEBP_METADATA_CHUNKS:
            chunks.append(fourcc + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2))
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _iter_riff_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    end = 8 + int.from_bytes(data[4:8], "little")
    offset = 12
    while offset + 8 <= min(end, len(data)):
        length = int.from_bytes(data[offset + 4 : offset + 8], "little")
        yield data[offset : offset + 4], data[offset + 8 : offset + 8 + length]
        offset += 8 + length + length % 2


_GIF_EXTENSION, _GIF_IMAGE, _GIF_TRAILER = 0x21, 0x2C, 0x3B
_GIF_COMMENT, _GIF_APPLICATION = 0xFE, 0xFF
_GIF_KEPT_APPLICATIONS = (b"NETSCAPE2.0", b"ANIMEXTS1.0", b"ICCRGBG1012")
"""The application extensions that affect how a GIF is shown: loop count and ICC profile."""


def _strip_gif(data: bytes) -> bytes:
    offset = 13 + _gif_colour_table_bytes(data[10])
    parts = [data[:offset]]
    while data[offset] != _GIF_TRAILER:
        if data[offset] == _GIF_EXTENSION:
            body = offset + 2
            end = _end_of_gif_sub_blocks(data, body)
            label, application = data[offset + 1], data[body + 1 : body + 12]
            if label != _GIF_COMMENT and (label != _GIF_APPLICATION or application in _GIF_KEPT_APPLICATIONS):
                parts.append(data[offset:end])
        elif data[offset] == _GIF_IMAGE:
            end = _end_of_gif_sub_blocks(data, offset + 11 + _gif_colour_table_bytes(data[offset + 9]))
            parts.append(data[offset:end])
        else:
            raise ValueError(f"expected a block at byte {offset} but received {data[offset]:#x}")
        offset = end
    parts.append(data[offset : offset + 1])
    return b"".join(parts)


def _gif_colour_table_bytes(flags: int) -> int:
    """Return the size of the colour table that the flags declare, in bytes."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _end_of_gif_sub_blocks(data: bytes, offset: int) -> int:
    """Return the offset after the sequence of sub-blocks that begins at `offset`."""
    while data[offset]:
        offset += 1 + data[offset]
    return offset + 1


_STRIPPERS: dict[Format, Callable[[bytes], bytes]] = {
    Format.JPEG: _strip_jpeg,
    Format.PNG: _strip_png,
    Format.WEBP: _strip_webp,
    Format.GIF: _strip_gif,
}
