"""Tests of the header scan of JPEG."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.errors import ValidationError
from imagehost_core.headers.header import ImageHeader, MetadataKind
from imagehost_core.headers.jpeg import MAX_SEGMENTS
from imagehost_core.headers.reader import PAGE_BYTES
from imagehost_core.headers.scanner import scan

ScanBytes = Callable[[bytes], ImageHeader]
ScanError = Callable[..., str]

SOI, EOI = b"\xff\xd8", b"\xff\xd9"


def segment(code: int, content: bytes = b"") -> bytes:
    return struct.pack(">BBH", 0xFF, code, len(content) + 2) + content


def frame(code: int = 0xC0, *, width: int = 5, height: int = 3, components: int = 3, bits: int = 8) -> bytes:
    return segment(code, struct.pack(">BHHB", bits, height, width, components) + b"\1\x11\0" * components)


PIXELS = segment(0xDA, b"\1\1\0\0\x3f\0") + b"pixels\xff\0more\xff\xd3pixels"
WHOLE = SOI + frame() + PIXELS + EOI


def test_size_and_end_of_a_jpeg_are_read(scan_bytes: ScanBytes) -> None:
    header = scan_bytes(WHOLE)
    assert (header.format, header.width, header.height, header.frames) == ("jpeg", 5, 3, 1)
    assert (header.end_offset, header.scans, header.orientation, header.has_alpha) == (
        len(WHOLE),
        1,
        1,
        False,
    )
    assert header.metadata == frozenset()


@pytest.mark.parametrize("code", [0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA])
def test_every_kind_of_frame_that_the_decoder_supports_is_accepted(scan_bytes: ScanBytes, code: int) -> None:
    assert scan_bytes(SOI + frame(code) + PIXELS + EOI).width == 5


@pytest.mark.parametrize("code", [0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA])
def test_lossless_and_arithmetic_jpegs_are_not_displayable(scan_bytes: ScanBytes, code: int) -> None:
    assert scan_bytes(SOI + frame(code) + PIXELS + EOI).is_displayable is (code in {0xC0, 0xC1, 0xC2})


@pytest.mark.parametrize("code", [0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF, 0xDE, 0xDF])
def test_hierarchical_and_arithmetic_lossless_frames_are_rejected(scan_error: ScanError, code: int) -> None:
    assert "not hierarchical" in scan_error(SOI + frame(code) + PIXELS + EOI)


@pytest.mark.parametrize("components", [1, 3, 4])
def test_greyscale_colour_and_cmyk_are_accepted(scan_bytes: ScanBytes, components: int) -> None:
    assert scan_bytes(SOI + frame(components=components) + PIXELS + EOI).height == 3


@pytest.mark.parametrize(
    ("invalid", "reason"),
    [
        (frame(components=2), "1, 3 or 4 components for image but received 2"),
        (frame(bits=12), "8 bits a component for image but received 12"),
        (frame(height=0), "states its size"),
        (frame(width=0), "states its size"),
        (segment(0xC0, b"\x08\0\3\0\5\3"), "frame header of 17 bytes for image but received 8"),
        (frame() + frame(), "one frame"),
    ],
)
def test_an_invalid_frame_header_is_rejected(scan_error: ScanError, invalid: bytes, reason: str) -> None:
    assert reason in scan_error(SOI + invalid + PIXELS + EOI)


def test_pixels_before_the_frame_header_are_rejected(scan_error: ScanError) -> None:
    assert "a frame header before" in scan_error(SOI + PIXELS + frame() + EOI)


@pytest.mark.parametrize("parts", [b"", frame(), segment(0xFE, b"hello")])
def test_a_jpeg_without_pixels_is_rejected(scan_error: ScanError, parts: bytes) -> None:
    assert "a JPEG with pixels" in scan_error(SOI + parts + EOI)


@pytest.mark.parametrize("cut", [1, 2])
def test_a_jpeg_without_an_end_of_image_marker_ends_with_its_pixels(scan_bytes: ScanBytes, cut: int) -> None:
    assert scan_bytes(WHOLE[:-cut]).end_offset == len(WHOLE) - cut


@pytest.mark.parametrize("parts", [frame(), segment(0xFE, b"hello")])
def test_a_jpeg_that_ends_before_its_pixels_is_rejected(scan_error: ScanError, parts: bytes) -> None:
    assert "one cut short" in scan_error(SOI + parts)


def test_a_segment_that_extends_beyond_the_file_is_rejected(scan_error: ScanError) -> None:
    assert "at least 65,539 bytes" in scan_error(SOI + b"\xff\xe0\xff\xff" + WHOLE[2:])


def test_a_second_start_of_image_is_rejected(scan_error: ScanError) -> None:
    assert "start-of-image" in scan_error(SOI + WHOLE)
    assert "start-of-image" in scan_error(WHOLE[:-2] + WHOLE)


def test_images_after_the_first_are_after_the_end(scan_bytes: ScanBytes) -> None:
    """MPO and gain-map files have further JPEGs there, which are not stored."""
    index = segment(0xE2, b"MPF\0" + bytes(20))
    header = scan_bytes(SOI + index + WHOLE[2:] + WHOLE)
    assert (header.frames, header.end_offset) == (1, len(index) + len(WHOLE))


def test_a_thumbnail_within_a_segment_is_not_treated_as_the_image(scan_bytes: ScanBytes) -> None:
    thumbnail = SOI + frame(width=99) + PIXELS + EOI
    assert scan_bytes(SOI + segment(0xE0, thumbnail) + WHOLE[2:]).width == 5


@pytest.mark.parametrize(
    "skipped",
    [
        b"\xff\xff\xff\xff",  # fill bytes
        b"junk",
        b"\xff\0\xff\0",  # stuffed bytes instead of a marker
        b"\xff\x01\xff\xd0",  # TEM and RST have no segment
        b"\xff\xe5\0\0",  # lengths below 2, the size of the length itself
        b"\xff\xe5\0\1",
    ],
)
def test_bytes_that_decoders_skip_between_segments_are_skipped(scan_bytes: ScanBytes, skipped: bytes) -> None:
    header = scan_bytes(SOI + segment(0xE0) + skipped + frame() + skipped + PIXELS + skipped + EOI)
    assert (header.width, header.scans) == (5, 1)


def test_scans_are_counted_and_limited(scan_bytes: ScanBytes, scan_error: ScanError) -> None:
    assert scan_bytes(SOI + frame(0xC2) + PIXELS * 100 + EOI).scans == 100
    details = scan_error(SOI + frame(0xC2) + PIXELS * 101 + EOI)
    assert details == "expected at most 100 JPEG scans for image but received 101"


def test_a_jpeg_of_too_many_segments_is_rejected(scan_bytes: ScanBytes, scan_error: ScanError) -> None:
    """The limit is 2,048 segments, including frame, scan and end."""
    available = MAX_SEGMENTS - 3
    assert scan_bytes(SOI + segment(0xFE) * available + WHOLE[2:]).width == 5
    assert "at most 2,048 parts" in scan_error(SOI + segment(0xFE) * (available + 1) + WHOLE[2:])


@pytest.mark.parametrize(
    ("code", "content", "kind"),
    [
        (0xE1, b"Exif\0\0II*\0", MetadataKind.EXIF),
        (0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>", MetadataKind.XMP),
        (0xE1, b"http://ns.adobe.com/xmp/extension/\0", MetadataKind.XMP),
        (0xE2, b"ICC_PROFILE\0\1\1", MetadataKind.ICC),
        (0xED, b"Photoshop 3.0\0008BIM", MetadataKind.IPTC),
    ],
)
def test_each_kind_of_metadata_is_detected(
    scan_bytes: ScanBytes, code: int, content: bytes, kind: MetadataKind
) -> None:
    header = scan_bytes(SOI + segment(code, content) + WHOLE[2:])
    assert header.metadata == {kind}
    assert scan_bytes(SOI + segment(0xEC, content) + WHOLE[2:]).metadata == frozenset()


def test_markers_are_found_across_the_page_borders_of_the_reader(scan_bytes: ScanBytes) -> None:
    for shift in range(-3, 2):
        data = SOI + frame() + PIXELS
        data += b"x" * (PAGE_BYTES - len(data) + shift) + EOI
        assert scan_bytes(data).end_offset == len(data)


def scan_of(ids: list[int], *, spectral: int = 0, pixels: int) -> bytes:
    selectors = b"".join(bytes([each, 0]) for each in ids)
    return segment(0xDA, bytes([len(ids)]) + selectors + bytes([spectral, 0x3F, 0])) + b"x" * pixels


SAMPLING = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(
    st.sampled_from([0xC0, 0xC1, 0xC2, 0xC3]),
    st.integers(1, 500),
    st.integers(1, 500),
    st.lists(SAMPLING, min_size=3, max_size=3),
    st.lists(st.sampled_from([1, 2, 3]), min_size=1, unique=True),
    st.integers(-3, 3),
)
def test_the_first_scan_has_a_bit_for_each_block_of_its_components(
    code: int, width: int, height: int, sampling: list[tuple[int, int]], ids: list[int], more: int
) -> None:
    side = 1 if code == 0xC3 else 8
    widest, tallest = (max(factors) for factors in zip(*sampling, strict=True))
    blocks = 0
    for across, down in (sampling[each - 1] for each in ids):
        if len(ids) == 1:
            blocks += ceil(ceil(width * across / widest) / side) * ceil(ceil(height * down / tallest) / side)
        else:
            blocks += ceil(width / side / widest) * across * ceil(height / side / tallest) * down
    header = struct.pack(">BHHB", 8, height, width, 3)
    header += b"".join(bytes([index + 1, 16 * h + v, 0]) for index, (h, v) in enumerate(sampling))
    pixels = max(0, ceil(blocks / 8) + more)
    data = SOI + segment(code, header) + scan_of(ids, pixels=pixels) + scan_of(ids, pixels=0) + EOI
    if 8 * pixels >= blocks:
        assert scan(io.BytesIO(data), len(data)).scans == 2
    else:
        with pytest.raises(ValidationError, match="for the pixels of the first scan of a JPEG"):
            scan(io.BytesIO(data), len(data))


@pytest.mark.parametrize(
    ("code", "ids", "spectral"),
    [(0xC9, [1], 0), (0xCA, [1], 0), (0xC2, [1], 1), (0xC0, [7], 0), (0xC0, [], 0)],
)
def test_scans_that_need_fewer_bits_are_left_to_the_decoder(
    scan_bytes: ScanBytes, code: int, ids: list[int], spectral: int
) -> None:
    data = SOI + frame(code, width=9_000, height=9_000) + scan_of(ids, spectral=spectral, pixels=1) + EOI
    assert scan_bytes(data).width == 9_000


def test_sampling_factors_of_zero_are_left_to_the_decoder(scan_bytes: ScanBytes) -> None:
    header = struct.pack(">BHHB", 8, 9_000, 9_000, 1) + bytes([1, 0, 0])
    assert scan_bytes(SOI + segment(0xC0, header) + scan_of([1], pixels=1) + EOI).width == 9_000


@given(
    st.sampled_from(["L", "RGB", "CMYK"]),
    st.integers(1, 300),
    st.integers(1, 300),
    st.sampled_from([0, 1, 2]),
    st.booleans(),
    st.sampled_from([{}, {"restart_marker_blocks": 1}, {"restart_marker_rows": 1}]),
)
def test_the_smallest_jpegs_of_an_encoder_are_accepted_and_not_with_a_larger_size(
    mode: str, width: int, height: int, subsampling: int, progressive: bool, restarts: dict[str, int]
) -> None:
    """A flat image with tables of its own has the shortest possible codes."""
    file = io.BytesIO()
    options = {"quality": 1, "optimize": True, "progressive": progressive, "subsampling": subsampling}
    Image.new(mode, (width, height)).save(file, "JPEG", **options, **restarts)
    data = file.getvalue()
    header = scan(io.BytesIO(data), len(data))
    assert (header.width, header.height) == (width, height)
    start = re.search(rb"\xff[\xc0-\xc2]", data).start()  # type: ignore[union-attr]
    inflated = data[: start + 5] + struct.pack(">HH", 9_000, 9_000) + data[start + 9 :]
    with pytest.raises(ValidationError, match="for the pixels of the first scan of a JPEG"):
        scan(io.BytesIO(inflated), len(inflated))
