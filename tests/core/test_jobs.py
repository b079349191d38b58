"""Jobs are validated values, and variants are rendered from the best derivative."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.formats import Format
from imagehost_core.jobs import (
    COPY_QUALITY,
    MAX_DERIVATIVE_PIXELS,
    MAX_PREFERRED_SIDE,
    MIN_COPY_PIXELS,
    MIN_DERIVATIVE_SIDE,
    MIN_SAVED_PIXELS,
    RenderJob,
    derivative_sizes,
    pick_derivative,
    pick_source,
)
from imagehost_core.transform import ORIGIN, Fit, Plan, Size, Transform, plan

PLAN = Plan(resize=Size(4, 3), crop=ORIGIN, pad=ORIGIN, output=Size(4, 3))


@given(st.none() | st.integers(1, 100))
def test_a_render_job_has_a_quality_from_1_to_100_or_none(quality: int | None) -> None:
    assert RenderJob(PLAN, Format.WEBP, quality).quality == quality


@pytest.mark.parametrize("quality", [0, 101, -1])
def test_a_quality_out_of_range_is_a_value_error(quality: int) -> None:
    with pytest.raises(ValueError, match="quality"):
        RenderJob(PLAN, Format.WEBP, quality)


SIZES = st.builds(Size, st.integers(1, 12_000), st.integers(1, 12_000))
PHOTOGRAPHS = st.builds(Size, st.integers(1_500, 8_000), st.integers(1_500, 8_000)).filter(
    lambda size: 9 * size.height <= 16 * size.width and 9 * size.width <= 16 * size.height
)


@given(SIZES)
def test_derivatives_are_copies_of_the_image_largest_first(size: Size) -> None:
    sizes = derivative_sizes(size)
    assert len(sizes) <= 3
    assert list(sizes) == sorted(sizes, key=lambda derivative: derivative.width, reverse=True)
    for derivative in sizes:
        saved = size.pixels - derivative.pixels
        assert saved >= (MIN_SAVED_PIXELS if size.pixels < MIN_COPY_PIXELS else 0)
        assert max(derivative.width, derivative.height) >= MIN_DERIVATIVE_SIDE
        assert derivative.pixels <= MAX_DERIVATIVE_PIXELS + derivative.width
        assert derivative == plan(size, Transform(derivative.width)).resize


@given(PHOTOGRAPHS, st.integers(640, 2560))
def test_no_wide_variant_starts_from_more_than_two_and_a_half_times_its_width(size: Size, width: int) -> None:
    source = pick_derivative(derivative_sizes(size), plan(size, Transform(width)).resize, size) or size
    assert source.width <= 2.5 * width


@given(PHOTOGRAPHS, st.integers(640, 2560))
def test_a_wide_variant_starts_from_the_master_only_with_less_than_two_and_a_half_times_its_pixels(
    size: Size, width: int
) -> None:
    target = plan(size, Transform(width)).resize
    if pick_derivative(derivative_sizes(size), target, size) is None:
        assert size.pixels < 2.5 * target.pixels


@given(st.integers(2_560, 8_000), st.floats(2 / 3, 16 / 9), st.integers(640, 2_560), st.integers(640, 1_920))
@example(6_000, 16 / 9, 2_560, 1_920)
@example(6_000, 2 / 3, 2_560, 1_920)
def test_no_width_to_2560_and_no_crop_to_a_height_of_1920_starts_from_the_master(
    side: int, ratio: float, width: int, height: int
) -> None:
    size = Size(side, round(side / ratio))
    for transform in (Transform(width), Transform(min(1_600, size.width), height, fit=Fit.COVER)):
        target = plan(size, transform).resize
        if target.width < size.width:
            assert pick_derivative(derivative_sizes(size), target, size) is not None


@pytest.mark.parametrize(
    ("size", "widths"),
    [
        (Size(4032, 3024), [2933, 2199, 1099]),
        (Size(2048, 1536), [2048, 1536, 768]),
        (Size(2272, 1704), [2272, 1704, 852]),
        (Size(2448, 3264), [2448, 1836, 918]),
        (Size(3264, 4928), [2930, 2197, 1098]),
        (Size(5000, 7000), [2930, 2197, 1098]),
        (Size(3504, 2336), [3300, 2200, 1100]),
        (Size(6000, 3375), [3911, 2200, 1100]),
        (Size(1600, 1200), [1280, 640]),
        (Size(1000, 700), [400]),
        (Size(640, 480), []),
        (Size(1, 12_000), []),
    ],
)
def test_an_image_has_derivatives_of_the_expected_widths(size: Size, widths: list[int]) -> None:
    assert [derivative.width for derivative in derivative_sizes(size)] == widths


def test_jobs_are_hashable_values_that_can_be_pickled() -> None:
    job = RenderJob(PLAN, Format.WEBP, 80)
    assert pickle.loads(pickle.dumps(job)) == job
    assert len({job, RenderJob(PLAN, Format.WEBP, 80), RenderJob(PLAN, Format.WEBP, 81)}) == 2


SQUARES = st.sets(st.sampled_from([256, 512, 700, 1024, 1500, 2048]))


@given(SQUARES, st.integers(1, 3_000))
def test_the_derivative_of_twice_the_target_is_preferred_up_to_its_maximum_side(
    sides: set[int], target: int
) -> None:
    picked = pick_derivative([Size(side, side) for side in sides], Size(target, target), Size(4_000, 4_000))
    preferred = {side for side in sides if side >= 2 * target and side <= MAX_PREFERRED_SIDE}
    sufficient = {side for side in sides if 7 * side >= 8 * target}
    expected = min(preferred or sufficient, default=None)
    assert picked == (None if expected is None else Size(expected, expected))


@pytest.mark.parametrize(
    ("width", "derivative"),
    [
        (100, 1099),
        (549, 1099),
        (961, 1099),
        (962, 2199),
        (1923, 2199),
        (1924, 2933),
        (2560, 2933),
        (2567, None),
    ],
)
def test_a_variant_is_rendered_from_the_expected_default_derivative(
    width: int, derivative: int | None
) -> None:
    size = Size(4032, 3024)
    picked = pick_derivative(derivative_sizes(size), plan(size, Transform(width)).resize, size)
    assert (picked and picked.width) == derivative


@pytest.mark.parametrize("target", [Size(100, 449), Size(449, 100), Size(1793, 1)])
def test_a_derivative_must_be_large_enough_on_both_axes(target: Size) -> None:
    image = Size(4_000, 4_000)
    sizes = [Size(512, 2048), Size(2048, 512), Size(512, 512)]
    assert pick_derivative(sizes, target, image) != Size(512, 512)
    assert pick_derivative([Size(512, 512)], target, image) is None


COPIED = st.builds(Size, st.integers(1_500, 2_200), st.integers(1_500, 2_200))
"""The sizes of images that have a copy in their own size."""


@given(
    COPIED,
    st.integers(1, 2_300),
    st.sampled_from([Format.JPEG, Format.WEBP, Format.AVIF]),
    st.integers(1, 100),
)
def test_no_smaller_variant_of_an_image_with_a_copy_starts_from_the_master(
    size: Size, width: int, fmt: Format, quality: int
) -> None:
    steps = plan(size, Transform(width))
    picked = pick_source(derivative_sizes(size), RenderJob(steps, fmt, quality), size)
    if width < size.width and steps.resize != size:
        assert picked is not None
    elif width == size.width:
        assert picked == (size if fmt is Format.JPEG and quality <= COPY_QUALITY else None)
    elif width > size.width:
        assert picked is None


@given(COPIED, st.integers(1, 3_000), st.integers(1, 3_000))
def test_a_copy_must_be_as_large_as_the_variant_on_both_axes(size: Size, width: int, height: int) -> None:
    picked = pick_derivative([size], Size(width, height), size)
    assert (picked == size) == (width <= size.width and height <= size.height and Size(width, height) != size)
