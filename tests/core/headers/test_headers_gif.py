"""Tests of the header scan of GIF."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from imagehost_core.headers.gif import MAX_BLOCKS
from imagehost_core.headers.header import ImageHeader, MetadataKind
from imagehost_core.headers.reader import PAGE_BYTES

ScanBytes = Callable[[bytes], ImageHeader]
ScanError = Callable[..., str]


def screen(width: int = 5, height: int = 3, *, flags: int = 0) -> bytes:
    table = bytes(3 << (flags & 7) + 1) if flags & 0x80 else b""
    return b"GIF89a" + struct.pack("<HHBBB", width, height, flags, 0, 0) + table


def blocks(*contents: bytes) -> bytes:
    return b"".join(bytes([len(content)]) + content for content in contents) + b"\0"


def frame(
    width: int = 5,
    height: int = 3,
    left: int = 0,
    top: int = 0,
    *,
    flags: int = 0,
    pixels: bytes = blocks(b"px"),
) -> bytes:
    table = bytes(3 << (flags & 7) + 1) if flags & 0x80 else b""
    return b"," + struct.pack("<4HB", left, top, width, height, flags) + table + b"\2" + pixels


def extension(label: int, *contents: bytes) -> bytes:
    return b"!" + bytes([label]) + blocks(*contents)


def control(flags: int) -> bytes:
    return extension(0xF9, bytes([flags, 0, 0, 0]))


def gif(*parts: bytes) -> bytes:
    return screen() + b"".join(parts) + b";"


def test_size_frames_and_end_of_a_gif_are_read(scan_bytes: ScanBytes) -> None:
    header = scan_bytes(gif(frame(), frame(2, 1, 3, 2)))
    assert (header.format, header.width, header.height, header.frames) == ("gif", 5, 3, 2)
    assert (header.end_offset, header.orientation, header.has_alpha) == (len(gif(frame(), frame())), 1, False)
    assert (header.canvas_extent, header.total_pixels) == ((5, 3), 30)


def test_version_87a_is_accepted(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(gif(frame()).replace(b"89a", b"87a")).frames == 1


@pytest.mark.parametrize("flags", [0x80, 0x83, 0x87, 0x07])
def test_colour_tables_are_skipped(scan_bytes: ScanBytes, flags: int) -> None:
    data = screen(flags=flags) + frame(flags=flags) + b";"
    assert (scan_bytes(data).frames, scan_bytes(data).end_offset) == (1, len(data))


def test_a_gif_without_a_frame_is_rejected(scan_error: ScanError) -> None:
    assert "a GIF with a frame" in scan_error(gif())
    assert "a GIF with a frame" in scan_error(screen())
    assert "a GIF with a frame" in scan_error(gif(extension(0xFE, b"hello")))


@pytest.mark.parametrize("invalid", [frame(0, 3), frame(5, 0)])
def test_a_frame_without_area_is_rejected(scan_error: ScanError, invalid: bytes) -> None:
    assert "1 pixel or more" in scan_error(gif(invalid))
    assert "1 pixel or more" in scan_error(gif(frame(), invalid))


def test_a_first_frame_beyond_the_logical_screen_enlarges_the_image(scan_bytes: ScanBytes) -> None:
    header = scan_bytes(gif(frame(5, 3, 4, 2)))
    assert (header.width, header.height, header.canvas_extent) == (9, 5, (9, 5))


def test_a_logical_screen_of_size_0_takes_the_size_of_the_first_frame(scan_bytes: ScanBytes) -> None:
    header = scan_bytes(screen(0, 0) + frame() + b";")
    assert (header.width, header.height) == (5, 3)


def test_a_later_frame_beyond_the_logical_screen_counts_only_for_the_limits(
    scan_bytes: ScanBytes, scan_error: ScanError
) -> None:
    """Pillow enlarges its canvas for such a frame and all later ones."""
    data = gif(frame(), frame(5, 3, 100, 200))
    header = scan_bytes(data)
    assert (header.width, header.height, header.canvas_extent) == (5, 3, (105, 203))
    assert header.total_pixels == 2 * 105 * 203
    assert "at most 65,535" not in scan_error(gif(frame(), frame(5, 3, 65_000, 0)))


@pytest.mark.parametrize("tail", [b"", b"\0\0\0", b"junk"])
def test_a_missing_trailer_is_tolerated(scan_bytes: ScanBytes, tail: bytes) -> None:
    whole = gif(frame(), frame())[:-1]
    assert (scan_bytes(whole + tail).frames, scan_bytes(whole + tail).end_offset) == (2, len(whole))


def test_a_last_sub_block_without_its_terminator_is_tolerated(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(gif(frame())[:-2]).frames == 1


@pytest.mark.parametrize("cut", range(3, 14))
def test_a_gif_truncated_within_its_only_frame_is_rejected(scan_error: ScanError, cut: int) -> None:
    assert "expected" in scan_error(gif(frame(pixels=blocks(bytes(11))))[:-cut])


def test_a_gif_truncated_within_a_colour_table_is_rejected(scan_error: ScanError) -> None:
    assert "at least 781 bytes" in scan_error(screen(flags=0x87)[:-1])
    assert "cut short" in scan_error(screen() + frame(flags=0x87, pixels=b"")[:-2])
    assert "cut short" in scan_error(screen()[:9])


def test_bytes_between_blocks_are_skipped_as_in_the_decoder(scan_bytes: ScanBytes) -> None:
    """A frame after such bytes is decoded, so it must be counted."""
    assert scan_bytes(gif(b"\0\0", frame(), b"junk", frame(), b"\0")).frames == 2


def test_bytes_after_the_trailer_are_not_part_of_the_image(scan_bytes: ScanBytes) -> None:
    header = scan_bytes(gif(frame()) + frame(9_999, 9_999) * 2_000)
    assert (header.frames, header.end_offset) == (1, len(gif(frame())))


def test_transparency_is_read_from_the_graphic_control_extension(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(gif(control(1), frame())).has_alpha
    assert scan_bytes(gif(frame(), control(0xFF), frame())).has_alpha
    assert scan_bytes(gif(control(1), frame(), control(0), frame())).has_alpha
    assert not scan_bytes(gif(control(0xFE), frame())).has_alpha
    assert not scan_bytes(gif(extension(0x01, b"\1\1\1\1"), frame())).has_alpha


def test_an_extension_truncated_at_the_end_of_the_file_is_tolerated(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(gif(frame())[:-1] + b"!\xf9").frames == 1


@pytest.mark.parametrize(
    "empty", [extension(0xF9), extension(0x01), extension(0xFF), extension(0xFF, b"NETSCAPE2.0")]
)
def test_an_extension_without_content_is_rejected(scan_error: ScanError, empty: bytes) -> None:
    """The decoder reads the bytes after such an extension as its content, and so finds other frames."""
    assert "GIF extensions with content" in scan_error(gif(empty, frame()))


@pytest.mark.parametrize(
    "empty", [extension(0xFE), extension(0xFE, b"NETSCAPE2.0"), extension(0xFF, b"XMP DataXMP")]
)
def test_comments_and_other_application_extensions_can_be_empty(scan_bytes: ScanBytes, empty: bytes) -> None:
    assert scan_bytes(gif(empty, frame())).frames == 1


@pytest.mark.parametrize(
    ("name", "kinds"),
    [(b"XMP DataXMP", {MetadataKind.XMP}), (b"ICCRGBG1012", {MetadataKind.ICC}), (b"NETSCAPE2.0", set())],
)
def test_each_kind_of_metadata_is_detected(
    scan_bytes: ScanBytes, name: bytes, kinds: set[MetadataKind]
) -> None:
    assert scan_bytes(gif(extension(0xFF, name, b"content"), frame())).metadata == kinds
    assert scan_bytes(gif(extension(0xFE, name, b"content"), frame())).metadata == frozenset()


def test_the_frames_are_limited(scan_bytes: ScanBytes, scan_error: ScanError) -> None:
    assert scan_bytes(gif(frame() * 1_000)).frames == 1_000
    assert scan_error(gif(frame() * 1_001)) == "expected at most 1,000 frames for image but received 1,001"


def test_a_small_file_of_large_empty_frames_is_rejected(scan_error: ScanError) -> None:
    """3 KB of frames on a canvas of 6,000×6,000, which take a decoder most of a minute."""
    data = screen(6_000, 6_000) + frame(1, 1) * 200 + b";"
    assert len(data) < 3_100
    assert "at most 150,000,000 pixels over all frames for image but received 7,200,000,000" in scan_error(
        data
    )


@pytest.mark.parametrize("unit", [b"\1a", b"\x20" + bytes(32)])
def test_pixels_in_too_many_sub_blocks_are_rejected(scan_error: ScanError, unit: bytes) -> None:
    assert "at most 1,000,000 parts" in scan_error(gif(frame(pixels=unit * MAX_BLOCKS + b"\0")))


def test_pixels_of_50_mb_in_full_sub_blocks_are_accepted(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(gif(frame(pixels=(b"\xff" + bytes(255)) * 204_000 + b"\0"))).frames == 1


@pytest.mark.parametrize(
    "unit", [extension(0x01, b"a"), control(0), frame(1, 1, pixels=b"\0"), b"\0" + extension(0xFE)]
)
def test_too_many_extensions_and_frames_are_rejected(scan_error: ScanError, unit: bytes) -> None:
    """Scanning one takes as long as twenty sub-blocks, so it counts as that many."""
    assert "at most 1,000,000 parts" in scan_error(gif(frame(), unit * 50_000))


def test_sub_blocks_are_scanned_across_the_page_borders_of_the_reader(scan_bytes: ScanBytes) -> None:
    for filler in range(1, 256, 17):
        data = gif(frame(pixels=blocks(*[bytes(filler)] * (PAGE_BYTES // filler + 3))))
        assert scan_bytes(data).end_offset == len(data)
