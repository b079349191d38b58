"""Our JPEGs are quantised by our own tables, at the quality that was asked for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import JpegImagePlugin

from imagehost_core.formats import Format
from imagehost_core.pixels.encode import encode
from imagehost_core.pixels.quantisation import tables

QUALITIES = st.integers(1, 100)


@given(QUALITIES)
def test_divisors_are_those_of_a_baseline_jpeg_and_grow_towards_fine_detail(quality: int) -> None:
    for table in tables(quality):
        assert len(table) == 64
        assert all(1 <= divisor <= 255 for divisor in table)
        rows = [table[8 * row : 8 * row + 8] for row in range(8)]
        for row, column in zip(rows, zip(*rows, strict=True), strict=True):
            assert list(row) == sorted(row) == list(column)


def test_a_better_quality_never_divides_by_more() -> None:
    for worse, better in pairwise(range(1, 101)):
        for less, more in zip(tables(worse), tables(better), strict=True):
            assert all(before >= after for before, after in zip(less, more, strict=True))


def test_the_best_quality_divides_by_nothing() -> None:
    assert set(tables(100)[0] + tables(100)[1]) == {1}


@pytest.mark.parametrize("quality", [1, 30, 49, 50, 51, 80, 100])
def test_a_file_has_exactly_these_tables(studio: Any, quality: int) -> None:
    image = studio.opened(encode(Format.JPEG, studio.noise(), quality))
    assert isinstance(image, JpegImagePlugin.JpegImageFile)
    assert tuple(tuple(image.quantization[index]) for index in range(2)) == tables(quality)


def test_quality_80_takes_about_the_bytes_that_libjpeg_takes(studio: Any) -> None:
    image = studio.photo(600, 400)
    image.paste(studio.noise(200, 150).resize((600, 400)), (0, 200))
    theirs = len(studio.file(image, Format.JPEG, quality=80, optimize=True, progressive=True))
    assert 0.75 < len(encode(Format.JPEG, image, 80)) / theirs < 1.25
