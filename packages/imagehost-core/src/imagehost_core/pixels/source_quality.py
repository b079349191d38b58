"""The default quality of a master: about that of the upload.

Variants are rendered from the master, so its losses add to theirs: a JPEG variant of 1,280 pixels scores 73.6
points of SSIMULACRA2 from a WebP master of quality 80, and 76.1 from one of quality 90. An upload of low
quality does not gain from a master of high quality.
"""

from __future__ import annotations

from collections.abc import Iterable

MIN_QUALITY, MAX_QUALITY = 80, 98
"""Below the minimum the losses become visible; above the maximum there is no measurable gain."""

_STANDARD_SUM = 3_685
"""The sum of the luminance table that libjpeg scales by its quality (ITU-T T.81, table K.1)."""


def match_source_quality(luminance: Iterable[int] | None) -> int:
    """Return the quality for a master, `MIN_QUALITY` to `MAX_QUALITY`.

    Args:
        luminance: The 64 divisors of the uploaded JPEG's luminance table, or `None` for other formats.
    """
    if luminance is None:
        return MAX_QUALITY
    return min(MAX_QUALITY, max(MIN_QUALITY, round(_jpeg_quality(sum(luminance)))))


def _jpeg_quality(divisor_sum: int) -> float:
    """Return the libjpeg quality whose luminance table has a sum: the inverse of `jpeg_quality_scaling`."""
    percent = max(1.0, 100 * divisor_sum / _STANDARD_SUM)
    return (200 - percent) / 2 if percent <= 100 else 5_000 / percent
