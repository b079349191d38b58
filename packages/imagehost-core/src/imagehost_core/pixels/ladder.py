"""The reductions that are made of an upload while it is decoded anyway: the rungs that renders start from.

All rungs together take at most a quarter of the master's bytes. So they are made as good as that
allows: nearly without loss where the master is large, leaner where it is small, and not at all where
even that would be too much. The figures are in `docs/design/2026-11-21-pixels.md`.
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
    """One way to store a rung: a format, its quality, and what else the encoder is told."""

    format: Format
    quality: int
    settings: Mapping[str, object]


NEAR_LOSSLESS = Tier(Format.JPEG, 92, {"subsampling": 0, "progressive": False})
"""Decodes in a third of the time of an AVIF; not for pictures with alpha."""
FAIR = Tier(Format.AVIF, 70, {"speed": 10, "subsampling": "4:4:4"})
LEAN = Tier(Format.AVIF, 60, {"speed": 10})

FAIR_TO_LEAN = 1.3
"""A fair rung has at least this many times the bytes of the lean one, so it is not tried in less room."""


def make_ladder(image: Image.Image, sides: Sequence[int], master_bytes: int) -> list[tuple[Size, bytes]]:
    """Return the rungs of a picture, largest first; each is made from the next larger one.

    As many rungs as fit in the leanest tier come first, since any rung saves more time than a better
    one; what room is then left makes them better.

    Args:
        image: The upright picture in sRGB, in `RGB` or `RGBA`.
        sides: The longer sides of the rungs, in pixels, descending.
        master_bytes: The size of the master, in bytes.
    """
    reductions = _reductions(image, sides)
    by_worth = sorted(reductions, key=lambda side: (side != KEY_SIDE, side))
    room = master_bytes // BYTES_SHARE
    best = (
        {} if image.mode == "RGBA" else {side: _encoded(reductions[side], NEAR_LOSSLESS) for side in by_worth}
    )
    chosen = best
    if not best or sum(map(len, best.values())) > room:
        chosen = _lean(reductions, by_worth, room)
        _improve(chosen, reductions, best, room - sum(map(len, chosen.values())))
    return [(Size(*reductions[side].size), chosen[side]) for side in reductions if side in chosen]


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


def _lean(reductions: Mapping[int, Image.Image], by_worth: Sequence[int], room: int) -> dict[int, bytes]:
    """Return the leanest form of every rung for which there is room."""
    chosen: dict[int, bytes] = {}
    for side in by_worth:
        blob = _encoded(reductions[side], LEAN)
        if len(blob) <= room:
            chosen[side] = blob
            room -= len(blob)
    return chosen


def _improve(
    chosen: dict[int, bytes], reductions: Mapping[int, Image.Image], best: Mapping[int, bytes], room: int
) -> None:
    """Replace rungs by better ones, those of most worth first, as far as there is room."""
    for side, lean in chosen.items():
        better = best.get(side)
        if better is None or len(better) - len(lean) > room:
            hopeless = len(lean) * (FAIR_TO_LEAN - 1) > room
            better = None if hopeless else _encoded(reductions[side], FAIR)
        if better is not None and len(better) - len(lean) <= room:
            chosen[side] = better
            room -= len(better) - len(lean)


def _encoded(image: Image.Image, tier: Tier) -> bytes:
    return encode(tier.format, image, tier.quality, settings=tier.settings)
