"""The reductions that are made of an upload while it is decoded anyway: the rungs that renders start from.

All rungs together take at most a quarter of the master's bytes. So they are made as good as that
allows: nearly without loss where the master is large, leaner where it is small, and not at all where
even that would be too much. The figures are in `docs/decisions/0004`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.jobs import PRIORITY_SIDE
from imagehost_core.pixels.encode import encode
from imagehost_core.pixels.resize import resize_to
from imagehost_core.transform.geometry import Size

BYTES_SHARE = 4
"""All rungs together have at most the master's bytes divided by this."""

PIXELS_SHARE = 3
"""A rung has at most the picture's pixels divided by this; beyond it saves little to start from it."""

MIN_GROWTH = 2.5
"""A rung of twice the side is taken to have this many times the bytes, and not tried in less room.
Of twelve photographs, all had 2.7 to 3.4 times."""


@frozen
class Derivatives:
    """The rungs of a picture.

    Attributes:
        rungs: The size and the bytes of each, largest first.
        least: The smallest reduction that was made, whether there was room for it or not; the picture
            itself, where none was.
    """

    derivatives: Sequence[tuple[Size, bytes]]
    smallest: Image.Image


@frozen
class EncodingTier:
    """One way to store a rung: a format, its quality, and what else the encoder is told."""

    format: Format
    quality: int
    settings: Mapping[str, object]


_SEQUENTIAL = {"progressive": False}
_FINE = {"progressive": False, "subsampling": 0}

OPAQUE_TIERS = (
    EncodingTier(Format.JPEG, 94, _FINE),
    EncodingTier(Format.JPEG, 91, _FINE),
    EncodingTier(Format.JPEG, 87, _FINE),
    EncodingTier(Format.JPEG, 91, _SEQUENTIAL),
    EncodingTier(Format.JPEG, 87, _SEQUENTIAL),
    EncodingTier(Format.JPEG, 83, _SEQUENTIAL),
)
"""How rungs are stored, best first. A JPEG is decoded in a third of the time of an AVIF, and encoded in a
tenth; what its tables lose in fine detail is what the render's reduction takes away in any case."""

ALPHA_TIERS = (
    EncodingTier(Format.AVIF, 70, {"speed": 10, "subsampling": "4:4:4"}),
    EncodingTier(Format.AVIF, 60, {"speed": 10}),
)
"""The same for pictures with alpha, which a JPEG cannot hold."""


def make_derivatives(image: Image.Image, sides: Sequence[int], master_bytes: int) -> Derivatives:
    """Return the rungs of a picture.

    As many rungs as fit in the leanest tier come first, since any rung saves more time than a better
    one; then they are made in the best tier in which all of them fit.

    Args:
        image: The upright picture in sRGB, in `RGB` or `RGBA`.
        sides: The longer sides of the rungs, in pixels, descending.
        master_bytes: The size of the master, in bytes.
    """
    tiers = ALPHA_TIERS if image.mode == "RGBA" else OPAQUE_TIERS
    room = master_bytes // BYTES_SHARE
    reductions, chosen = _smallest_set(image, sides, tiers[-1], room)
    best, worst = 0, len(tiers) - 1
    while best < worst:
        tier = (best + worst) // 2
        better = {side: _encoded(reductions[side], tiers[tier]) for side in chosen}
        if sum(map(len, better.values())) <= room:
            chosen, worst = better, tier
        else:
            best = tier + 1
    rungs = [(Size(*reductions[side].size), chosen[side]) for side in sorted(chosen, reverse=True)]
    return Derivatives(rungs, reductions[min(reductions)] if reductions else image)


def _smallest_set(
    image: Image.Image, sides: Sequence[int], tier: EncodingTier, room: int
) -> tuple[dict[int, Image.Image], dict[int, bytes]]:
    """Return every rung for which there is room, those of most worth first: its pixels and its bytes."""
    whole = Size(*image.size)
    pixels: dict[int, Image.Image] = {}
    chosen: dict[int, bytes] = {}
    for side in sorted(sides, key=lambda side: (side != PRIORITY_SIDE, side)):
        size = _with_longer_side(whole, side)
        hopeless = any(len(blob) * MIN_GROWTH > room for less, blob in chosen.items() if 2 * less <= side)
        if size.pixels * PIXELS_SHARE > whole.pixels or hopeless:
            continue
        start = min((larger for larger in pixels if larger > side), default=None)
        pixels[side] = resize_to(image if start is None else pixels[start], size)
        blob = _encoded(pixels[side], tier)
        if len(blob) <= room:
            chosen[side] = blob
            room -= len(blob)
    return pixels, chosen


def _with_longer_side(size: Size, side: int) -> Size:
    longer = max(size.width, size.height)
    width, height = ((2 * length * side + longer) // (2 * longer) for length in (size.width, size.height))
    return Size(max(1, width), max(1, height))


def _encoded(image: Image.Image, tier: EncodingTier) -> bytes:
    return encode(tier.format, image, tier.quality, settings=tier.settings)
