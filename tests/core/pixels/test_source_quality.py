"""The default quality of a master is about that of the upload, within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, JpegImagePlugin

from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob
from imagehost_core.pixels.decoded_upload import MAX_QUALITY, MIN_QUALITY, match_source_quality
from imagehost_core.pixels.ingest import ingest


@pytest.mark.parametrize("quality", range(1, 101, 3))
def test_the_quality_of_a_jpeg_is_estimated_from_its_quantisation_table(factory: Any, quality: int) -> None:
    image = factory.decode(factory.encode(Image.new("RGB", (8, 8)), Format.JPEG, quality=quality))
    assert isinstance(image, JpegImagePlugin.JpegImageFile)
    expected = min(MAX_QUALITY, max(MIN_QUALITY, quality))
    assert abs(match_source_quality(image.quantization[0]) - expected) <= 1


@given(st.lists(st.integers(0, 65_535), max_size=64))
def test_any_table_gives_a_quality_within_the_bounds(table: list[int]) -> None:
    assert MIN_QUALITY <= match_source_quality(table) <= MAX_QUALITY


def test_a_lossless_upload_gets_the_maximum_quality() -> None:
    assert match_source_quality(None) == MAX_QUALITY


def test_an_upload_of_higher_quality_gets_a_master_of_higher_quality(factory: Any) -> None:
    sizes = {}
    for quality in (60, 95):
        data = factory.encode(factory.photo(), Format.JPEG, quality=quality)
        for requested in (None, 70):
            job = IngestJob(Format.JPEG, requested_format=Format.WEBP, quality=requested)
            sizes[quality, requested] = len(ingest(job, data)[1][0])
    assert sizes[95, None] > sizes[60, None]
    assert sizes[95, 70] < sizes[60, None]
