"""The rungs stay within a quarter of the master, and are the picture, only smaller."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagehost_core.formats import Format
from imagehost_core.jobs import DERIVATIVE_SIDES
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.derivatives import BYTES_SHARE, OPAQUE_TIERS, PIXELS_SHARE, make_derivatives
from imagehost_core.transform.geometry import Size

PLENTY = 10**9


@settings(max_examples=15)
@given(st.integers(0, 60_000), st.sampled_from(["RGB", "RGBA"]))
def test_all_rungs_together_have_at_most_a_quarter_of_the_masters_bytes(
    studio: Any, master: int, mode: str
) -> None:
    ladder = make_derivatives(studio.photo(700, 500, mode=mode), (256, 128, 64), master).derivatives
    assert sum(len(blob) for _, blob in ladder) * BYTES_SHARE <= master


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_rungs_are_the_whole_picture_largest_first(studio: Any, mode: str) -> None:
    image = studio.photo(1600, 900, mode=mode)
    ladder = make_derivatives(image, DERIVATIVE_SIDES, PLENTY).derivatives
    assert [size for size, _ in ladder] == [Size(512, 288)]
    ladder = make_derivatives(image, (400, 200, 100), PLENTY).derivatives
    assert [size for size, _ in ladder] == [Size(400, 225), Size(200, 113), Size(100, 56)]
    for size, blob in ladder:
        assert studio.difference(studio.opened(blob), image.resize((size.width, size.height))) < 3


@given(st.integers(1, 400), st.integers(1, 400))
@settings(max_examples=30)
def test_a_rung_is_clearly_smaller_than_the_picture(studio: Any, width: int, height: int) -> None:
    for size, _ in make_derivatives(studio.photo(width, height), (100, 50, 20), PLENTY).derivatives:
        assert size.pixels * PIXELS_SHARE <= width * height


def test_with_less_room_a_rung_is_leaner_before_it_is_left_out(studio: Any) -> None:
    image, room, sizes = studio.noise(600, 400), PLENTY, []
    while ladder := make_derivatives(image, (200,), room * BYTES_SHARE).derivatives:
        sizes.append(len(ladder[0][1]))
        room = sizes[-1] - 1
    assert len(sizes) == len(OPAQUE_TIERS)
    assert sizes == sorted(sizes, reverse=True)


def test_a_rung_of_an_opaque_picture_with_room_decodes_quickly_as_a_jpeg(studio: Any) -> None:
    ((_, blob),) = make_derivatives(studio.photo(400, 300), (100,), PLENTY).derivatives
    assert open_image(Format.JPEG, blob).size == (100, 75)


def test_a_further_rung_is_worth_more_than_a_better_one(studio: Any) -> None:
    image = studio.noise(1200, 800)
    ((_, alone),) = make_derivatives(image, (400,), PLENTY).derivatives
    ladder = make_derivatives(image, (400, 200), len(alone) * BYTES_SHARE).derivatives
    assert [size.width for size, _ in ladder] == [400, 200]


def test_the_placeholder_may_be_made_of_the_least_reduction(studio: Any) -> None:
    image = studio.photo(800, 600)
    assert make_derivatives(image, (400, 200, 100), PLENTY).smallest.size == (100, 75)
    without_room = make_derivatives(image, (400, 200, 100), 0)
    assert (list(without_room.derivatives), without_room.smallest.size) == ([], (100, 75))
    assert make_derivatives(image, (), PLENTY).smallest is image
