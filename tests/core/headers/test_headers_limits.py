"""Tests of the limits of source images."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import ValidationError
from imagehost_core.formats import Format
from imagehost_core.headers.header import DEFAULT_LIMITS, ImageHeader, SourceLimits, require_within_limits

SMALL: dict[str, Any] = {"format": Format.PNG, "width": 1, "height": 1, "end_offset": 99}


def exceeded(limits: SourceLimits, **properties: Any) -> list[str]:
    try:
        require_within_limits(ImageHeader(**SMALL | properties), limits)
    except ValidationError as error:
        return [str(item) for item in error.errors]
    return []


def test_the_default_limits_are_those_of_the_documentation() -> None:
    assert (
        SourceLimits(
            frame_pixels=100_000_000,
            total_pixels=150_000_000,
            frames=1_000,
            side=65_535,
            animation_side=16_384,
            jpeg_scans=100,
        )
        == DEFAULT_LIMITS
    )


@pytest.mark.parametrize(
    ("within", "over", "message"),
    [
        (
            {"format": Format.JPEG, "width": 65_500},
            {"format": Format.JPEG, "width": 65_501},
            "65,500 pixels of width for image but received 65,501",
        ),
        (
            {"format": Format.PNG, "height": 65_535},
            {"format": Format.PNG, "height": 65_536},
            "65,535 pixels of height for image but received 65,536",
        ),
        (
            {"format": Format.WEBP, "height": 16_383},
            {"format": Format.WEBP, "height": 16_384},
            "16,383 pixels of height for image but received 16,384",
        ),
        (
            {"format": Format.GIF, "width": 16_384, "frames": 2},
            {"format": Format.GIF, "width": 16_385, "frames": 2},
            "16,384 pixels of width for image but received 16,385",
        ),
        (
            {"width": 10_000, "height": 10_000},
            {"width": 10_000, "height": 10_001},
            "100,000,000 pixels a frame for image but received 100,010,000",
        ),
        ({"frames": 1_000}, {"frames": 1_001}, "1,000 frames for image but received 1,001"),
        (
            {"width": 10_000, "height": 5_000, "frames": 3},
            {"width": 10_000, "height": 5_001, "frames": 3},
            "150,000,000 pixels over all frames for image but received 150,030,000",
        ),
        ({"scans": 100}, {"scans": 101}, "100 JPEG scans for image but received 101"),
    ],
)
def test_each_limit_accepts_its_value_and_rejects_one_more(
    within: dict[str, int], over: dict[str, int], message: str
) -> None:
    assert exceeded(DEFAULT_LIMITS, **within) == []
    assert exceeded(DEFAULT_LIMITS, **over) == [f"expected at most {message}"]


def test_all_exceeded_limits_are_reported_together() -> None:
    limits = SourceLimits(frame_pixels=1, total_pixels=1, frames=1, side=1, jpeg_scans=1)
    assert len(exceeded(limits, width=2, height=2, frames=2, scans=2)) == 6


@given(side=st.integers(1, 50), width=st.integers(1, 99), height=st.integers(1, 99), frames=st.integers(1, 9))
def test_an_image_is_accepted_exactly_if_it_is_within_every_limit(
    side: int, width: int, height: int, frames: int
) -> None:
    limits = SourceLimits(side=side, frame_pixels=1_000, total_pixels=4_000)
    within = max(width, height) <= side and width * height <= 1_000 and width * height * frames <= 4_000
    assert (exceeded(limits, width=width, height=height, frames=frames) == []) is within


@pytest.mark.parametrize("invalid", [0, -1, 1.5, "9"])
@pytest.mark.parametrize("name", ["frame_pixels", "total_pixels", "frames", "side", "jpeg_scans"])
def test_a_limit_is_a_positive_integer(name: str, invalid: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        SourceLimits(**{name: invalid})
