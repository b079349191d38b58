"""What is shipped for other programs' tests: pictures, a clock, a fleeting host."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Picture

from imagehost_core import Settings
from imagehost_core.settings import DeliverySettings
from imagehost_core.testing import DEFAULT_NOW, FrozenClock, make_image, memory_host


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 9))
def test_a_made_picture_is_a_png_of_that_size_and_always_the_same(width: int, height: int, seed: int) -> None:
    data = make_image(width, height, seed=seed)
    assert data == make_image(width, height, seed=seed)
    picture = Picture.open(io.BytesIO(data))
    picture.load()
    assert (picture.format, picture.mode, picture.size) == ("PNG", "RGB", (width, height))


def test_another_seed_makes_another_picture() -> None:
    assert len({make_image(9, 9, seed=seed) for seed in range(4)}) == 4


@pytest.mark.parametrize("size", [(0, 1), (1, 0), (-1, 5)])
def test_a_picture_without_pixels_cannot_be_made(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=">= 1"):
        make_image(*size)


def test_a_frozen_clock_stands_still_until_it_is_moved() -> None:
    clock = FrozenClock()
    assert clock() == clock() == DEFAULT_NOW == datetime(2026, 1, 1, tzinfo=UTC)
    clock.advance(days=1, seconds=2.5)
    assert clock() == DEFAULT_NOW + timedelta(days=1, seconds=2.5)
    clock.now = DEFAULT_NOW
    assert clock() == DEFAULT_NOW


def test_a_fleeting_host_works_like_any_other_and_vanishes() -> None:
    with memory_host() as host:
        image = host.upload(make_image(), owner="admin", filename="cat.png")
        assert host.render(image.id, "w=100").width == 100
        root = host.path
        assert root.is_dir()
    assert not root.exists()


def test_a_fleeting_host_takes_settings() -> None:
    with memory_host(Settings(delivery=DeliverySettings(max_age_seconds=7))) as host:
        assert host.settings.delivery.max_age_seconds == 7
