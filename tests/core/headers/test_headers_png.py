"""Tests of the header scan of PNG and APNG."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import pytest

from imagehost_core.headers.header import ImageHeader, MetadataKind
from imagehost_core.headers.png import MAX_CHUNKS

ScanBytes = Callable[[bytes], ImageHeader]
ScanError = Callable[..., str]

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def ihdr(
    width: int = 5, height: int = 3, *, depth: int = 8, colour: int = 2, methods: bytes = bytes(3)
) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBB", width, height, depth, colour) + methods)


def actl(frames: int) -> bytes:
    return chunk(b"acTL", struct.pack(">II", frames, 0))


def fctl(number: int, width: int = 5, height: int = 3, left: int = 0, top: int = 0) -> bytes:
    return chunk(b"fcTL", struct.pack(">5I", number, width, height, left, top) + bytes(6))


def fdat(number: int) -> bytes:
    return chunk(b"fdAT", struct.pack(">I", number) + b"pixels")


IDAT, IEND = chunk(b"IDAT", b"pixels"), chunk(b"IEND")


def png(*parts: bytes, head: bytes = ihdr()) -> bytes:  # bytes are immutable
    return SIGNATURE + head + b"".join(parts) + IEND


def test_size_and_end_of_a_png_are_read(scan_bytes: ScanBytes) -> None:
    header = scan_bytes(png(IDAT))
    assert (header.format, header.width, header.height, header.frames) == ("png", 5, 3, 1)
    assert (header.end_offset, header.scans, header.orientation, header.has_alpha) == (
        len(png(IDAT)),
        0,
        1,
        False,
    )


@pytest.mark.parametrize("colour", range(8))
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8, 16, 32])
def test_only_valid_pairs_of_colour_type_and_depth_are_accepted(
    scan_bytes: ScanBytes, scan_error: ScanError, colour: int, depth: int
) -> None:
    valid = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}
    data = png(IDAT, head=ihdr(colour=colour, depth=depth))
    if depth in valid.get(colour, ()):
        assert scan_bytes(data).has_alpha is (colour in {4, 6})
    else:
        assert f"colour type {colour} with {depth} bits" in scan_error(data)


@pytest.mark.parametrize("methods", [b"\1\0\0", b"\0\1\0", b"\0\0\2"])
def test_unknown_methods_are_rejected(scan_error: ScanError, methods: bytes) -> None:
    assert "known methods" in scan_error(png(IDAT, head=ihdr(methods=methods)))


def test_an_interlaced_png_is_accepted(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(png(IDAT, head=ihdr(methods=b"\0\0\1"))).width == 5


@pytest.mark.parametrize(("width", "height"), [(0, 3), (5, 0), (2**31, 3), (5, 2**31)])
def test_invalid_sides_are_rejected(scan_error: ScanError, width: int, height: int) -> None:
    assert "1 pixel or more" in scan_error(png(IDAT, head=ihdr(width, height)))


def test_a_header_with_a_wrong_checksum_is_rejected(scan_error: ScanError) -> None:
    data = bytearray(png(IDAT))
    data[19] ^= 1
    assert "checksum" in scan_error(bytes(data))


@pytest.mark.parametrize("head", [chunk(b"tEXt", bytes(13)), chunk(b"IHDR", bytes(14)), IDAT * 2])
def test_a_png_that_does_not_begin_with_its_header_is_rejected(scan_error: ScanError, head: bytes) -> None:
    assert "IHDR of 13 bytes first" in scan_error(png(ihdr(), IDAT, head=head))


def test_a_second_header_is_rejected(scan_error: ScanError) -> None:
    assert "one IHDR" in scan_error(png(ihdr(9, 9), IDAT))


def test_a_png_without_pixels_is_rejected(scan_error: ScanError) -> None:
    assert "without IDAT" in scan_error(png())


@pytest.mark.parametrize("size", [769, 771, 5])
def test_a_palette_of_an_invalid_size_is_rejected(scan_error: ScanError, size: int) -> None:
    assert "palette" in scan_error(png(chunk(b"PLTE", bytes(size)), IDAT))


def test_a_palette_of_256_colours_is_accepted(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(png(chunk(b"PLTE", bytes(768)), IDAT, head=ihdr(colour=3))).width == 5


def test_an_invalid_chunk_type_is_rejected(scan_error: ScanError) -> None:
    assert r"'\x00\x00\x00\x00' at offset" in scan_error(png(IDAT, bytes(12)))


def test_a_chunk_that_extends_beyond_the_file_is_rejected(scan_error: ScanError) -> None:
    whole = SIGNATURE + ihdr() + IDAT
    for cut in range(1, len(IDAT)):
        assert "expected" in scan_error(whole[:-cut])
    assert "cut short" in scan_error(whole[:-1])
    assert "cut short" in scan_error(SIGNATURE + ihdr()[:9])
    assert "cut short" in scan_error(SIGNATURE + ihdr() + IDAT[:5])


@pytest.mark.parametrize("cut", range(1, 13))
def test_a_png_without_its_last_chunk_is_accepted_as_in_decoders(scan_bytes: ScanBytes, cut: int) -> None:
    data = png(IDAT)[:-cut]
    assert scan_bytes(data).end_offset == (len(data) if cut < 5 else len(png(IDAT)) - 12)


def test_an_end_chunk_with_content_is_rejected(scan_error: ScanError) -> None:
    """It could carry any data as a part of the image."""
    assert "an empty IEND" in scan_error(SIGNATURE + ihdr() + IDAT + chunk(b"IEND", b"x"))


def test_transparency_counts_only_before_the_pixels(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(png(chunk(b"tRNS", bytes(6)), IDAT)).has_alpha
    assert not scan_bytes(png(IDAT, chunk(b"tRNS", bytes(6)))).has_alpha


def test_a_png_of_too_many_chunks_is_rejected(scan_bytes: ScanBytes, scan_error: ScanError) -> None:
    """The limit is 200,000 chunks, including IEND."""
    empty = chunk(b"IDAT")
    assert scan_bytes(png(empty * (MAX_CHUNKS - 1))).width == 5
    assert "at most 200,000 parts" in scan_error(png(empty * MAX_CHUNKS))


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (chunk(b"eXIf", b"II*\0"), MetadataKind.EXIF),
        (chunk(b"iCCP", b"name\0\0"), MetadataKind.ICC),
        (chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0<x/>"), MetadataKind.XMP),
        (chunk(b"zTXt", b"Raw profile type exif\0\0"), MetadataKind.EXIF),
        (chunk(b"tEXt", b"Raw profile type iptc\0"), MetadataKind.IPTC),
    ],
)
def test_each_kind_of_metadata_is_detected(scan_bytes: ScanBytes, part: bytes, kind: MetadataKind) -> None:
    header = scan_bytes(png(part, IDAT))
    assert header.metadata == {kind}


def test_the_first_exif_chunk_has_the_orientation(scan_bytes: ScanBytes) -> None:
    first, second = (b"MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0%c\0\0" % orientation for orientation in (6, 3))
    assert scan_bytes(png(chunk(b"eXIf", first), IDAT, chunk(b"eXIf", second))).orientation == 6
    assert scan_bytes(png(IDAT, chunk(b"eXIf", second))).orientation == 3


def test_the_frames_of_an_apng_are_counted(scan_bytes: ScanBytes) -> None:
    assert (
        scan_bytes(
            png(actl(3), fctl(0), IDAT, fctl(1), fdat(2), fdat(3), fctl(4, 2, 1, 3, 2), fdat(5))
        ).frames
        == 3
    )


def test_a_default_image_outside_the_animation_counts_as_a_frame(scan_bytes: ScanBytes) -> None:
    """Pillow decodes it as one."""
    assert scan_bytes(png(actl(2), IDAT, fctl(0), fdat(1), fctl(2), fdat(3))).frames == 3


def test_frames_beyond_the_announced_ones_are_ignored(scan_bytes: ScanBytes) -> None:
    assert scan_bytes(png(actl(1), fctl(0), IDAT, fctl(9, 99, 99), fctl(9), fdat(9))).frames == 1


@pytest.mark.parametrize(
    "parts",
    [
        (IDAT, fctl(0), fdat(1)),
        (fctl(7), IDAT),
        (IDAT, actl(2), fctl(0), fdat(1)),
        (actl(1), actl(1), IDAT, fctl(7)),
        (actl(0), IDAT, fctl(7)),
        (actl(2**31 + 1), IDAT, fctl(7)),
        (chunk(b"acTL", b"\0\0\0\2"), IDAT),
    ],
)
def test_an_apng_whose_actl_is_missing_late_duplicated_or_invalid_is_a_still_image(
    scan_bytes: ScanBytes, parts: tuple[bytes, ...]
) -> None:
    assert scan_bytes(png(*parts)).frames == 1


@pytest.mark.parametrize(
    ("parts", "received"),
    [
        ((actl(3), fctl(0), IDAT, fctl(1), fdat(2)), "received 2"),
        ((actl(2), fctl(0), IDAT, fctl(1)), "received 1"),
        ((actl(2), fctl(0), IDAT, fctl(1), fctl(2), fdat(3)), "frame 2 without pixels"),
        ((actl(2), fctl(1), IDAT, fctl(2), fdat(3)), "the number 1 where 0 should be"),
        ((actl(2), fctl(0), IDAT, fctl(1), fdat(1)), "the number 1 where 2 should be"),
        ((actl(2), fctl(0), IDAT, fctl(1), fdat(2), fdat(2)), "the number 2 where 3 should be"),
        ((actl(1), fctl(0, 6), IDAT), "a frame of 6×3 at 0, 0"),
        ((actl(1), fctl(0, 5, 3, 0, 1), IDAT), "a frame of 5×3 at 0, 1"),
        ((actl(1), fctl(0, 0), IDAT), "a frame of 0×3 at 0, 0"),
        ((actl(1), fctl(0, 5, 0), IDAT), "a frame of 5×0 at 0, 0"),
        ((actl(1), chunk(b"fcTL", bytes(25)), IDAT), "a fcTL of 25 bytes"),
        ((actl(1), IDAT, fctl(0), chunk(b"fdAT", bytes(3))), "a fdAT of 3 bytes"),
    ],
)
def test_an_apng_whose_frames_are_missing_or_out_of_order_is_rejected(
    scan_error: ScanError, parts: tuple[bytes, ...], received: str
) -> None:
    assert received in scan_error(png(*parts))


def test_the_first_error_of_an_apng_is_reported(scan_error: ScanError) -> None:
    short = chunk(b"fcTL", bytes(25))
    assert "a fcTL of 25 bytes" in scan_error(png(actl(1), short, short, fctl(7, 9), fctl(1), IDAT))


def test_the_frames_of_an_apng_are_limited(scan_error: ScanError) -> None:
    frames = b"".join(fctl(number) + fdat(number + 1) for number in range(0, 2_000, 2))
    details = scan_error(png(actl(1_000), IDAT, frames))
    assert details == "expected at most 1,000 frames for image but received 1,001"
