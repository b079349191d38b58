"""What the header scan accepts and refuses of GIF."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from imagehost_core.headers import ImageHeader, MetadataKind
from imagehost_core.headers.gif import MAX_BLOCKS
from imagehost_core.headers.reader import PAGE

Look = Callable[[bytes], ImageHeader]
Refusal = Callable[..., str]


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


def test_a_gif_tells_its_size_its_frames_and_its_end(look: Look) -> None:
    header = look(gif(frame(), frame(2, 1, 3, 2)))
    assert (header.format, header.width, header.height, header.frames) == ("gif", 5, 3, 2)
    assert (header.end_offset, header.orientation, header.has_alpha) == (len(gif(frame(), frame())), 1, False)
    assert (header.canvas_extent, header.total_pixels) == ((5, 3), 30)


def test_the_older_version_is_accepted(look: Look) -> None:
    assert look(gif(frame()).replace(b"89a", b"87a")).frames == 1


@pytest.mark.parametrize("flags", [0x80, 0x83, 0x87, 0x07])
def test_palettes_are_stepped_over(look: Look, flags: int) -> None:
    data = screen(flags=flags) + frame(flags=flags) + b";"
    assert (look(data).frames, look(data).end_offset) == (1, len(data))


def test_a_gif_without_a_frame_is_refused(refusal: Refusal) -> None:
    assert "a GIF with a frame" in refusal(gif())
    assert "a GIF with a frame" in refusal(screen())
    assert "a GIF with a frame" in refusal(gif(extension(0xFE, b"hello")))


@pytest.mark.parametrize("bad", [frame(0, 3), frame(5, 0)])
def test_a_frame_without_area_is_refused(refusal: Refusal, bad: bytes) -> None:
    assert "1 pixel or more" in refusal(gif(bad))
    assert "1 pixel or more" in refusal(gif(frame(), bad))


def test_a_first_frame_beyond_the_screen_makes_the_picture_larger(look: Look) -> None:
    header = look(gif(frame(5, 3, 4, 2)))
    assert (header.width, header.height, header.canvas_extent) == (9, 5, (9, 5))


def test_a_screen_of_no_size_takes_that_of_the_first_frame(look: Look) -> None:
    header = look(screen(0, 0) + frame() + b";")
    assert (header.width, header.height) == (5, 3)


def test_a_later_frame_beyond_the_screen_counts_for_the_limits_alone(look: Look, refusal: Refusal) -> None:
    """Pillow grows its canvas to hold such a frame, and every later one."""
    data = gif(frame(), frame(5, 3, 100, 200))
    header = look(data)
    assert (header.width, header.height, header.canvas_extent) == (5, 3, (105, 203))
    assert header.total_pixels == 2 * 105 * 203
    assert "at most 65,535" not in refusal(gif(frame(), frame(5, 3, 65_000, 0)))


@pytest.mark.parametrize("tail", [b"", b"\0\0\0", b"junk"])
def test_a_missing_trailer_is_tolerated(look: Look, tail: bytes) -> None:
    whole = gif(frame(), frame())[:-1]
    assert (look(whole + tail).frames, look(whole + tail).end_offset) == (2, len(whole))


def test_a_last_sub_block_without_its_terminator_is_tolerated(look: Look) -> None:
    assert look(gif(frame())[:-2]).frames == 1


@pytest.mark.parametrize("cut", range(3, 14))
def test_a_gif_cut_within_its_only_frame_is_refused(refusal: Refusal, cut: int) -> None:
    assert "expected" in refusal(gif(frame(pixels=blocks(bytes(11))))[:-cut])


def test_a_gif_cut_within_its_palette_is_refused(refusal: Refusal) -> None:
    assert "at least 781 bytes" in refusal(screen(flags=0x87)[:-1])
    assert "cut short" in refusal(screen() + frame(flags=0x87, pixels=b"")[:-2])
    assert "cut short" in refusal(screen()[:9])


def test_bytes_between_blocks_are_skipped_as_the_decoder_skips_them(look: Look) -> None:
    """A frame after junk would be decoded, so it must be counted."""
    assert look(gif(b"\0\0", frame(), b"junk", frame(), b"\0")).frames == 2


def test_what_follows_the_trailer_is_no_part_of_the_picture(look: Look) -> None:
    header = look(gif(frame()) + frame(9_999, 9_999) * 2_000)
    assert (header.frames, header.end_offset) == (1, len(gif(frame())))


def test_transparency_is_told_by_the_graphic_control(look: Look) -> None:
    assert look(gif(control(1), frame())).has_alpha
    assert look(gif(frame(), control(0xFF), frame())).has_alpha
    assert look(gif(control(1), frame(), control(0), frame())).has_alpha
    assert not look(gif(control(0xFE), frame())).has_alpha
    assert not look(gif(extension(0x01, b"\1\1\1\1"), frame())).has_alpha


def test_an_extension_at_the_very_end_of_the_file_is_tolerated(look: Look) -> None:
    assert look(gif(frame())[:-1] + b"!\xf9").frames == 1


@pytest.mark.parametrize(
    "empty", [extension(0xF9), extension(0x01), extension(0xFF), extension(0xFF, b"NETSCAPE2.0")]
)
def test_an_extension_without_content_is_refused(refusal: Refusal, empty: bytes) -> None:
    """The decoder takes what follows such an extension for its content, and so sees other frames."""
    assert "GIF extensions with content" in refusal(gif(empty, frame()))


@pytest.mark.parametrize(
    "empty", [extension(0xFE), extension(0xFE, b"NETSCAPE2.0"), extension(0xFF, b"XMP DataXMP")]
)
def test_comments_and_other_applications_may_be_without_content(look: Look, empty: bytes) -> None:
    assert look(gif(empty, frame())).frames == 1


def test_comments_and_applications_count_as_metadata(look: Look, refusal: Refusal) -> None:
    comment = extension(0xFE, b"hello", b"you")
    header = look(gif(comment, control(0), frame()))
    assert (header.metadata_bytes, header.metadata) == (len(comment) - 2, frozenset())
    large = extension(0xFE, *[bytes(255)] * 16_384)
    details = refusal(gif(large, frame()))
    assert details == "expected at most 4,194,304 bytes of metadata for image but received 4,194,305"


@pytest.mark.parametrize(
    ("name", "kinds"),
    [(b"XMP DataXMP", {MetadataKind.XMP}), (b"ICCRGBG1012", {MetadataKind.ICC}), (b"NETSCAPE2.0", set())],
)
def test_each_kind_of_metadata_is_told(look: Look, name: bytes, kinds: set[MetadataKind]) -> None:
    assert look(gif(extension(0xFF, name, b"content"), frame())).metadata == kinds
    assert look(gif(extension(0xFE, name, b"content"), frame())).metadata == frozenset()


def test_the_frames_are_limited(look: Look, refusal: Refusal) -> None:
    assert look(gif(frame() * 1_000)).frames == 1_000
    assert refusal(gif(frame() * 1_001)) == "expected at most 1,000 frames for image but received 1,001"


def test_a_small_file_of_large_empty_frames_is_refused(refusal: Refusal) -> None:
    """3 KB of frames on a screen of 6,000×6,000: a decoder would be busy for most of a minute."""
    data = screen(6_000, 6_000) + frame(1, 1) * 200 + b";"
    assert len(data) < 3_100
    assert "at most 150,000,000 pixels over all frames for image but received 7,200,000,000" in refusal(data)


@pytest.mark.parametrize("unit", [b"\1a", b"\x20" + bytes(32)])
def test_pixels_in_too_many_sub_blocks_are_refused(refusal: Refusal, unit: bytes) -> None:
    assert "at most 1,000,000 parts" in refusal(gif(frame(pixels=unit * MAX_BLOCKS + b"\0")))


def test_pixels_of_50_mb_in_full_sub_blocks_are_accepted(look: Look) -> None:
    assert look(gif(frame(pixels=(b"\xff" + bytes(255)) * 204_000 + b"\0"))).frames == 1


@pytest.mark.parametrize(
    "unit", [extension(0x01, b"a"), control(0), frame(1, 1, pixels=b"\0"), b"\0" + extension(0xFE)]
)
def test_too_many_extensions_and_frames_are_refused(refusal: Refusal, unit: bytes) -> None:
    """Looking at one takes as long as at twenty sub-blocks, so it counts as that many."""
    assert "at most 1,000,000 parts" in refusal(gif(frame(), unit * 50_000))


def test_sub_blocks_are_walked_wherever_the_pages_of_the_reader_part(look: Look) -> None:
    for filler in range(1, 256, 17):
        data = gif(frame(pixels=blocks(*[bytes(filler)] * (PAGE // filler + 3))))
        assert look(data).end_offset == len(data)
