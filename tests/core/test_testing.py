"""The test helpers that the package ships."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as PillowImage

from imagehost_core import Settings
from imagehost_core.settings import DeliverySettings
from imagehost_core.testing import DEFAULT_NOW, FrozenClock, make_image, memory_host


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 9))
def test_a_generated_image_is_a_deterministic_png(width: int, height: int, seed: int) -> None:
    data = make_image(width, height, seed=seed)
    assert data == make_image(width, height, seed=seed)
    decoded = PillowImage.open(io.BytesIO(data))
    decoded.load()
    assert (decoded.format, decoded.mode, decoded.size) == ("PNG", "RGB", (width, height))


def test_another_seed_generates_another_image() -> None:
    assert len({make_image(9, 9, seed=seed) for seed in range(4)}) == 4


@pytest.mark.parametrize("size", [(0, 1), (1, 0), (-1, 5)])
def test_an_image_without_pixels_raises_value_error(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=">= 1"):
        make_image(*size)


def test_a_frozen_clock_changes_only_when_set_or_advanced() -> None:
    clock = FrozenClock()
    assert clock() == clock() == DEFAULT_NOW == datetime(2026, 1, 1, tzinfo=UTC)
    clock.advance(days=1, seconds=2.5)
    assert clock() == DEFAULT_NOW + timedelta(days=1, seconds=2.5)
    clock.now = DEFAULT_NOW
    assert clock() == DEFAULT_NOW


def test_a_memory_host_works_and_removes_its_directory() -> None:
    with memory_host() as host:
        image = host.upload(make_image(), owner="admin", filename="cat.png")
        assert host.render(image.id, "w=100").width == 100
        root = host.path
        assert root.is_dir()
    assert not root.exists()


def test_a_memory_host_accepts_settings() -> None:
    with memory_host(Settings(delivery=DeliverySettings(max_age_seconds=7))) as host:
        assert host.settings.delivery.max_age_seconds == 7
