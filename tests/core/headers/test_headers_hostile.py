"""Files that would cost a scanner or a decoder much time, and the bound that rejects each."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile_files import ACCEPTED, HOSTILE_FILES

from imagehost_core.errors import ValidationError
from imagehost_core.headers import gif, jpeg
from imagehost_core.headers.scanner import scan

SIZE = 5_000_000
"""Large enough for all bounds; `bench/hostile.py` measures the same files with 50 MB."""


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_file_of_tiny_parts_is_rejected_by_a_bound_or_accepted(name: str) -> None:
    generate, expected = HOSTILE_FILES[name]
    data = generate(SIZE)
    if expected == ACCEPTED:
        assert scan(io.BytesIO(data), len(data)).end_offset <= len(data)
        return
    with pytest.raises(ValidationError) as caught:
        scan(io.BytesIO(data), len(data))
    assert re.search(expected, caught.value.details)


@given(padding=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2 * jpeg.MAX_PADDING_BYTES)), max_size=4))
def test_padding_of_a_jpeg_is_accepted_up_to_its_bound_wherever_it_is(
    images: dict[str, bytes], padding: list[tuple[int, int]]
) -> None:
    data = images["baseline.jpg"]
    for place, count in padding:
        # Found again, as the padding before it has moved it.
        offset = (2, data.index(b"\xff\xda"), len(data) - 2)[place]
        data = data[:offset] + b"\xff" * count + data[offset:]
    total = sum(count for _, count in padding)
    if total <= jpeg.MAX_PADDING_BYTES:
        assert scan(io.BytesIO(data), len(data)).end_offset == len(data)
    else:
        with pytest.raises(ValidationError, match="between the segments"):
            scan(io.BytesIO(data), len(data))


@given(count=st.integers(0, 2 * gif.MAX_PADDING_BYTES), is_after=st.booleans())
def test_padding_of_a_gif_is_accepted_up_to_its_bound(
    images: dict[str, bytes], count: int, is_after: bool
) -> None:
    data = images["still.gif"]
    offset = len(data) - 1 if is_after else 13 + (3 << (data[10] & 7) + 1 if data[10] & 0x80 else 0)
    data = data[:offset] + bytes(count) + data[offset:]
    if count <= gif.MAX_PADDING_BYTES:
        assert scan(io.BytesIO(data), len(data)).end_offset == len(data)
    else:
        with pytest.raises(ValidationError, match="between the blocks"):
            scan(io.BytesIO(data), len(data))


def test_data_after_a_gif_without_trailer_is_not_padding(images: dict[str, bytes]) -> None:
    data = images["still.gif"][:-1]
    assert scan(io.BytesIO(data + bytes(10**6)), len(data) + 10**6).end_offset == len(data)
