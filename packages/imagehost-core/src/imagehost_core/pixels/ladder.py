"""The reductions that are made of an upload while it is decoded anyway: the rungs that renders start from.

All rungs together take at most a quarter of the master's bytes. So each is made as good as its share
allows: nearly without loss where the master is large, leaner where it is small, and not at all where
even that would be too much. The figures are in `docs/design/2026-11-pixels.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.geometry import Size
from imagehost_core.pixels.encode import encode
from imagehost_core.pixels.resize import reduced

BYTES_SHARE = 4
"""All rungs together have at most the master's bytes divided by this."""

PIXELS_SHARE = 6
"""A rung has at most the picture's pixels divided by this; a larger one never fits `BYTES_SHARE`,
because a reduced picture needs twice to three times as many bytes a pixel as the master."""

KEY_SIDE = 1024
"""The rung that is worth most, being the start for most thumbnails and pages; it gets its bytes first."""


@frozen
class Tier:
    """One way to store a rung.

    Attributes:
        format: The format.
        quality: Its quality.
        settings: What else the encoder is told.
        expected: About how many bytes it takes, as a share of what the first tier takes. Spares
            encoding what will not fit.
    """

    format: Format
    quality: int
    settings: Mapping[str, object]
    expected: float


NEAR_LOSSLESS = Tier(Format.JPEG, 92, {"subsampling": 0, "progressive": False}, 1.0)
TIERS = (
    NEAR_LOSSLESS,
    Tier(Format.AVIF, 70, {"speed": 10, "subsampling": "4:4:4"}, 0.36),
    Tier(Format.AVIF, 60, {"speed": 10}, 0.25),
)
"""From the best to the smallest. A JPEG decodes in a third of the time of an AVIF."""


def make_ladder(image: Image.Image, sides: Sequence[int], master_bytes: int) -> list[tuple[Size, bytes]]:
    """Return the rungs of a picture, largest first; each is made from the next larger one.

    Args:
        image: The upright picture in sRGB, in `RGB` or `RGBA`.
        sides: The longer sides of the rungs, in pixels, descending.
        master_bytes: The size of the master, in bytes.
    """
    reductions = _reductions(image, sides)
    room = master_bytes // BYTES_SHARE
    blobs: dict[Size, bytes] = {}
    for side in sorted(reductions, key=lambda side: (side != KEY_SIDE, side)):
        reduction = reductions[side]
        blob = _fitting(reduction, room)
        if blob is not None:
            blobs[Size(*reduction.size)] = blob
            room -= len(blob)
    return sorted(blobs.items(), key=lambda rung: -rung[0].pixels)


def _reductions(image: Image.Image, sides: Sequence[int]) -> dict[int, Image.Image]:
    whole = Size(*image.size)
    found: dict[int, Image.Image] = {}
    for side in sides:
        size = _with_longer_side(whole, side)
        if size.pixels * PIXELS_SHARE <= whole.pixels:
            image = found[side] = reduced(image, size)
    return found


def _with_longer_side(size: Size, side: int) -> Size:
    longer = max(size.width, size.height)
    width, height = ((2 * length * side + longer) // (2 * longer) for length in (size.width, size.height))
    return Size(max(1, width), max(1, height))


def _fitting(image: Image.Image, room: int) -> bytes | None:
    """Return the rung in the best tier that fits, or `None`."""
    first = None if image.mode == "RGBA" else _encoded(image, NEAR_LOSSLESS)
    for tier in TIERS:
        blob = first if tier is NEAR_LOSSLESS else None
        hopeless = first is not None and len(first) * tier.expected > room
        if tier is not NEAR_LOSSLESS and not hopeless:
            blob = _encoded(image, tier)
        if blob is not None and len(blob) <= room:
            return blob
    return None


def _encoded(image: Image.Image, tier: Tier) -> bytes:
    return encode(tier.format, image, tier.quality, settings=tier.settings)
