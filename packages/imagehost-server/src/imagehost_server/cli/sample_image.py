"""The sample image of the first start: a sunset, generated as a PNG without an image library."""

from __future__ import annotations

import struct
import zlib
from math import sin
from pathlib import Path

WIDTH, HEIGHT = 640, 400
NAME = "sample.png"

SKY_TOP, SKY_BOTTOM = (38, 24, 74), (255, 153, 94)
SUN, SEA = (255, 233, 168), (24, 42, 84)
SUN_X, SUN_Y, SUN_RADIUS = 420, 230, 54
HORIZON = 270


def write_sample(directory: Path) -> Path:
    """Write the sample image to a directory, unless it exists, and return its path."""
    path = directory / NAME
    if not path.exists():
        path.write_bytes(sample_png())
    return path


def sample_png() -> bytes:
    """Return the sample image as a PNG."""
    rows = b"".join(
        b"\0" + bytes(channel for x in range(WIDTH) for channel in _pixel(x, y)) for y in range(HEIGHT)
    )
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _pixel(x: int, y: int) -> tuple[int, int, int]:
    if y >= HORIZON:
        reflection = abs(x - SUN_X) < SUN_RADIUS - 0.25 * (y - HORIZON) + 9 * sin(y * 0.9)
        return SUN if reflection and y % 5 < 2 else SEA
    if (x - SUN_X) ** 2 + (y - SUN_Y) ** 2 < SUN_RADIUS**2:
        return SUN
    red, green, blue = (
        top + (bottom - top) * y // HORIZON for top, bottom in zip(SKY_TOP, SKY_BOTTOM, strict=True)
    )
    return red, green, blue


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
