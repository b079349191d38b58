"""Plans equal published cases, and have the properties of each fit for every size.

`data/fit_cases.json` has sizes published in the tests and documentation of sharp, weserv, imagor, imgix and
Cloudflare; `data/fit_cases_without_enlargement.json` has those of sharp 0.35.5 with `withoutEnlargement`.
"""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from imagehost_core.errors import BadRequestError
from imagehost_core.formats import FORMATS
from imagehost_core.transform import (
    MAX_OUTPUT_PIXELS,
    MAX_SIDE,
    ORIGIN,
    Fit,
    Plan,
    Point,
    Size,
    Transform,
    frame_step,
    keeps_size,
    parse_transform,
    plan,
)

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "fit_cases.json").read_text(encoding="utf-8"))
SHRINK_ONLY = json.loads((DATA / "fit_cases_without_enlargement.json").read_text(encoding="utf-8"))

SOURCES = st.builds(Size, st.integers(1, 16_384), st.integers(1, 16_384))
SMALL = st.builds(Size, st.integers(1, 60), st.integers(1, 60))
SIDES = st.integers(1, MAX_SIDE) | st.integers(1, 60)
BOXES = st.builds(Size, SIDES, SIDES).filter(lambda box: box.pixels <= MAX_OUTPUT_PIXELS)
TRANSFORMS = st.builds(Transform, width=st.none() | SIDES, height=st.none() | SIDES, fit=st.sampled_from(Fit))


def size(text: str) -> Size:
    width, height = text.split("x")
    return Size(int(width), int(height))


def plan_for(source: Size, box: Size, fit: Fit) -> Plan:
    return plan(source, Transform(box.width, box.height, fit=fit))


def resize_only(size: Size) -> Plan:
    """Return a plan without crop and padding."""
    return Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['source']} {case['query']}")
def test_the_output_is_as_published(case: dict[str, str]) -> None:
    assert plan(size(case["source"]), parse_transform(case["query"])).output == size(case["output"])


def test_the_published_cases_include_every_fit() -> None:
    assert {parse_transform(case["query"]).fit for case in CASES} == set(Fit)
    assert len(CASES) == 47


def test_without_enlargement_the_output_is_that_of_sharp() -> None:
    assert {parse_transform(case["query"]).fit for case in SHRINK_ONLY} == set(Fit)
    for case in SHRINK_ONLY:
        steps = plan(size(case["source"]), parse_transform(case["query"]), enlarge=False)
        assert steps.output == size(case["output"]), case


@given(SOURCES | SMALL, TRANSFORMS)
@example(Size(1, 10), Transform(2))
@example(Size(3, 2), Transform(3, 3, fit=Fit.OUTSIDE))
def test_without_enlargement_no_image_is_larger_than_it_is(source: Size, transform: Transform) -> None:
    try:
        enlarged, steps = plan(source, transform), plan(source, transform, enlarge=False)
    except BadRequestError:
        assume(False)
    assert steps.resize.width <= source.width
    assert steps.resize.height <= source.height
    assert transform.fit is Fit.CONTAIN or steps.output.width <= source.width
    assert transform.fit is Fit.CONTAIN or steps.output.height <= source.height
    if enlarged.resize.width <= source.width and enlarged.resize.height <= source.height:
        assert steps == enlarged


@given(SOURCES, TRANSFORMS, st.none() | st.sampled_from([info.max_side for info in FORMATS.values()]))
@example(Size(1, 10_000), Transform(8_000, 1), None)
@example(Size(16_384, 1), Transform(None, 8_192), None)
def test_a_plan_is_within_the_limits_or_a_bad_request(
    source: Size, transform: Transform, max_side: int | None
) -> None:
    try:
        output = plan(source, transform, max_side=max_side).output
    except BadRequestError as error:
        assert {field_error.name for field_error in error.errors} == {"the output"}  # noqa: PT017
    else:
        assert output.pixels <= MAX_OUTPUT_PIXELS
        assert max(output.width, output.height) <= (max_side or 8_192 * 16_384)


@given(SOURCES, st.integers(1, 10_000))
@example(Size(200, 200), 1_000)
@example(Size(200, 201), 1_000)
@example(Size(500, 500), 161)
def test_an_animation_has_the_most_frames_that_the_limit_allows(output: Size, frames: int) -> None:
    step = frame_step(output, frames)
    rendered = len(range(0, frames, step))
    assert output.pixels * rendered <= MAX_OUTPUT_PIXELS or rendered == 1
    assert step == 1 or output.pixels * len(range(0, frames, step - 1)) > MAX_OUTPUT_PIXELS


@given(st.builds(Size, SIDES, SIDES), TRANSFORMS)
def test_a_transform_that_keeps_the_size_changes_nothing(source: Size, transform: Transform) -> None:
    same = attrs.evolve(
        transform, width=transform.width and source.width, height=transform.height and source.height
    )
    assert keeps_size(source, same)
    assume(source.pixels <= MAX_OUTPUT_PIXELS)
    assert plan(source, same) == Plan.unchanged(source)
    if keeps_size(source, transform):
        assert plan(source, transform) == Plan.unchanged(source)


@given(SOURCES, TRANSFORMS)
def test_crop_and_padding_are_within_bounds_and_never_on_the_same_axis(
    source: Size, transform: Transform
) -> None:
    try:
        steps = plan(source, transform)
    except BadRequestError:
        assume(False)
    axes = (
        (steps.resize.width, steps.crop.left, steps.pad.left, steps.output.width),
        (steps.resize.height, steps.crop.top, steps.pad.top, steps.output.height),
    )
    for resized, crop, pad, output in axes:
        assert crop == 0 or crop + output <= resized
        assert pad == 0 or pad + resized <= output
        assert crop == 0 or pad == 0
        assert (crop > 0) <= (resized > output)
        assert (pad > 0) <= (resized < output)
    assert steps.padded is (
        steps.resize.width < steps.output.width or steps.resize.height < steps.output.height
    )


@given(SOURCES)
def test_without_width_and_height_nothing_is_resized(source: Size) -> None:
    assume(source.pixels <= MAX_OUTPUT_PIXELS)
    for fit in Fit:
        steps = plan(source, Transform(fit=fit))
        assert steps == resize_only(source)
        assert not steps.padded


@given(SOURCES, BOXES, st.sampled_from([Fit.COVER, Fit.CONTAIN, Fit.FILL]))
def test_cover_contain_and_fill_give_exactly_the_box(source: Size, box: Size, fit: Fit) -> None:
    assert plan_for(source, box, fit).output == box


@given(SOURCES | SMALL, BOXES)
def test_inside_fits_within_the_box_and_equals_one_side(source: Size, box: Size) -> None:
    output = plan_for(source, box, Fit.INSIDE).output
    assert output.width <= box.width
    assert output.height <= box.height
    assert output.width == box.width or output.height == box.height


@given(SOURCES | SMALL, BOXES)
def test_outside_covers_the_box_and_equals_one_side(source: Size, box: Size) -> None:
    try:
        output = plan_for(source, box, Fit.OUTSIDE).output
    except BadRequestError:
        assume(False)
    assert output.width >= box.width
    assert output.height >= box.height
    assert output.width == box.width or output.height == box.height


@given(SOURCES | SMALL, BOXES)
def test_cover_crops_the_size_of_outside_and_contain_pads_the_size_of_inside(source: Size, box: Size) -> None:
    assert plan_for(source, box, Fit.CONTAIN).resize == plan_for(source, box, Fit.INSIDE).output
    try:
        outside = plan_for(source, box, Fit.OUTSIDE).output
    except BadRequestError:
        assume(False)
    assert plan_for(source, box, Fit.COVER).resize == outside


@given(SOURCES | SMALL, SIDES, st.sampled_from([fit for fit in Fit if fit is not Fit.FILL]))
def test_one_side_keeps_the_aspect_ratio_to_half_a_pixel(source: Size, side: int, fit: Fit) -> None:
    try:
        by_width = plan(source, Transform(width=side, fit=fit)).output
        by_height = plan(source, Transform(height=side, fit=fit)).output
    except BadRequestError:
        assume(False)
    assert by_width.width == by_height.height == side
    assert (
        by_width.height == 1
        or abs(2 * (by_width.height * source.width - source.height * side)) <= source.width
    )
    assert (
        by_height.width == 1
        or abs(2 * (by_height.width * source.height - source.width * side)) <= source.height
    )


@given(SOURCES | SMALL, BOXES, st.sampled_from([Fit.INSIDE, Fit.OUTSIDE]))
def test_inside_and_outside_keep_the_aspect_ratio_to_a_pixel(source: Size, box: Size, fit: Fit) -> None:
    try:
        output = plan_for(source, box, fit).output
    except BadRequestError:
        assume(False)
    by_width, by_height = (
        output.width * source.height / source.width,
        output.height * source.width / source.height,
    )
    assert abs(by_width - output.height) <= 1 or abs(by_height - output.width) <= 1


@given(SOURCES, SIDES)
def test_fill_keeps_a_side_that_is_not_requested(source: Size, side: int) -> None:
    wide, high = Size(side, source.height), Size(source.width, side)
    assume(max(wide.pixels, high.pixels) <= MAX_OUTPUT_PIXELS)
    assert plan(source, Transform(width=side, fit=Fit.FILL)).output == wide
    assert plan(source, Transform(height=side, fit=Fit.FILL)).output == high


@given(SOURCES | SMALL, BOXES, st.sampled_from(Fit))
def test_a_transposed_source_gives_a_transposed_plan(source: Size, box: Size, fit: Fit) -> None:
    assume(source.width * box.height != source.height * box.width)
    try:
        upright = plan_for(source, box, fit)
    except BadRequestError:
        assume(False)
    transposed = plan_for(Size(source.height, source.width), Size(box.height, box.width), fit)
    assert transposed.resize == Size(upright.resize.height, upright.resize.width)
    assert transposed.output == Size(upright.output.height, upright.output.width)
    assert transposed.crop == Point(upright.crop.top, upright.crop.left)
    assert transposed.pad == Point(upright.pad.top, upright.pad.left)


@given(SOURCES | SMALL, st.integers(1, MAX_SIDE - 1))
def test_a_larger_width_never_gives_a_smaller_height(source: Size, width: int) -> None:
    try:
        narrow = plan(source, Transform(width=width)).output
        wide = plan(source, Transform(width=width + 1)).output
    except BadRequestError:
        assume(False)
    assert wide.height >= narrow.height


@given(SMALL, st.integers(1, 20), st.sampled_from(Fit))
def test_a_box_of_the_same_aspect_ratio_gives_the_same_plan_for_every_fit(
    source: Size, factor: int, fit: Fit
) -> None:
    box = Size(source.width * factor, source.height * factor)
    assert plan_for(source, box, fit) == resize_only(box)
    assert plan_for(source, source, fit) == resize_only(source)


@given(SOURCES, BOXES)
def test_a_crop_is_centred_and_an_odd_pixel_is_cropped_at_the_left_and_top(source: Size, box: Size) -> None:
    steps = plan_for(source, box, Fit.COVER)
    right = steps.resize.width - box.width - steps.crop.left
    bottom = steps.resize.height - box.height - steps.crop.top
    assert steps.crop.left - right in {0, 1}
    assert steps.crop.top - bottom in {0, 1}


@given(SOURCES, BOXES)
def test_padding_is_centred_and_an_odd_pixel_is_added_at_the_right_and_bottom(
    source: Size, box: Size
) -> None:
    steps = plan_for(source, box, Fit.CONTAIN)
    right = box.width - steps.resize.width - steps.pad.left
    bottom = box.height - steps.resize.height - steps.pad.top
    assert right - steps.pad.left in {0, 1}
    assert bottom - steps.pad.top in {0, 1}


@pytest.mark.parametrize(
    ("source", "query", "output"),
    [
        ("1000x667", "w=500", "500x334"),
        ("4x1", "w=2", "2x1"),
        ("1x4", "h=2", "1x2"),
        ("2x3", "w=1", "1x2"),
        ("10x15", "h=201", "134x201"),
        ("26x91", "w=87", "87x305"),
        ("49x14", "h=29", "102x29"),
    ],
)
def test_an_exact_half_is_rounded_up(source: str, query: str, output: str) -> None:
    assert plan(size(source), parse_transform(query)).output == size(output)


def test_an_output_has_at_most_40_million_pixels() -> None:
    assert plan(Size(1, 1), Transform(8_000, 5_000)).output.pixels == MAX_OUTPUT_PIXELS == 40_000_000
    with pytest.raises(BadRequestError) as caught:
        plan(Size(1, 1), Transform(8_000, 5_001))
    assert caught.value.details == (
        "expected at most 40,000,000 pixels for the output but received 8000×5001"
    )


def test_the_limit_on_pixels_applies_without_a_resize() -> None:
    with pytest.raises(BadRequestError):
        plan(Size(8_000, 5_001), Transform())


def test_a_side_is_at_most_the_maximum_of_the_format() -> None:
    assert plan(Size(1, 16_383), Transform(), max_side=16_383).output.height == 16_383
    with pytest.raises(BadRequestError) as caught:
        plan(Size(1, 16_384), Transform(), max_side=16_383)
    assert caught.value.details == (
        "expected sides of at most 16,383 pixels in this format for the output but received 1×16384"
    )
    with pytest.raises(BadRequestError):
        plan(Size(16_384, 1), Transform(), max_side=16_383)


def test_both_limits_are_reported_together() -> None:
    with pytest.raises(BadRequestError) as caught:
        plan(Size(16_384, 16_384), Transform(), max_side=16_383)
    assert len(caught.value.errors) == 2


@pytest.mark.parametrize("values", [(0, 1), (1, 0), (-1, 1), (1, -5)])
def test_a_side_has_at_least_one_pixel(values: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=">= 1"):
        Size(*values)


@pytest.mark.parametrize("values", [(-1, 0), (0, -1)])
def test_a_point_has_no_negative_coordinates(values: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=">= 0"):
        Point(*values)


@pytest.mark.parametrize("value", [1.0, "1", None])
def test_sizes_and_points_have_integer_values(value: object) -> None:
    for kind in (Size, Point):
        with pytest.raises(TypeError):
            kind(value, 1)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            kind(1, value)  # type: ignore[arg-type]


def test_a_size_is_formatted_as_width_by_height() -> None:
    assert str(Size(3, 2)) == "3×2"
    assert Size(3, 2).pixels == 6


def test_only_contain_with_another_aspect_ratio_pads() -> None:
    assert plan_for(Size(4, 2), Size(4, 4), Fit.CONTAIN).padded
    assert not plan_for(Size(4, 4), Size(4, 4), Fit.CONTAIN).padded
    assert not plan_for(Size(4, 6), Size(4, 4), Fit.COVER).padded
