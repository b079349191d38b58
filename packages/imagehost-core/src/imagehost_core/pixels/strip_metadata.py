"""How EXIF, XMP, IPTC and comments are taken out of a file without touching its pixels.

Contract 4: with `remove_exif` *EXIF, XMP and IPTC go, ICC stays*. Taking out segments is quicker
than encoding again, and loses nothing. What a format's readers do not need to show the same picture
goes as well: comments, times, previews, maker's data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from imagehost_core.formats import Format


def strip_metadata(fmt: Format, data: bytes) -> bytes:
    """Return the same picture without metadata.

    Args:
        fmt: JPEG, PNG, WebP or GIF.
        data: A whole file that a decoder has accepted.

    Raises:
        ValueError: The file is not built as its format says.
        IndexError: It ends too early.
    """
    return _STRIPPERS[fmt](data)


_JPEG_SOI, _JPEG_SOS, _JPEG_COM = 0xD8, 0xDA, 0xFE
_JPEG_APPS = range(0xE0, 0xF0)
_JPEG_KEPT_APPS = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}
"""The application segments that change how pixels are shown, and how their content begins."""


def _jpeg(data: bytes) -> bytes:
    kept = [data[:2]]
    at = 2
    while data[at + 1] != _JPEG_SOS:
        if data[at] != 0xFF:
            raise ValueError(f"expected a marker at byte {at} but received {data[at]:#x}")
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        needed = data[at + 4 : end].startswith(_JPEG_KEPT_APPS.get(marker, b"\xff\xff"))
        if needed or (marker not in _JPEG_APPS and marker != _JPEG_COM):
            kept.append(data[at:end])
        at = end
    kept.append(data[at:])
    return b"".join(kept)


_PNG_SIGNATURE = 8
_PNG_DROPPED = frozenset({b"eXIf", b"tEXt", b"zTXt", b"iTXt", b"tIME"})


def _png(data: bytes) -> bytes:
    kept = [data[:_PNG_SIGNATURE]]
    at = _PNG_SIGNATURE
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + 8]
        if kind not in _PNG_DROPPED:
            kept.append(data[at:end])
        if kind == b"IEND":
            break
        at = end
    return b"".join(kept)


_WEBP_DROPPED = frozenset({b"EXIF", b"XMP "})
_WEBP_FLAGS = 0b0000_1100
"""The bits of VP8X that say that EXIF and XMP are there (RFC 9649, section 2.7)."""


def _webp(data: bytes) -> bytes:
    chunks = []
    for kind, content in _riff(data):
        if kind == b"VP8X":
            content = bytes([content[0] & ~_WEBP_FLAGS]) + content[1:]
        if kind not in _WEBP_DROPPED:
            chunks.append(kind + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2))
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _riff(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    end = 8 + int.from_bytes(data[4:8], "little")
    at = 12
    while at + 8 <= min(end, len(data)):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        yield data[at : at + 4], data[at + 8 : at + 8 + length]
        at += 8 + length + length % 2


_GIF_EXTENSION, _GIF_IMAGE, _GIF_TRAILER = 0x21, 0x2C, 0x3B
_GIF_COMMENT, _GIF_APPLICATION = 0xFE, 0xFF
_GIF_KEPT = (b"NETSCAPE2.0", b"ANIMEXTS1.0", b"ICCRGBG1012")
"""The applications whose extensions change how a GIF is shown: loops, and ICC."""


def _gif(data: bytes) -> bytes:
    at = 13 + _gif_table(data[10])
    kept = [data[:at]]
    while data[at] != _GIF_TRAILER:
        if data[at] == _GIF_EXTENSION:
            body = at + 2
            end = _gif_blocks(data, body)
            label, name = data[at + 1], data[body + 1 : body + 12]
            if label != _GIF_COMMENT and (label != _GIF_APPLICATION or name in _GIF_KEPT):
                kept.append(data[at:end])
        elif data[at] == _GIF_IMAGE:
            end = _gif_blocks(data, at + 11 + _gif_table(data[at + 9]))
            kept.append(data[at:end])
        else:
            raise ValueError(f"expected a block at byte {at} but received {data[at]:#x}")
        at = end
    kept.append(data[at : at + 1])
    return b"".join(kept)


def _gif_table(flags: int) -> int:
    """Return the bytes of the colour table that the flags announce."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _gif_blocks(data: bytes, at: int) -> int:
    """Return where the row of sub-blocks ends that begins at `at`."""
    while data[at]:
        at += 1 + data[at]
    return at + 1


_STRIPPERS: dict[Format, Callable[[bytes], bytes]] = {
    Format.JPEG: _jpeg,
    Format.PNG: _png,
    Format.WEBP: _webp,
    Format.GIF: _gif,
}
