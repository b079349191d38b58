"""How the orientation is read from EXIF, sound or hostile."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.headers.exif import orientation
from imagehost_core.headers.reader import HeaderReader

ORDERS = {"<": b"II*\0", ">": b"MM\0*"}
ENTRY = (0x0112, 3, 1)


def tiff(
    *entries: tuple[int, int, int, bytes], order: str = ">", count: int | None = None, gap: int = 0
) -> bytes:
    directory = struct.pack(f"{order}H", len(entries) if count is None else count)
    for tag, kind, values, raw in entries:
        directory += struct.pack(f"{order}HHI4s", tag, kind, values, raw)
    return ORDERS[order] + struct.pack(f"{order}I", 8 + gap) + bytes(gap) + directory


def short(value: int, order: str = ">") -> bytes:
    return struct.pack(f"{order}HH", value, 0)


def read(data: bytes, before: bytes = b"", after: bytes = b"") -> int:
    whole = before + data + after
    return orientation(HeaderReader(io.BytesIO(whole), len(whole)), (len(before), len(before) + len(data)))


@pytest.mark.parametrize("order", ["<", ">"])
@given(value=st.integers(0, 65_535), gap=st.integers(0, 9), before=st.binary(max_size=9))
@example(value=0, gap=0, before=b"")
@example(value=9, gap=0, before=b"")
def test_both_byte_orders_tell_1_to_8_and_anything_else_is_upright(
    order: str, value: int, gap: int, before: bytes
) -> None:
    data = tiff((0x010F, 2, 9, b"abcd"), (*ENTRY, short(value, order)), order=order, gap=gap)
    assert read(data, before) == (value if 1 <= value <= 8 else 1)
    assert read(b"Exif\0\0" + data, before) == (value if 1 <= value <= 8 else 1)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_long_integer_is_taken_as_well(order: str) -> None:
    assert read(tiff((0x0112, 4, 1, struct.pack(f"{order}I", 7)), order=order)) == 7


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"MM",
        b"MM\0+" + tiff((*ENTRY, short(6)))[4:],
        b"JUNK" + tiff((*ENTRY, short(6)))[4:],
        b"MM\0*\xff\xff\xff\xff" + tiff((*ENTRY, short(6)))[8:],
        tiff((*ENTRY, short(6)))[:-1],
        tiff((*ENTRY, short(6)))[:9],
        tiff((0x0112, 2, 1, short(6))),
        tiff((0x0112, 3, 2, short(6))),
        tiff((0x0113, 3, 1, short(6))),
        tiff((*ENTRY, short(6)), count=0),
    ],
)
def test_exif_that_makes_no_sense_is_upright(data: bytes) -> None:
    assert read(data) == 1


def test_no_exif_is_upright() -> None:
    assert orientation(HeaderReader(io.BytesIO(b""), 0), None) == 1


def test_entries_beyond_the_end_of_exif_are_not_read() -> None:
    data = tiff((0x010F, 2, 9, b"abcd"), (*ENTRY, short(6)))
    assert read(data[:-12], after=data[-12:]) == 1
    assert read(tiff(count=1), after=struct.pack(">HHI4s", *ENTRY, short(6))) == 1


def test_a_count_larger_than_the_entries_is_no_obstacle() -> None:
    assert read(tiff((*ENTRY, short(6)), count=65_535)) == 6


def test_the_first_of_two_orientations_counts() -> None:
    assert read(tiff((*ENTRY, short(3)), (*ENTRY, short(6)))) == 3


def test_a_directory_larger_than_a_page_is_read_whole() -> None:
    filler = [(0x010F, 2, 9, b"abcd")] * 40_000
    assert read(tiff(*filler, (*ENTRY, short(8)))) == 8


@given(data=st.binary(max_size=60), order=st.sampled_from(["<", ">"]))
def test_arbitrary_bytes_tell_1_to_8(data: bytes, order: str) -> None:
    assert 1 <= read(data) <= 8
    assert 1 <= read(ORDERS[order] + data) <= 8
