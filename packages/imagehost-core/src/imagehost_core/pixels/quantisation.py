"""JPEG quantisation tables, optimised for perceived quality.

libjpeg's tables (ITU-T T.81, K.1 and K.2) spend bytes on detail that is hardly visible. These are a formula
of three parameters each for luma and chroma, found by a search on eight large photographs downscaled to 640
pixels (`bench/tables.py`): at the bytes of libjpeg's quality 80 they gain 2.1 points of SSIMULACRA2 on
average, and gain on every photograph. `docs/decisions/0005` has the figures.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp

from attrs import frozen

BLOCK_SIDE = 8
"""The number of frequencies of a JPEG block on each axis."""

MAX_DIVISOR = 255
"""The largest divisor of a baseline JPEG."""


@frozen
class TableCurve:
    """Divisors by frequency: `base · e^(growth · (u^exponent + v^exponent))`.

    Attributes:
        base: The divisor of the block's mean at quality 50.
        growth: The rate at which divisors increase with the frequency.
        exponent: 1 for a uniform increase from one frequency to the next; less for a slower increase towards
            high frequencies.
    """

    base: float
    growth: float
    exponent: float = 0.9

    def at(self, u: int, v: int) -> float:
        """Return the divisor of a horizontal and a vertical frequency, 0–7 each, at quality 50."""
        return self.base * exp(self.growth * (u**self.exponent + v**self.exponent))


LUMA = TableCurve(10.35, 0.255)
"""Its base gives as many bytes at quality 80 as libjpeg's table."""
CHROMA = TableCurve(12.4, 0.2)
DERIVATIVE_LUMA = TableCurve(6.0, 0.4)
"""For derivatives: their highest frequencies are lost when variants are downscaled from them. At equal bytes
of the derivative, variants gain 0.1 to 0.2 points of SSIMULACRA2."""


@lru_cache(maxsize=128)
def tables(quality: int, luma: TableCurve = LUMA) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the luma and the chroma table, 64 divisors each in row order.

    Args:
        quality: 1–100, with libjpeg's scaling of the divisors (`jpeg_quality_scaling`).
        luma: The divisors of the luma table.
    """
    percent = 5_000 / quality if quality < 50 else 200 - 2 * quality
    luma_table, chroma_table = (
        tuple(
            min(MAX_DIVISOR, max(1, round(curve.at(u, v) * percent / 100)))
            for v in range(BLOCK_SIDE)
            for u in range(BLOCK_SIDE)
        )
        for curve in (luma, CHROMA)
    )
    return luma_table, chroma_table


def quality_options(quality: int, luma: TableCurve = LUMA) -> dict[str, object]:
    """Return Pillow's encoder options for the tables of a quality, 1–100."""
    # At quality 50, libjpeg uses the tables unscaled.
    return {"quality": 50, "qtables": [list(table) for table in tables(quality, luma)]}
