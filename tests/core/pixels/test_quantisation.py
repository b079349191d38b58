"""JPEG variants are quantised with the tables of the requested quality."""

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
def test_divisors_fit_a_baseline_jpeg_and_increase_with_the_frequency(quality: int) -> None:
    for table in tables(quality):
        assert len(table) == 64
        assert all(1 <= divisor <= 255 for divisor in table)
        rows = [table[8 * row : 8 * row + 8] for row in range(8)]
        for row, column in zip(rows, zip(*rows, strict=True), strict=True):
            assert list(row) == sorted(row) == list(column)


def test_a_higher_quality_never_has_larger_divisors() -> None:
    for lower, higher in pairwise(range(1, 101)):
        for lower_table, higher_table in zip(tables(lower), tables(higher), strict=True):
            assert all(a >= b for a, b in zip(lower_table, higher_table, strict=True))


def test_quality_100_has_divisors_of_1() -> None:
    assert set(tables(100)[0] + tables(100)[1]) == {1}


@pytest.mark.parametrize("quality", [1, 30, 49, 50, 51, 80, 100])
def test_an_encoded_jpeg_has_exactly_these_tables(factory: Any, quality: int) -> None:
    image = factory.decode(encode(Format.JPEG, factory.noise(), quality))
    assert isinstance(image, JpegImagePlugin.JpegImageFile)
    assert tuple(tuple(image.quantization[index]) for index in range(2)) == tables(quality)


def test_quality_80_has_about_the_bytes_of_libjpeg(factory: Any) -> None:
    image = factory.photo(600, 400)
    image.paste(factory.noise(200, 150).resize((600, 400)), (0, 200))
    libjpeg_bytes = len(factory.encode(image, Format.JPEG, quality=80, optimize=True, progressive=True))
    assert 0.75 < len(encode(Format.JPEG, image, 80)) / libjpeg_bytes < 1.25
