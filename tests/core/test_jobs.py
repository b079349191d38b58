"""Jobs are validated values, and variants are rendered from the best derivative."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.formats import Format
from imagehost_core.jobs import DERIVATIVE_SIDES, PRIORITY_SIDE, IngestJob, RenderJob, pick_derivative
from imagehost_core.transform import ORIGIN, Plan, Size

PLAN = Plan(resize=Size(4, 3), crop=ORIGIN, pad=ORIGIN, output=Size(4, 3))


@given(st.none() | st.integers(1, 100))
def test_a_render_job_has_a_quality_from_1_to_100_or_none(quality: int | None) -> None:
    assert RenderJob(PLAN, Format.WEBP, quality).quality == quality


@pytest.mark.parametrize("quality", [0, 101, -1])
def test_a_quality_out_of_range_is_a_value_error(quality: int) -> None:
    with pytest.raises(ValueError, match="expected 1 to 100 for quality but received"):
        RenderJob(PLAN, Format.WEBP, quality)


def test_derivatives_are_made_in_descending_size() -> None:
    assert list(DERIVATIVE_SIDES) == sorted(DERIVATIVE_SIDES, reverse=True)
    assert IngestJob(Format.JPEG).derivative_sides == DERIVATIVE_SIDES


def test_jobs_are_hashable_values_that_can_be_pickled() -> None:
    job = RenderJob(PLAN, Format.WEBP, 80)
    assert pickle.loads(pickle.dumps(job)) == job
    assert len({job, RenderJob(PLAN, Format.WEBP, 80), RenderJob(PLAN, Format.WEBP, 81)}) == 2


SQUARES = st.sets(st.sampled_from([256, 512, 700, 1024, 1500, 2048]))


@given(SQUARES, st.integers(1, 3_000))
def test_the_derivative_of_twice_the_target_is_preferred_up_to_the_priority_side(
    sides: set[int], target: int
) -> None:
    picked = pick_derivative([Size(side, side) for side in sides], Size(target, target))
    preferred = {side for side in sides if side >= 2 * target and side <= PRIORITY_SIDE}
    sufficient = {side for side in sides if 4 * side >= 5 * target}
    expected = min(preferred or sufficient, default=None)
    assert picked == (None if expected is None else Size(expected, expected))


@pytest.mark.parametrize(
    ("target", "derivative"),
    [(256, 512), (257, 1024), (512, 1024), (513, 1024), (819, 1024), (820, 2048), (1638, 2048)],
)
def test_a_target_is_rendered_from_the_expected_default_derivative(target: int, derivative: int) -> None:
    assert pick_derivative([Size(side, side) for side in DERIVATIVE_SIDES], Size(target, target)) == Size(
        derivative, derivative
    )


@pytest.mark.parametrize("target", [Size(100, 410), Size(410, 100), Size(1639, 1)])
def test_a_derivative_must_be_large_enough_on_both_axes(target: Size) -> None:
    assert pick_derivative([Size(512, 2048), Size(2048, 512), Size(512, 512)], target) != Size(512, 512)
    assert pick_derivative([Size(512, 512)], target) is None
