"""The reductions that are made of an upload while it is decoded anyway: the rungs that renders start from."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.geometry import Size
from imagehost_core.pixels.encode import encode
from imagehost_core.pixels.resize import reduced

CLEARLY_SMALLER = (3, 4)
"""A rung is made where its side is at most this share of the picture's: less would save nothing."""


def make_ladder(image: Image.Image, sides: Sequence[int]) -> list[tuple[Size, bytes]]:
    """Return the rungs of a picture, largest first, each made from the one before.

    Args:
        image: The upright picture in sRGB, in `RGB` or `RGBA`.
        sides: The longer sides of the rungs, in pixels, descending.
    """
    rungs: list[tuple[Size, bytes]] = []
    longer = max(image.size)
    share, whole = CLEARLY_SMALLER
    for side in sides:
        if side * whole <= longer * share:
            size = _sized(image, side)
            image = reduced(image, size)
            rungs.append((size, _encoded(image)))
    return rungs


def _sized(image: Image.Image, side: int) -> Size:
    longer = max(image.size)
    width, height = ((2 * length * side + longer) // (2 * longer) for length in image.size)
    return Size(max(1, width), max(1, height))


def _encoded(image: Image.Image) -> bytes:
    if image.mode == "RGBA":
        return encode(Format.WEBP, image, 92, method=0)
    return encode(Format.JPEG, image, 92, subsampling=0, optimize=False, progressive=False)
