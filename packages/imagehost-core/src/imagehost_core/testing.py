"""Helpers for tests of programs that embed the host: generated images, a fixed clock, a temporary host."""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime, timedelta
from functools import cache

from attrs import define

from imagehost_core.host import ImageHost
from imagehost_core.settings import RenderingSettings, Settings
from imagehost_core.transform import Size
from imagehost_core.workers.executor import ImageExecutor

DEFAULT_NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""The initial time of a `FrozenClock`."""


def make_image(width: int = 320, height: int = 240, *, seed: int = 0) -> bytes:
    """Return a PNG of a smooth gradient, the same bytes for the same arguments.

    Args:
        width: Pixels, at least 1.
        height: Pixels, at least 1.
        seed: A number that varies the colours.
    """
    size = Size(width, height)
    reds = bytes(x * 255 // size.width for x in range(size.width))
    blues = bytes(range(256)) * (size.width // 256 + 2)
    rows = bytearray()
    row = bytearray(3 * size.width)
    row[0::3] = reds
    for y in range(size.height):
        start = (y + seed * 53) % 256
        row[1::3] = bytes((y * 255 // size.height,)) * size.width
        row[2::3] = blues[start : start + size.width]
        rows += b"\0" + row
    header = struct.pack(">IIBBBBB", size.width, size.height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


@define
class FrozenClock:
    """A clock whose time changes only when it is set or advanced.

    Attributes:
        now: The current time of the clock, in UTC.
    """

    now: datetime = DEFAULT_NOW

    def __call__(self) -> datetime:
        """Return the current time of the clock."""
        return self.now

    def advance(self, **amounts: float) -> None:
        """Advance the time by `days`, `hours`, `minutes`, `seconds`, … as `timedelta` takes them."""
        self.now += timedelta(**amounts)


def memory_host(settings: Settings | None = None) -> ImageHost:
    """Return a host with one worker in a temporary directory, which `close` removes."""
    return ImageHost.open(":memory:", settings=settings or Settings(rendering=RenderingSettings(processes=1)))


@cache
def shared_executor() -> ImageExecutor:
    """Return a worker process for all hosts of this process: starting one for each takes 0.3 s."""
    return ImageExecutor(1)
