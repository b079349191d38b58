"""Width and height of an image that a host has sent, from its bytes."""

from __future__ import annotations

import re
from struct import error, unpack_from

SOF = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""The markers of JPEG segments that begin with the precision, the height and the width."""


def dimensions(data: bytes) -> tuple[int, int]:
    """Return the width and the height of an image in pixels, (0, 0) of one in a format of newer hosts.

    Hosts deliver images upright, so no orientation is read.
    """
    try:
        return _dimensions(data)
    except error:
        return 0, 0


def _dimensions(data: bytes) -> tuple[int, int]:
    width = height = 0
    if data.startswith(b"\x89PNG"):
        width, height = unpack_from(">II", data, 16)
    elif data.startswith(b"GIF8"):
        width, height = unpack_from("<HH", data, 6)
    elif data.startswith(b"\xff\xd8"):
        width, height = _of_jpeg(data)
    elif data[8:12] == b"WEBP":
        width, height = _of_webp(data)
    elif data[4:8] == b"ftyp":
        found = (unpack_from(">II", data, match.end() + 4) for match in re.finditer(b"ispe", data[:4096]))
        width, height = max(found, default=(0, 0))
    return width, height


def _of_jpeg(data: bytes) -> tuple[int, int]:
    position = 2
    while True:
        marker, length = unpack_from(">xBH", data, position)
        if marker in SOF:
            height, width = unpack_from(">HH", data, position + 5)
            return width, height
        position += 2 + length


def _of_webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        (bits,) = unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = unpack_from("<HH", data, 26)
    return width & 0x3FFF, height & 0x3FFF
