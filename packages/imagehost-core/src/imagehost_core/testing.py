"""For tests of programs that host images: pictures, a clock that stands still, a fleeting host."""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime, timedelta

from attrs import define

from imagehost_core.host import ImageHost
from imagehost_core.settings import RenderingSettings, Settings
from imagehost_core.transform.geometry import Size

DEFAULT_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_image(width: int = 320, height: int = 240, *, seed: int = 0) -> bytes:
    """Return a PNG of a smooth gradient, which is the same for the same arguments.

    Args:
        width: Pixels, at least 1.
        height: The same.
        seed: Another number makes another picture.
    """
    size = Size(width, height)
    rows = bytearray()
    for y in range(size.height):
        rows.append(0)
        for x in range(size.width):
            rows += bytes((x * 255 // size.width, y * 255 // size.height, (x + y + seed * 53) % 256))
    header = struct.pack(">IIBBBBB", size.width, size.height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


@define
class FrozenClock:
    """A clock that stands still until it is moved.

    Attributes:
        moment: What it shows.
    """

    moment: datetime = DEFAULT_NOW

    def __call__(self) -> datetime:
        """Return what the clock shows."""
        return self.moment

    def advance(self, **amounts: float) -> None:
        """Move on by `days`, `hours`, `minutes`, `seconds`, … as `timedelta` takes them."""
        self.moment += timedelta(**amounts)


def memory_host(settings: Settings | None = None) -> ImageHost:
    """Return a host on a temporary folder, with one worker, which vanishes on `close`."""
    return ImageHost.open(":memory:", settings=settings or Settings(rendering=RenderingSettings(processes=1)))
