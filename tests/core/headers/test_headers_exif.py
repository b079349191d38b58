"""Tests of the EXIF orientation: the header scan and the renderer read the same value from any block."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.headers.exif import PREFIX, read_orientation, reset_orientation, scan_orientation
from imagehost_core.headers.reader import HeaderReader
from imagehost_core.headers.scanner import scan
from imagehost_core.pixels.decode import open_image

BYTE_ORDER_MARKS = {"<": b"II*\0", ">": b"MM\0*"}
ORIENTATION, SHORT, LONG = 0x0112, 3, 4
VALUE_FORMATS = {SHORT: "H2x", LONG: "I"}
ENTRY = (ORIENTATION, SHORT, 1)

Entry = tuple[int, int, int, bytes]


def tiff(*entries: Entry, order: str = ">", count: int | None = None, gap: int = 0) -> bytes:
    """Return a TIFF file whose only directory has the entries (tag, type, number of values, raw value)."""
    directory = struct.pack(f"{order}H", len(entries) if count is None else count)
    for tag, kind, values, raw in entries:
        directory += struct.pack(f"{order}HHI4s", tag, kind, values, raw)
    return BYTE_ORDER_MARKS[order] + struct.pack(f"{order}I", 8 + gap) + bytes(gap) + directory


def short(value: int, order: str = ">") -> bytes:
    return struct.pack(f"{order}H2x", value)


@st.composite
def valid_blocks(draw: st.DrawFn, values: st.SearchStrategy[int] | None = None) -> bytes:
    """Return EXIF blocks with an orientation of either type, in either byte order."""
    order, kind = draw(st.sampled_from("<>")), draw(st.sampled_from([SHORT, LONG]))
    value = draw(values if values is not None else st.integers(1, 8))
    before = [(0x0100, LONG, 1, b"abcd")] * draw(st.integers(0, 5))
    after = [(0x0132, 2, 4, b"abcd")] * draw(st.integers(0, 2))
    entry = (ORIENTATION, kind, 1, struct.pack(order + VALUE_FORMATS[kind], value))
    block = tiff(*before, entry, *after, order=order, gap=draw(st.integers(0, 9)))
    return PREFIX * draw(st.booleans()) + block + draw(st.binary(max_size=9))


@st.composite
def damaged_blocks(draw: st.DrawFn) -> bytes:
    """Return EXIF blocks that are cut short or have one byte changed."""
    block = bytearray(draw(valid_blocks(st.integers(0, 65_535))))
    if draw(st.booleans()):
        return bytes(block[: draw(st.integers(0, len(block)))])
    block[draw(st.integers(0, len(block) - 1))] = draw(st.integers(0, 255))
    return bytes(block)


ANY_BLOCK = valid_blocks() | valid_blocks(st.integers(0, 65_535)) | damaged_blocks() | st.binary(max_size=60)


def scanned(block: bytes, before: bytes = b"", after: bytes = b"") -> int:
    """Return the orientation that the header scan reads from a block within a file."""
    file = before + block + after
    reader = HeaderReader(io.BytesIO(file), len(file))
    return scan_orientation(reader, (len(before), len(before) + len(block))).value


def saved(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 3)).save(file, kind)
    return file.getvalue()


JPEG, PNG, WEBP = saved("JPEG"), saved("PNG"), saved("WEBP")


def jpeg_with(block: bytes) -> bytes:
    segment = PREFIX + block
    return JPEG[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + JPEG[2:]


def png_with(block: bytes) -> bytes:
    chunk = b"eXIf" + block
    return PNG[:33] + struct.pack(">I", len(block)) + chunk + struct.pack(">I", zlib.crc32(chunk)) + PNG[33:]


def webp_with(block: bytes) -> bytes:
    canvas = b"VP8X" + struct.pack("<IB3x", 10, 0x08) + b"\x03\0\0\x02\0\0"
    chunk = b"EXIF" + struct.pack("<I", len(block)) + block + bytes(len(block) % 2)
    content = b"WEBP" + canvas + WEBP[12:] + chunk
    return b"RIFF" + struct.pack("<I", len(content)) + content


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize(
    ("fmt", "file_with"),
    [(Format.JPEG, jpeg_with), (Format.PNG, png_with), (Format.WEBP, webp_with)],
    ids=lambda value: value.value if isinstance(value, Format) else "",
)
@given(block=ANY_BLOCK)
@example(block=tiff((ORIENTATION, LONG, 1, struct.pack(">I", 6))))
def test_header_scan_and_renderer_agree_on_the_orientation_of_any_exif_block(
    fmt: Format,
    file_with: Callable[[bytes], bytes],
    block: bytes,
) -> None:
    file = file_with(block)
    header = scan(io.BytesIO(file), len(file))
    assert header.orientation == open_image(fmt, file).orientation == read_orientation(block)


@given(ANY_BLOCK, st.binary(max_size=9), st.binary(max_size=40))
def test_the_bytes_around_a_block_do_not_change_its_orientation(
    block: bytes, before: bytes, after: bytes
) -> None:
    assert scanned(block, before, after) == read_orientation(block)


@given(valid_blocks())
def test_after_a_reset_the_orientation_is_1_and_all_other_bytes_are_the_same(block: bytes) -> None:
    upright = reset_orientation(block)
    assert read_orientation(upright) == 1
    assert len(upright) == len(block)
    changed = [index for index, pair in enumerate(zip(block, upright, strict=True)) if pair[0] != pair[1]]
    assert len(changed) == (read_orientation(block) != 1)


@given(ANY_BLOCK)
def test_a_reset_keeps_the_length_of_any_block_and_leaves_orientation_1(block: bytes) -> None:
    upright = reset_orientation(block)
    assert len(upright) == len(block)
    assert read_orientation(upright) == 1
    assert reset_orientation(upright) == upright


@pytest.mark.parametrize("kind", [SHORT, LONG])
@pytest.mark.parametrize("order", ["<", ">"])
@given(value=st.integers(0, 65_535), gap=st.integers(0, 9), before=st.binary(max_size=9))
@example(value=0, gap=0, before=b"")
@example(value=9, gap=0, before=b"")
def test_values_1_to_8_are_read_in_both_byte_orders_and_types_and_others_are_1(
    kind: int, order: str, value: int, gap: int, before: bytes
) -> None:
    raw = struct.pack(order + VALUE_FORMATS[kind], value)
    block = tiff((0x010F, 2, 9, b"abcd"), (ORIENTATION, kind, 1, raw), order=order, gap=gap)
    assert scanned(block, before) == (value if 1 <= value <= 8 else 1)
    assert scanned(PREFIX + block, before) == (value if 1 <= value <= 8 else 1)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"MM",
        b"MM\0+" + tiff((*ENTRY, short(6)))[4:],
        b"JUNK" + tiff((*ENTRY, short(6)))[4:],
        b"MM\0*\xff\xff\xff\xff" + tiff((*ENTRY, short(6)))[8:],
        tiff((*ENTRY, short(6)))[:-1],
        tiff((*ENTRY, short(6)))[:9],
        tiff((ORIENTATION, 1, 1, short(6))),
        tiff((ORIENTATION, 2, 1, short(6))),
        tiff((ORIENTATION, 7, 1, short(6))),
        tiff((ORIENTATION, SHORT, 2, short(6))),
        tiff((0x0113, SHORT, 1, short(6))),
        tiff((*ENTRY, short(6)), count=0),
    ],
)
def test_malformed_exif_counts_as_orientation_1_and_is_left_unchanged(block: bytes) -> None:
    assert scanned(block) == read_orientation(block) == 1
    assert reset_orientation(block) == block


def test_an_image_without_exif_has_orientation_1() -> None:
    assert scan_orientation(HeaderReader(io.BytesIO(b""), 0), None).value == 1


def test_entries_beyond_the_end_of_the_block_are_not_read() -> None:
    block = tiff((0x010F, 2, 9, b"abcd"), (*ENTRY, short(6)))
    assert scanned(block[:-12], after=block[-12:]) == 1
    assert scanned(tiff(count=1), after=struct.pack(">HHI4s", *ENTRY, short(6))) == 1


def test_an_entry_count_larger_than_the_directory_is_tolerated() -> None:
    assert scanned(tiff((*ENTRY, short(6)), count=65_535)) == 6


def test_the_first_of_two_orientation_tags_counts() -> None:
    assert scanned(tiff((*ENTRY, short(3)), (*ENTRY, short(6)))) == 3


def test_an_orientation_of_the_right_type_counts_before_another() -> None:
    wrong = (ORIENTATION, LONG, 1, struct.pack(">I", 3))
    assert scanned(tiff(wrong, (*ENTRY, short(6)))) == 6
    assert scanned(tiff((*ENTRY, short(6)), wrong)) == 6


def test_a_directory_larger_than_a_page_of_the_reader_is_read_whole() -> None:
    filler = [(0x010F, 2, 9, b"abcd")] * 40_000
    assert scanned(tiff(*filler, (*ENTRY, short(8)))) == 8


def test_exif_written_by_pillow_is_read() -> None:
    exif = Image.Exif()
    exif[0x010F] = "A maker with a long name"
    exif[ORIENTATION] = 5
    assert read_orientation(exif.tobytes()) == 5
