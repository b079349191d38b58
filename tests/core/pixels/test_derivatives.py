"""Derivatives take at most a quarter of the master's bytes, and show the whole image."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagehost_core.formats import Format
from imagehost_core.jobs import DERIVATIVE_SIDES
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.derivatives import BYTES_DIVISOR, OPAQUE_TIERS, PIXELS_DIVISOR, make_derivatives
from imagehost_core.transform import Size

LARGE_MASTER = 10**9


@settings(max_examples=15)
@given(st.integers(0, 60_000), st.sampled_from(["RGB", "RGBA"]))
def test_all_derivatives_together_have_at_most_a_quarter_of_the_masters_bytes(
    factory: Any, master: int, mode: str
) -> None:
    derivatives = make_derivatives(factory.photo(700, 500, mode=mode), (256, 128, 64), master).derivatives
    assert sum(len(blob) for _, blob in derivatives) * BYTES_DIVISOR <= master


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_derivatives_are_the_whole_image_largest_first(factory: Any, mode: str) -> None:
    image = factory.photo(1600, 900, mode=mode)
    derivatives = make_derivatives(image, DERIVATIVE_SIDES, LARGE_MASTER).derivatives
    assert [size for size, _ in derivatives] == [Size(512, 288)]
    derivatives = make_derivatives(image, (400, 200, 100), LARGE_MASTER).derivatives
    assert [size for size, _ in derivatives] == [Size(400, 225), Size(200, 113), Size(100, 56)]
    for size, blob in derivatives:
        assert factory.difference(factory.decode(blob), image.resize((size.width, size.height))) < 3


@given(st.integers(1, 400), st.integers(1, 400))
@settings(max_examples=30)
def test_a_derivative_has_at_most_a_third_of_the_pixels(factory: Any, width: int, height: int) -> None:
    for size, _ in make_derivatives(factory.photo(width, height), (100, 50, 20), LARGE_MASTER).derivatives:
        assert size.pixels * PIXELS_DIVISOR <= width * height


def test_with_a_smaller_budget_a_derivative_has_a_lower_quality_before_it_is_dropped(factory: Any) -> None:
    image, budget, sizes = factory.noise(600, 400), LARGE_MASTER, []
    while derivatives := make_derivatives(image, (200,), budget * BYTES_DIVISOR).derivatives:
        sizes.append(len(derivatives[0][1]))
        budget = sizes[-1] - 1
    assert len(sizes) == len(OPAQUE_TIERS)
    assert sizes == sorted(sizes, reverse=True)


def test_a_derivative_of_an_opaque_image_is_a_jpeg(factory: Any) -> None:
    ((_, blob),) = make_derivatives(factory.photo(400, 300), (100,), LARGE_MASTER).derivatives
    assert open_image(Format.JPEG, blob).size == (100, 75)


def test_another_derivative_is_preferred_over_a_better_one(factory: Any) -> None:
    image = factory.noise(1200, 800)
    ((_, alone),) = make_derivatives(image, (400,), LARGE_MASTER).derivatives
    derivatives = make_derivatives(image, (400, 200), len(alone) * BYTES_DIVISOR).derivatives
    assert [size.width for size, _ in derivatives] == [400, 200]


def test_the_smallest_downscaled_image_is_returned_for_the_placeholder(factory: Any) -> None:
    image = factory.photo(800, 600)
    assert make_derivatives(image, (400, 200, 100), LARGE_MASTER).smallest.size == (100, 75)
    no_budget = make_derivatives(image, (400, 200, 100), 0)
    assert (list(no_budget.derivatives), no_budget.smallest.size) == ([], (100, 75))
    assert make_derivatives(image, (), LARGE_MASTER).smallest is image
