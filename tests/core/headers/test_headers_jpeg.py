"""What the header scan accepts and refuses of JPEG."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from imagehost_core.headers import ImageHeader, MetadataKind
from imagehost_core.headers.jpeg import MAX_SEGMENTS
from imagehost_core.headers.reader import PAGE

Look = Callable[[bytes], ImageHeader]
Refusal = Callable[..., str]

SOI, EOI = b"\xff\xd8", b"\xff\xd9"


def segment(code: int, content: bytes = b"") -> bytes:
    return struct.pack(">BBH", 0xFF, code, len(content) + 2) + content


def frame(code: int = 0xC0, *, width: int = 5, height: int = 3, components: int = 3, bits: int = 8) -> bytes:
    return segment(code, struct.pack(">BHHB", bits, height, width, components) + b"\1\x11\0" * components)


PIXELS = segment(0xDA, b"\1\1\0\0\x3f\0") + b"pixels\xff\0more\xff\xd3pixels"
WHOLE = SOI + frame() + PIXELS + EOI


def test_a_jpeg_tells_its_size_and_its_end(look: Look) -> None:
    header = look(WHOLE)
    assert (header.format, header.width, header.height, header.frames) == ("jpeg", 5, 3, 1)
    assert (header.end_offset, header.scans, header.orientation, header.has_alpha) == (
        len(WHOLE),
        1,
        1,
        False,
    )
    assert (header.metadata, header.metadata_bytes, header.has_metadata) == (frozenset(), 0, False)


@pytest.mark.parametrize("code", [0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA])
def test_every_kind_of_frame_that_the_decoder_reads_is_accepted(look: Look, code: int) -> None:
    assert look(SOI + frame(code) + PIXELS + EOI).width == 5


@pytest.mark.parametrize("code", [0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF, 0xDE, 0xDF])
def test_hierarchical_and_arithmetic_lossless_frames_are_refused(refusal: Refusal, code: int) -> None:
    assert "not hierarchical" in refusal(SOI + frame(code) + PIXELS + EOI)


@pytest.mark.parametrize("components", [1, 3, 4])
def test_grey_colour_and_cmyk_are_accepted(look: Look, components: int) -> None:
    assert look(SOI + frame(components=components) + PIXELS + EOI).height == 3


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (frame(components=2), "1, 3 or 4 components for image but received 2"),
        (frame(bits=12), "8 bits a component for image but received 12"),
        (frame(height=0), "states its size"),
        (frame(width=0), "states its size"),
        (segment(0xC0, b"\x08\0\3\0\5\3"), "frame header of 17 bytes for image but received 8"),
        (frame() + frame(), "one frame"),
    ],
)
def test_a_frame_header_that_no_decoder_takes_is_refused(refusal: Refusal, bad: bytes, reason: str) -> None:
    assert reason in refusal(SOI + bad + PIXELS + EOI)


def test_pixels_before_the_frame_header_are_refused(refusal: Refusal) -> None:
    assert "a frame header before" in refusal(SOI + PIXELS + frame() + EOI)


@pytest.mark.parametrize("parts", [b"", frame(), segment(0xFE, b"hello")])
def test_a_jpeg_without_pixels_is_refused(refusal: Refusal, parts: bytes) -> None:
    assert "a JPEG with pixels" in refusal(SOI + parts + EOI)


@pytest.mark.parametrize("cut", [1, 2, 12])
def test_a_jpeg_without_its_end_is_cut_short(refusal: Refusal, cut: int) -> None:
    assert "one cut short" in refusal(WHOLE[:-cut])


def test_a_segment_that_reaches_beyond_the_file_is_cut_short(refusal: Refusal) -> None:
    assert "at least 65,539 bytes" in refusal(SOI + b"\xff\xe0\xff\xff" + WHOLE[2:])


def test_a_second_start_of_image_is_refused(refusal: Refusal) -> None:
    assert "start-of-image" in refusal(SOI + WHOLE)
    assert "start-of-image" in refusal(WHOLE[:-2] + WHOLE)


def test_images_after_the_first_are_after_the_end(look: Look) -> None:
    """MPO and gain-map files hold further JPEGs there; the contract drops what is after the end."""
    index = segment(0xE2, b"MPF\0" + bytes(20))
    header = look(SOI + index + WHOLE[2:] + WHOLE)
    assert (header.frames, header.end_offset) == (1, len(index) + len(WHOLE))


def test_a_thumbnail_within_a_segment_is_not_taken_for_the_image(look: Look) -> None:
    thumbnail = SOI + frame(width=99) + PIXELS + EOI
    assert look(SOI + segment(0xE0, thumbnail) + WHOLE[2:]).width == 5


@pytest.mark.parametrize(
    "odd",
    [
        b"\xff\xff\xff\xff",  # fill bytes
        b"junk",
        b"\xff\0\xff\0",  # stuffed bytes where a marker should be
        b"\xff\x01\xff\xd0",  # TEM and RST stand alone
        b"\xff\xe5\0\0",  # lengths that do not even count themselves
        b"\xff\xe5\0\1",
    ],
)
def test_bytes_that_decoders_skip_between_segments_are_skipped(look: Look, odd: bytes) -> None:
    header = look(SOI + segment(0xE0) + odd + frame() + odd + PIXELS + odd + EOI)
    assert (header.width, header.scans) == (5, 1)


def test_the_scans_are_counted_and_limited(look: Look, refusal: Refusal) -> None:
    assert look(SOI + frame(0xC2) + PIXELS * 100 + EOI).scans == 100
    details = refusal(SOI + frame(0xC2) + PIXELS * 101 + EOI)
    assert details == "expected at most 100 JPEG scans for image but received 101"


def test_a_jpeg_of_too_many_segments_is_refused(look: Look, refusal: Refusal) -> None:
    """Our own bound on the work: 2,048 segments, the frame, the scan and the end among them."""
    room = MAX_SEGMENTS - 3
    assert look(SOI + segment(0xFE) * room + WHOLE[2:]).width == 5
    assert "at most 2,048 parts" in refusal(SOI + segment(0xFE) * (room + 1) + WHOLE[2:])


def test_all_application_segments_and_comments_count_as_metadata(look: Look, refusal: Refusal) -> None:
    parts = segment(0xE0, bytes(100)) + segment(0xEF, bytes(20)) + segment(0xFE, bytes(3))
    assert look(SOI + parts + segment(0xDB, bytes(65)) + WHOLE[2:]).metadata_bytes == 123
    full = segment(0xFE, bytes(65_533)) * 65
    assert "at most 4,194,304 bytes of metadata" in refusal(SOI + full + WHOLE[2:])


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
def test_each_kind_of_metadata_is_told(look: Look, code: int, content: bytes, kind: MetadataKind) -> None:
    header = look(SOI + segment(code, content) + WHOLE[2:])
    assert header.metadata == {kind}
    assert header.has_metadata is (kind is not MetadataKind.ICC)
    assert look(SOI + segment(0xEC, content) + WHOLE[2:]).metadata == frozenset()


def test_markers_are_found_wherever_the_pages_of_the_reader_part(look: Look) -> None:
    for shift in range(-3, 2):
        data = SOI + frame() + PIXELS
        data += b"x" * (PAGE - len(data) + shift) + EOI
        assert look(data).end_offset == len(data)
