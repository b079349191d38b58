"""Malformed chunks of a PNG, which browsers skip and strict readers refuse the whole file for.

Pillow raises for a colour profile of an unknown compression method, and libspng for a repeated or misplaced
chunk. What is removed changes no image that a browser shows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container

from imagehost_core.headers.header import MAX_METADATA_BYTES
from imagehost_core.pixels.colour import is_icc_profile
from imagehost_core.pixels.formats.png_file import iter_chunks

MAX_RATIO = 1_032
"""The most bytes that DEFLATE makes of one byte: https://zlib.net/zlib_tech.html."""


def drop_malformed_chunks(data: bytes) -> bytes:
    """Return a PNG without chunks that are repeated, misplaced, or of a wrong length or content."""
    colour_type, kept_from = data[25], 0
    kept = set[bytes]()
    parts = list[bytes]()
    # Of all texts and the profile together: each chunk of 200,000 could be a bomb.
    remaining = MAX_METADATA_BYTES
    for kind, start, end in iter_chunks(data):
        is_valid = (kind not in _ONCE or kind not in kept) and (
            kind not in _BEFORE_PIXELS or b"IDAT" not in kept
        )
        if is_valid and kind in _LENGTHS:
            is_valid = end - start - 12 in _LENGTHS[kind](colour_type)
        elif is_valid and kind in _COMPRESSED:
            inflated, length = _inflate(kind, data[start + 8 : end - 4], remaining)
            is_valid = inflated is not None and (kind != b"iCCP" or is_icc_profile(inflated))
            remaining -= length
        if is_valid:
            kept.add(kind)
        else:
            parts.append(data[kept_from:start])
            kept_from = end
    return b"".join((*parts, data[kept_from:])) if parts else data


def _inflate(kind: bytes, content: bytes, limit: int) -> tuple[bytes | None, int]:
    """Return what a chunk has compressed, or `None` if it is malformed or more than a limit.

    The second value is the number of bytes that were inflated, at most the limit; where decoding fails, the
    most that there can have been.
    """
    keyword, _, rest = content.partition(b"\0")
    is_compressed, method = (b"\1", rest[:1]) if kind != b"iTXt" else (rest[:1], rest[1:2])
    if not 0 < len(keyword) < 80 or method != b"\0" or is_compressed not in (b"\0", b"\1"):
        return None, 0
    if is_compressed == b"\0":
        return b"", 0
    stream = rest[1:] if kind != b"iTXt" else rest[2:].partition(b"\0")[2].partition(b"\0")[2]
    if limit == 0:
        return None, 0
    decoder = zlib.decompressobj()
    try:
        inflated = decoder.decompress(stream, limit + 1)
    except zlib.error:
        return None, min(limit, MAX_RATIO * len(stream))
    is_whole = decoder.eof and len(inflated) <= limit
    return inflated if is_whole else None, min(limit, len(inflated))


def _length(*lengths: int) -> Callable[[int], Container[int]]:
    return lambda _: lengths


# Portable Network Graphics, third edition (W3C), section 11.3.
_SIGNIFICANT_BITS = {0: (1,), 2: (3,), 3: (3,), 4: (2,), 6: (4,)}
_BACKGROUND = {0: (2,), 2: (6,), 3: (1,), 4: (2,), 6: (6,)}
_TRANSPARENCY = {0: (2,), 2: (6,), 3: range(257)}
_LENGTHS: dict[bytes, Callable[[int], Container[int]]] = {
    b"acTL": _length(8),
    b"cHRM": _length(32),
    b"cICP": _length(4),
    b"cLLI": _length(8),
    b"gAMA": _length(4),
    b"mDCV": _length(24),
    b"sBIT": lambda colour_type: _SIGNIFICANT_BITS[colour_type],
    b"sRGB": _length(1),
    b"bKGD": lambda colour_type: _BACKGROUND[colour_type],
    b"pHYs": _length(9),
    b"tIME": _length(7),
    b"tRNS": lambda colour_type: _TRANSPARENCY.get(colour_type, ()),
}
"""The lengths that a chunk may have in an image of a colour type."""
_COMPRESSED = (b"iCCP", b"zTXt", b"iTXt")
# A repeated acTL makes the file a still image, so it stays.
_ONCE = frozenset((*_LENGTHS, b"iCCP", b"hIST")) - {b"acTL"}
_BEFORE_PIXELS = _ONCE - {b"tIME"}
