"""The quantisation tables of our JPEGs: what is lost where it is seen least.

The tables of libjpeg (ITU-T T.81, K.1 and K.2) spend bytes on detail that is hardly seen. Ours are
a formula of three numbers for each of brightness and colour, which were searched for at equal bytes on
eight large photographs reduced to 640 pixels: at libjpeg's bytes for quality 80 they score 2.1 points of
SSIMULACRA2 more on the mean, and more on each. `docs/decisions/0005` has the figures.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp

from attrs import frozen

SIDE = 8
"""A block of a JPEG has this many frequencies on each axis."""

LARGEST = 255
"""The largest divisor of a baseline JPEG."""


@frozen
class TableCurve:
    """How a table grows from low to high frequencies: `level · e^(steepness · (u^bend + v^bend))`.

    Attributes:
        level: The divisor of the block's mean at quality 50.
        steepness: How fast divisors grow.
        bend: 1 lets them grow alike from one frequency to the next; less, slower towards the fine ones.
    """

    base: float
    growth: float
    exponent: float = 0.9

    def at(self, across: int, down: int) -> float:
        """Return the divisor of a frequency at quality 50; both are counted from 0 to 7."""
        return self.base * exp(self.growth * (across**self.exponent + down**self.exponent))


LUMA = TableCurve(10.35, 0.255)
"""Its level gives as many bytes at quality 80 as libjpeg's own table."""
CHROMA = TableCurve(12.4, 0.2)


@lru_cache(maxsize=128)
def tables(quality: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the divisors of brightness and of colour, 64 each, row by row.

    Args:
        quality: 1–100; divisors grow with it as libjpeg's do (`jpeg_quality_scaling`).
    """
    percent = 5_000 / quality if quality < 50 else 200 - 2 * quality
    brightness, colour = (
        tuple(
            min(LARGEST, max(1, round(slope.at(across, down) * percent / 100)))
            for down in range(SIDE)
            for across in range(SIDE)
        )
        for slope in (LUMA, CHROMA)
    )
    return brightness, colour


def settings(quality: int) -> dict[str, object]:
    """Return what Pillow is told to quantise by `tables`."""
    # At 50, libjpeg takes tables as they are given; at others it scales them first.
    return {"quality": 50, "qtables": [list(table) for table in tables(quality)]}
