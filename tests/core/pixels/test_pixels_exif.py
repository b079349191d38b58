"""The orientation is found in any EXIF, changed in place, and never trips over what is broken."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.pixels.exif import PREFIX, read_orientation, reset_orientation

ORIENTATIONS = st.integers(1, 8)


def tiff(orientation: int, order: str = "<", before: int = 0) -> bytes:
    """Return EXIF with some entries before the orientation."""
    entries = [struct.pack(f"{order}HHII", 0x0100 + n, 4, 1, n) for n in range(before)]
    entries.append(struct.pack(f"{order}HHIHH", 0x0112, 3, 1, orientation, 0))
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}IH", 8, len(entries))
    return head + b"".join(entries) + b"\0\0\0\0"


@given(ORIENTATIONS, st.sampled_from("<>"), st.integers(0, 5), st.booleans())
def test_the_orientation_is_read_in_both_byte_orders_with_and_without_the_prefix(
    orientation: int, order: str, before: int, prefixed: bool
) -> None:
    assert read_orientation(PREFIX * prefixed + tiff(orientation, order, before)) == orientation


@given(ORIENTATIONS, st.sampled_from("<>"), st.integers(0, 5), st.booleans())
def test_setting_it_upright_changes_the_two_bytes_of_its_value_and_no_other(
    orientation: int, order: str, before: int, prefixed: bool
) -> None:
    exif = PREFIX * prefixed + tiff(orientation, order, before)
    upright = reset_orientation(exif)
    assert read_orientation(upright) == 1
    assert len(upright) == len(exif)
    assert sum(a != b for a, b in zip(exif, upright, strict=True)) == (orientation != 1)


@given(st.integers(0, 65_535).filter(lambda value: not 1 <= value <= 8))
def test_a_value_outside_1_to_8_means_upright(value: int) -> None:
    assert read_orientation(tiff(value)) == 1


@given(st.binary(max_size=60) | st.builds(lambda data, cut: data[:cut], st.just(tiff(6)), st.integers(0, 26)))
def test_broken_exif_means_upright_and_is_left_as_it_is(exif: bytes) -> None:
    if read_orientation(exif) == 1:
        assert read_orientation(reset_orientation(exif)) == 1
    assert len(reset_orientation(exif)) == len(exif)


@pytest.mark.parametrize("kind", [1, 4, 7])
def test_an_orientation_of_another_type_is_none(kind: int) -> None:
    exif = tiff(6).replace(struct.pack("<HHI", 0x0112, 3, 1), struct.pack("<HHI", 0x0112, kind, 1))
    assert read_orientation(exif) == 1


def test_it_reads_what_pillow_writes() -> None:
    exif = Image.Exif()
    exif[0x010F] = "A maker with a long name"
    exif[0x0112] = 5
    assert read_orientation(exif.tobytes()) == 5
