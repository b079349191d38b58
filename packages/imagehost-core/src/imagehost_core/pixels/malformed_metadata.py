"""Removal of malformed metadata, which browsers skip and strict readers refuse the whole file for.

Pillow raises for a colour profile of an unknown compression method, and libspng for a repeated or misplaced
chunk. What is removed changes no image that a browser shows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container
from io import BytesIO

from imagehost_core.formats import Format
from imagehost_core.headers import jpeg
from imagehost_core.headers.header import MAX_METADATA_BYTES
from imagehost_core.headers.reader import HeaderReader
from imagehost_core.pixels.png import iter_chunks
from imagehost_core.pixels.strip_metadata import drop_webp_profile, webp_profile

ICC_SEGMENT_LABEL = b"ICC_PROFILE\0"


def drop_malformed_metadata(fmt: Format, data: bytes) -> bytes:
    """Return the file without malformed metadata, or `data` itself.

    Args:
        fmt: JPEG, PNG, WebP or GIF.
        data: A whole file whose structure the header scan has accepted.

    Raises:
        ValueError: The file is malformed.
        IndexError: The file is truncated.
    """
    return _FILTERS.get(fmt, bytes)(data)


def is_icc_profile(profile: bytes) -> bool:
    """Return whether bytes are an ICC profile that is complete (ICC.1:2022, 7.2)."""
    return len(profile) >= 132 and profile[36:40] == b"acsp" and 132 <= _uint(profile[:4]) <= len(profile)


def _drop_malformed_chunks(data: bytes) -> bytes:
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
            inflated = _inflate(kind, data[start + 8 : end - 4], remaining)
            is_valid = inflated is not None and (kind != b"iCCP" or is_icc_profile(inflated))
            remaining -= len(inflated or b"")
        if is_valid:
            kept.add(kind)
        else:
            parts.append(data[kept_from:start])
            kept_from = end
    return b"".join((*parts, data[kept_from:])) if parts else data


def _inflate(kind: bytes, content: bytes, limit: int) -> bytes | None:
    """Return what a chunk has compressed, or `None` if it is malformed or more than a limit."""
    keyword, _, rest = content.partition(b"\0")
    is_compressed, method = (b"\1", rest[:1]) if kind != b"iTXt" else (rest[:1], rest[1:2])
    if not 0 < len(keyword) < 80 or method != b"\0" or is_compressed not in (b"\0", b"\1"):
        return None
    if is_compressed == b"\0":
        return b""
    stream = rest[1:] if kind != b"iTXt" else rest[2:].partition(b"\0")[2].partition(b"\0")[2]
    decoder = zlib.decompressobj()
    try:
        inflated = decoder.decompress(stream, limit + 1)
    except zlib.error:
        return None
    return inflated if decoder.eof and len(inflated) <= limit else None


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


def _drop_incomplete_profile(data: bytes) -> bytes:
    """Return a JPEG without the segments of an ICC profile unless each of them is there (ICC.1:2022, B.4)."""
    spans = [
        (start - 2, end)
        for marker, start, end in jpeg.segments(HeaderReader(BytesIO(data), len(data)))
        if marker == _APP2 and data.startswith(ICC_SEGMENT_LABEL, start + 2)
    ]
    header = 4 + len(ICC_SEGMENT_LABEL)
    # Each has its number and that of all of them, before its part of the profile.
    parts = sorted((data[start + header : end] for start, end in spans), key=lambda part: part[:1])
    is_complete = [tuple(part[:2]) for part in parts] == [(n + 1, len(parts)) for n in range(len(parts))]
    if not parts or (is_complete and is_icc_profile(b"".join(part[2:] for part in parts))):
        return data
    starts = (0, *(end for _, end in spans))
    ends = (*(start for start, _ in spans), len(data))
    return b"".join(data[start:end] for start, end in zip(starts, ends, strict=True))


_APP2 = 0xE2


def _drop_broken_webp_profile(data: bytes) -> bytes:
    profile = webp_profile(data)
    return data if profile is None or is_icc_profile(profile) else drop_webp_profile(data)


def _uint(data: bytes) -> int:
    return int.from_bytes(data, "big")


_FILTERS: dict[Format, Callable[[bytes], bytes]] = {
    Format.JPEG: _drop_incomplete_profile,
    Format.PNG: _drop_malformed_chunks,
    Format.WEBP: _drop_broken_webp_profile,
}
"""GIF has no metadata that readers take to be a part of the image."""
