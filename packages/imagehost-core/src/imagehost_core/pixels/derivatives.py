"""Derivatives: downscaled copies of an upload, stored beside its master, from which variants render faster.

All derivatives of an image together take at most a quarter of the master's bytes. Within that budget, as many
derivatives as possible are encoded at the best possible quality.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.jobs import PRIORITY_SIDE
from imagehost_core.pixels.encode import encode
from imagehost_core.pixels.resize import resize_to
from imagehost_core.transform import Size

BYTES_DIVISOR = 4
"""All derivatives together have at most the master's bytes divided by this."""

PIXELS_DIVISOR = 3
"""A derivative has at most the image's pixels divided by this; a larger one would save little time."""

MIN_GROWTH = 2.5
"""The least expected ratio of the bytes of two derivatives whose sides differ by a factor of two.
A derivative that cannot fit by this estimate is not encoded. Twelve photographs had ratios of 2.7 to 3.4."""


@frozen
class Derivatives:
    """The derivatives of an image.

    Attributes:
        derivatives: The size and the bytes of each, largest first.
        smallest: The smallest downscaled image, even if its file exceeded the budget; the image itself if it
            was not downscaled.
    """

    derivatives: Sequence[tuple[Size, bytes]]
    smallest: Image.Image


@frozen
class EncodingTier:
    """One way to encode a derivative: a format, its quality, and encoder options."""

    format: Format
    quality: int
    options: Mapping[str, object]


_CHROMA_420 = {"progressive": False}
_CHROMA_444 = {"progressive": False, "subsampling": 0}

OPAQUE_TIERS = (
    EncodingTier(Format.JPEG, 94, _CHROMA_444),
    EncodingTier(Format.JPEG, 91, _CHROMA_444),
    EncodingTier(Format.JPEG, 87, _CHROMA_444),
    EncodingTier(Format.JPEG, 91, _CHROMA_420),
    EncodingTier(Format.JPEG, 87, _CHROMA_420),
    EncodingTier(Format.JPEG, 83, _CHROMA_420),
)
"""The tiers for opaque images, best first. JPEG is decoded in a third of the time of AVIF and encoded in a
tenth; its losses in fine detail are removed by the downscale of the render in any case."""

ALPHA_TIERS = (
    EncodingTier(Format.AVIF, 70, {"speed": 10, "subsampling": "4:4:4"}),
    EncodingTier(Format.AVIF, 60, {"speed": 10}),
)
"""The tiers for images with alpha, which JPEG does not support, best first."""


def make_derivatives(image: Image.Image, sides: Sequence[int], master_bytes: int) -> Derivatives:
    """Downscale and encode an image's derivatives.

    First selects as many derivatives as fit the budget in the smallest tier, since another derivative saves
    more time than a better one; then encodes them in the best tier in which all of them fit.

    Args:
        image: The upright image in sRGB, in mode `RGB` or `RGBA`.
        sides: The longer sides of the derivatives, in pixels, descending.
        master_bytes: The size of the master, in bytes.
    """
    tiers = ALPHA_TIERS if image.mode == "RGBA" else OPAQUE_TIERS
    budget = master_bytes // BYTES_DIVISOR
    downscaled, selected = _smallest_set(image, sides, tiers[-1], budget)
    best, worst = 0, len(tiers) - 1
    while best < worst:
        tier = (best + worst) // 2
        candidates = {side: _encode(downscaled[side], tiers[tier]) for side in selected}
        if sum(map(len, candidates.values())) <= budget:
            selected, worst = candidates, tier
        else:
            best = tier + 1
    derivatives = [(Size(*downscaled[side].size), selected[side]) for side in sorted(selected, reverse=True)]
    return Derivatives(derivatives, downscaled[min(downscaled)] if downscaled else image)


def _smallest_set(
    image: Image.Image, sides: Sequence[int], tier: EncodingTier, budget: int
) -> tuple[dict[int, Image.Image], dict[int, bytes]]:
    """Return the downscaled images, and the encoded derivatives that fit the budget, by their longer side.

    `PRIORITY_SIDE` comes first, then the others in ascending order.
    """
    original = Size(*image.size)
    downscaled: dict[int, Image.Image] = {}
    selected: dict[int, bytes] = {}
    for side in sorted(sides, key=lambda side: (side != PRIORITY_SIDE, side)):
        size = _with_longer_side(original, side)
        too_large = any(
            len(blob) * MIN_GROWTH > budget for smaller, blob in selected.items() if 2 * smaller <= side
        )
        if size.pixels * PIXELS_DIVISOR > original.pixels or too_large:
            continue
        source = min((larger for larger in downscaled if larger > side), default=None)
        downscaled[side] = resize_to(image if source is None else downscaled[source], size)
        blob = _encode(downscaled[side], tier)
        if len(blob) <= budget:
            selected[side] = blob
            budget -= len(blob)
    return downscaled, selected


def _with_longer_side(size: Size, side: int) -> Size:
    longer = max(size.width, size.height)
    width, height = ((2 * length * side + longer) // (2 * longer) for length in (size.width, size.height))
    return Size(max(1, width), max(1, height))


def _encode(image: Image.Image, tier: EncodingTier) -> bytes:
    return encode(tier.format, image, tier.quality, options=tier.options)
