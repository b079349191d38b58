"""Jobs are data that cannot ask for what no worker can do."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.formats import Format
from imagehost_core.geometry import ORIGIN, Plan, Size
from imagehost_core.jobs import LADDER_SIDES, IngestJob, RenderJob

PLAN = Plan(resize=Size(4, 3), crop=ORIGIN, pad=ORIGIN, output=Size(4, 3))


@given(st.none() | st.integers(1, 100))
def test_a_render_has_a_quality_from_1_to_100_or_none(quality: int | None) -> None:
    assert RenderJob(PLAN, Format.WEBP, quality).quality == quality


@pytest.mark.parametrize("quality", [0, 101, -1])
def test_another_quality_is_refused(quality: int) -> None:
    with pytest.raises(ValueError, match="expected 1 to 100 for quality but received"):
        RenderJob(PLAN, Format.WEBP, quality)


def test_the_reductions_are_made_from_the_largest_down() -> None:
    assert list(LADDER_SIDES) == sorted(LADDER_SIDES, reverse=True)
    assert IngestJob(Format.JPEG).ladder == LADDER_SIDES


def test_equal_jobs_are_equal_wherever_they_come_from() -> None:
    job = RenderJob(PLAN, Format.WEBP, 80)
    assert pickle.loads(pickle.dumps(job)) == job
    assert len({job, RenderJob(PLAN, Format.WEBP, 80), RenderJob(PLAN, Format.WEBP, 81)}) == 2
