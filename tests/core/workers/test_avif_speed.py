"""The speed of the AVIF encoder by the size of the variant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.formats import FORMATS, Format
from imagehost_core.workers.costs import AVIF_SPEED_FACTORS, MAX_AVIF_SECONDS, avif_speed

SPEEDS = st.integers(0, 10)
PIXELS = st.integers(1, 40_000_000)


@pytest.mark.parametrize(
    ("pixels", "preferred", "speed"),
    [(720 * 480, 4, 4), (40_000_000, 9, 9), (40_000_000, 10, 10), (40_000_000, 0, 9), (4_800_000, 6, 6)],
)
def test_a_variant_of_ordinary_size_is_encoded_at_the_preferred_speed(
    pixels: int, preferred: int, speed: int
) -> None:
    assert avif_speed(pixels, preferred) == speed


@given(pixels=PIXELS, preferred=SPEEDS)
def test_no_variant_is_expected_to_exceed_the_time_of_an_avif(pixels: int, preferred: int) -> None:
    speed = avif_speed(pixels, preferred)
    assert preferred <= speed <= 10
    assert pixels * FORMATS[Format.AVIF].encode_seconds * AVIF_SPEED_FACTORS[speed] / 1e6 <= MAX_AVIF_SECONDS


@given(pixels=PIXELS, more=PIXELS, preferred=SPEEDS)
def test_a_larger_variant_is_never_encoded_more_slowly(pixels: int, more: int, preferred: int) -> None:
    assert avif_speed(pixels + more, preferred) >= avif_speed(pixels, preferred)
