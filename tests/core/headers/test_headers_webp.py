"""Tests of the header scan of WebP."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import pytest

from imagehost_core.headers.header import ImageHeader, MetadataKind
from imagehost_core.headers.webp import MAX_CHUNKS

ScanBytes = Callable[[bytes], ImageHeader]
ScanError = Callable[..., str]

ANIMATED, XMP, EXIF, ALPHA, ICC = 0x02, 0x04, 0x08, 0x10, 0x20


def chunk(kind: bytes, content: bytes = b"") -> bytes:
    return kind + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)


def riff(*parts: bytes) -> bytes:
    body = b"WEBP" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def uint24(*values: int) -> bytes:
    return b"".join(value.to_bytes(3, "little") for value in values)


def vp8(width: int = 5, height: int = 3, *, tag: int = 0b1_0000, start: bytes = b"\x9d\x01\x2a") -> bytes:
    return chunk(b"VP8 ", uint24(tag) + start + struct.pack("<HH", width, height) + b"pixels")


def vp8l(
    width: int = 5, height: int = 3, *, alpha: bool = False, first: int = 0x2F, version: int = 0
) -> bytes:
    bits = width - 1 | height - 1 << 14 | alpha << 28 | version << 29
    return chunk(b"VP8L", bytes([first]) + struct.pack("<I", bits) + b"pixels")


def vp8x(flags: int = 0, width: int = 5, height: int = 3) -> bytes:
    return chunk(b"VP8X", bytes([flags, 0, 0, 0]) + uint24(width - 1, height - 1))


def anmf(*parts: bytes, width: int = 5, height: int = 3, left: int = 0, top: int = 0) -> bytes:
    box = uint24(left // 2, top // 2, width - 1, height - 1)
    return chunk(b"ANMF", box + bytes(4) + b"".join(parts))


ANIM = chunk(b"ANIM", bytes(6))
ALPH = chunk(b"ALPH", b"alpha")


@pytest.mark.parametrize(
    ("data", "alpha"),
    [
        (riff(vp8()), False),
        (riff(vp8l()), False),
        (riff(vp8l(alpha=True)), True),
        (riff(vp8x(), vp8()), False),
        (riff(vp8x(), vp8l(alpha=True)), False),
        (riff(vp8x(ALPHA), vp8l(alpha=True)), True),
        (riff(vp8x(ALPHA), ALPH, vp8()), True),
    ],
)
def test_size_transparency_and_end_of_a_webp_are_read(
    scan_bytes: ScanBytes, data: bytes, alpha: bool
) -> None:
    header = scan_bytes(data)
    assert (header.format, header.width, header.height, header.frames) == ("webp", 5, 3, 1)
    assert (header.end_offset, header.orientation, header.has_alpha) == (len(data), 1, alpha)


def test_pixels_as_short_as_their_header_are_accepted(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(riff(chunk(b"VP8 ", vp8()[8:18]))).width == 5
    assert scan_bytes(riff(chunk(b"VP8L", vp8l()[8:13]))).width == 5


def test_each_version_of_a_lossy_frame_is_accepted(scan_bytes: ScanBytes) -> None:
    for version in range(4):
        assert scan_bytes(riff(vp8(tag=0b1_0000 | version << 1))).width == 5


def test_the_largest_sides_are_read(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(riff(vp8(16_383, 2))).width == 16_383
    assert scan_bytes(riff(vp8l(16_383, 2))).width == 16_383
    assert scan_bytes(riff(vp8(2 | 0x4000, 3 | 0xC000))).height == 3


@pytest.mark.parametrize(
    "invalid",
    [
        vp8(0, 3),
        vp8(5, 0),
        vp8(tag=0b1_0001),
        vp8(tag=0b1_1000),
        vp8(tag=0b0_0000),
        vp8(tag=0b1_0000 | 16 << 5),
        vp8(start=b"\x9d\x01\x2b"),
    ],
)
def test_an_invalid_lossy_frame_is_rejected(scan_error: ScanError, invalid: bytes) -> None:
    assert "a VP8 key frame" in scan_error(riff(invalid))
    assert "a VP8 key frame" in scan_error(riff(vp8x(), invalid))


@pytest.mark.parametrize("invalid", [vp8l(first=0x2E), vp8l(version=1)])
def test_an_invalid_lossless_frame_is_rejected(scan_error: ScanError, invalid: bytes) -> None:
    assert "a VP8L header" in scan_error(riff(invalid))


@pytest.mark.parametrize("invalid", [chunk(b"VP8 ", bytes(9)), chunk(b"VP8L", b"\x2f\0\0\0")])
def test_pixels_too_short_for_a_header_are_rejected(scan_error: ScanError, invalid: bytes) -> None:
    assert "bytes and more of WebP pixels" in scan_error(riff(invalid))


@pytest.mark.parametrize("first", [(), (ALPH, vp8()), (chunk(b"EXIF"), vp8()), (anmf(vp8()),), (b"VP8 ",)])
def test_a_webp_must_begin_with_pixels_or_the_extended_header(
    scan_error: ScanError, first: tuple[bytes, ...]
) -> None:
    assert re.search("first in a WebP|made of chunks", scan_error(riff(*first)))


def test_an_extended_header_too_short_is_rejected(scan_error: ScanError) -> None:
    assert "a VP8X of 10 bytes" in scan_error(riff(chunk(b"VP8X", bytes(9)), vp8()))


def test_a_container_larger_than_the_file_is_rejected(scan_error: ScanError) -> None:
    whole = riff(vp8x(), vp8())
    for cut in range(1, len(whole) - 12):
        assert "one cut short" in scan_error(whole[:-cut])


def test_a_chunk_larger_than_its_container_is_rejected(scan_error: ScanError) -> None:
    body = b"WEBPVP8 " + struct.pack("<I", 99) + bytes(20)
    assert "'VP8 ' of 99 bytes" in scan_error(b"RIFF" + struct.pack("<I", len(body)) + body + bytes(99))


def test_a_chunk_of_odd_size_without_its_padding_is_rejected(scan_error: ScanError) -> None:
    """libwebp rejects the whole file."""
    body = b"WEBP" + chunk(b"VP8L", vp8l()[8:-1] + b"odd")[:-1]
    assert "within their container" in scan_error(b"RIFF" + struct.pack("<I", len(body)) + body)


@pytest.mark.parametrize("tail", [b"x", b"sevenby"])
def test_bytes_in_the_container_that_are_no_chunk_are_rejected(scan_error: ScanError, tail: bytes) -> None:
    assert f"{len(tail)} bytes too many" in scan_error(riff(vp8(), tail))
    assert f"{len(tail)} bytes too many" in scan_error(riff(vp8x(), vp8(), tail))


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (chunk(b"EXIF", b"MM"),),
        (ALPH,),
        (vp8(), ALPH),
        (ALPH, vp8l()),
        (ALPH, ALPH, vp8()),
        (vp8(), vp8()),
        (vp8(), vp8l()),
    ],
)
def test_an_extended_image_needs_exactly_one_bitstream(
    scan_error: ScanError, parts: tuple[bytes, ...]
) -> None:
    assert "for each WebP frame" in scan_error(riff(vp8x(), *parts))
    assert "for each WebP frame" in scan_error(riff(vp8x(ANIMATED), ANIM, anmf(*parts)))


def test_a_canvas_of_another_size_than_its_pixels_is_rejected(scan_error: ScanError) -> None:
    """Otherwise a file of 96 bytes could make a decoder allocate more than a gigabyte."""
    details = scan_error(riff(vp8x(0, 9_000, 9_000), vp8()))
    assert details == "expected WebP pixels of 9,000×9,000 for image but received 5×3"
    assert "WebP pixels of 5×4" in scan_error(riff(vp8x(0, 5, 4), vp8()))


def test_the_frames_of_an_animated_webp_are_counted(scan_bytes: ScanBytes) -> None:
    small = anmf(vp8l(1, 1), left=4, top=2, width=1, height=1)
    header = scan_bytes(riff(vp8x(ANIMATED), ANIM, anmf(ALPH, vp8()), small))
    assert (header.width, header.height, header.frames, header.total_pixels) == (5, 3, 2, 30)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((ANIM,), "with a frame"),
        ((vp8(),), "received 'VP8 '"),
        ((ANIM, anmf(vp8()), vp8()), "received 'VP8 '"),
        ((anmf(vp8()), ANIM), "received 'ANMF'"),
        ((ANIM, chunk(b"ANMF", bytes(15))), "an ANMF of 16 bytes"),
        ((ANIM, anmf(vp8(), left=2)), "5×3 at 2, 0"),
        ((ANIM, anmf(vp8(), top=2)), "5×3 at 0, 2"),
        ((ANIM, anmf(vp8(6, 3), width=6)), "6×3 at 0, 0"),
        ((ANIM, anmf(vp8(4, 3))), "WebP pixels of 5×3 for image but received 4×3"),
    ],
)
def test_an_invalid_animation_is_rejected(
    scan_error: ScanError, parts: tuple[bytes, ...], reason: str
) -> None:
    assert reason in scan_error(riff(vp8x(ANIMATED), *parts))


def test_frames_in_a_file_without_the_animation_flag_are_not_counted(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(riff(vp8x(), vp8(), ANIM, anmf(vp8()), anmf(vp8()))).frames == 1


def test_the_frames_are_limited(scan_bytes: ScanBytes, scan_error: ScanError) -> None:
    assert scan_bytes(riff(vp8x(ANIMATED), ANIM, anmf(vp8()) * 1_000)).frames == 1_000
    details = scan_error(riff(vp8x(ANIMATED), ANIM, anmf(vp8()) * 1_001))
    assert details == "expected at most 1,000 frames for image but received 1,001"


def test_a_webp_of_too_many_chunks_is_rejected(scan_bytes: ScanBytes, scan_error: ScanError) -> None:
    """The limit is 20,000 chunks, including those of the pixels."""
    empty = chunk(b"none")
    assert scan_bytes(riff(vp8(), empty * (MAX_CHUNKS - 1))).width == 5
    for data in (
        riff(vp8(), empty * MAX_CHUNKS),
        riff(vp8x(), empty * MAX_CHUNKS, vp8()),
        riff(vp8x(ANIMATED), ANIM, anmf(vp8(), empty * MAX_CHUNKS)),
    ):
        assert "at most 20,000 parts" in scan_error(data)


@pytest.mark.parametrize(
    ("part", "kinds"),
    [
        (chunk(b"EXIF", b"MMM"), {MetadataKind.EXIF}),
        (chunk(b"XMP ", b"<x>"), {MetadataKind.XMP}),
        (chunk(b"ICCP", b"icc"), {MetadataKind.ICC}),
        (chunk(b"none", b"???"), set()),
    ],
)
def test_each_kind_of_metadata_is_detected_at_every_position(
    scan_bytes: ScanBytes, part: bytes, kinds: set[MetadataKind]
) -> None:
    for data in (
        riff(vp8(), part),
        riff(vp8x(), part, vp8()),
        riff(vp8x(), vp8(), part),
        riff(vp8x(ANIMATED), part, ANIM, anmf(vp8())),
        riff(vp8x(ANIMATED), ANIM, anmf(vp8(), part)),
    ):
        assert scan_bytes(data).metadata == kinds


def test_exif_is_used_for_the_orientation_only_if_the_flag_announces_it(scan_bytes: ScanBytes) -> None:
    """As in libwebp, and so in Pillow and in browsers."""
    exif = chunk(b"EXIF", b"MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0")
    assert scan_bytes(riff(vp8x(EXIF), vp8(), exif)).orientation == 6
    assert scan_bytes(riff(vp8x(), vp8(), exif)).orientation == 1
    assert scan_bytes(riff(vp8(), exif)).orientation == 1
