"""What the header scan accepts and refuses of PNG and APNG."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import pytest

from imagehost_core.headers import ImageHeader, MetadataKind
from imagehost_core.headers.png import MAX_CHUNKS

Look = Callable[[bytes], ImageHeader]
Refusal = Callable[..., str]

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


def png(*parts: bytes, head: bytes = ihdr()) -> bytes:  # bytes do not change
    return SIGNATURE + head + b"".join(parts) + IEND


def test_a_png_tells_its_size_and_its_end(look: Look) -> None:
    header = look(png(IDAT))
    assert (header.format, header.width, header.height, header.frames) == ("png", 5, 3, 1)
    assert (header.end_offset, header.scans, header.orientation, header.has_alpha) == (
        len(png(IDAT)),
        0,
        1,
        False,
    )


@pytest.mark.parametrize("colour", range(8))
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8, 16, 32])
def test_only_known_pairs_of_colour_type_and_depth_are_accepted(
    look: Look, refusal: Refusal, colour: int, depth: int
) -> None:
    known = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}
    data = png(IDAT, head=ihdr(colour=colour, depth=depth))
    if depth in known.get(colour, ()):
        assert look(data).has_alpha is (colour in {4, 6})
    else:
        assert f"colour type {colour} with {depth} bits" in refusal(data)


@pytest.mark.parametrize("methods", [b"\1\0\0", b"\0\1\0", b"\0\0\2"])
def test_unknown_methods_are_refused(refusal: Refusal, methods: bytes) -> None:
    assert "known methods" in refusal(png(IDAT, head=ihdr(methods=methods)))


def test_an_interlaced_png_is_accepted(look: Look) -> None:
    assert look(png(IDAT, head=ihdr(methods=b"\0\0\1"))).width == 5


@pytest.mark.parametrize(("width", "height"), [(0, 3), (5, 0), (2**31, 3), (5, 2**31)])
def test_sides_that_png_does_not_allow_are_refused(refusal: Refusal, width: int, height: int) -> None:
    assert "1 pixel or more" in refusal(png(IDAT, head=ihdr(width, height)))


def test_a_header_with_a_wrong_checksum_is_refused(refusal: Refusal) -> None:
    data = bytearray(png(IDAT))
    data[19] ^= 1
    assert "checksum" in refusal(bytes(data))


@pytest.mark.parametrize("head", [chunk(b"tEXt", bytes(13)), chunk(b"IHDR", bytes(14)), IDAT * 2])
def test_a_png_that_does_not_begin_with_its_header_is_refused(refusal: Refusal, head: bytes) -> None:
    assert "IHDR of 13 bytes first" in refusal(png(ihdr(), IDAT, head=head))


def test_a_second_header_is_refused(refusal: Refusal) -> None:
    assert "one IHDR" in refusal(png(ihdr(9, 9), IDAT))


def test_a_png_without_pixels_is_refused(refusal: Refusal) -> None:
    assert "without IDAT" in refusal(png())


@pytest.mark.parametrize("size", [769, 771, 5])
def test_a_palette_of_no_possible_size_is_refused(refusal: Refusal, size: int) -> None:
    assert "palette" in refusal(png(chunk(b"PLTE", bytes(size)), IDAT))


def test_a_palette_of_256_colours_is_accepted(look: Look) -> None:
    assert look(png(chunk(b"PLTE", bytes(768)), IDAT, head=ihdr(colour=3))).metadata_bytes == 0


def test_a_type_that_is_no_chunk_s_is_refused(refusal: Refusal) -> None:
    assert r"'\x00\x00\x00\x00' at offset" in refusal(png(IDAT, bytes(12)))


def test_a_chunk_that_reaches_beyond_the_file_is_cut_short(refusal: Refusal) -> None:
    whole = SIGNATURE + ihdr() + IDAT
    for cut in range(1, len(IDAT)):
        assert "expected" in refusal(whole[:-cut])
    assert "cut short" in refusal(whole[:-1])
    assert "cut short" in refusal(SIGNATURE + ihdr()[:9])
    assert "cut short" in refusal(SIGNATURE + ihdr() + IDAT[:5])


@pytest.mark.parametrize("cut", range(1, 13))
def test_a_png_that_lacks_only_its_last_chunk_passes_as_decoders_read_it(look: Look, cut: int) -> None:
    data = png(IDAT)[:-cut]
    assert look(data).end_offset == (len(data) if cut < 5 else len(png(IDAT)) - 12)


def test_an_end_chunk_with_content_is_refused(refusal: Refusal) -> None:
    """It could take along anything as a part of the picture."""
    assert "an empty IEND" in refusal(SIGNATURE + ihdr() + IDAT + chunk(b"IEND", b"x"))


def test_transparency_counts_where_it_comes_before_the_pixels(look: Look) -> None:
    assert look(png(chunk(b"tRNS", bytes(6)), IDAT)).has_alpha
    assert not look(png(IDAT, chunk(b"tRNS", bytes(6)))).has_alpha


def test_a_png_of_too_many_chunks_is_refused(look: Look, refusal: Refusal) -> None:
    """Our own bound on the work: 200,000 chunks, IEND among them."""
    empty = chunk(b"IDAT")
    assert look(png(empty * (MAX_CHUNKS - 1))).width == 5
    assert "at most 200,000 parts" in refusal(png(empty * MAX_CHUNKS))


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
def test_each_kind_of_metadata_is_told(look: Look, part: bytes, kind: MetadataKind) -> None:
    header = look(png(part, IDAT))
    assert header.metadata == {kind}
    assert header.metadata_bytes == len(part) - 12


def test_the_first_exif_tells_the_orientation(look: Look) -> None:
    first, second = (b"MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0%c\0\0" % turn for turn in (6, 3))
    assert look(png(chunk(b"eXIf", first), IDAT, chunk(b"eXIf", second))).orientation == 6
    assert look(png(IDAT, chunk(b"eXIf", second))).orientation == 3


def test_everything_but_pixels_counts_as_metadata_in_its_stored_size(look: Look, refusal: Refusal) -> None:
    bomb = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(20_000_000)))
    header = look(png(bomb, chunk(b"prVT", bytes(7)), IDAT, chunk(b"tIME", bytes(7))))
    assert header.metadata_bytes == len(bomb) - 12 + 14
    assert header.metadata == frozenset()
    details = refusal(png(chunk(b"zTXt", bytes(4 * 1024 * 1024 + 1)), IDAT))
    assert details == "expected at most 4,194,304 bytes of metadata for image but received 4,194,305"


def test_an_apng_tells_its_frames(look: Look) -> None:
    assert (
        look(png(actl(3), fctl(0), IDAT, fctl(1), fdat(2), fdat(3), fctl(4, 2, 1, 3, 2), fdat(5))).frames == 3
    )


def test_a_default_image_outside_the_animation_counts_as_a_frame(look: Look) -> None:
    """Pillow decodes it as one."""
    assert look(png(actl(2), IDAT, fctl(0), fdat(1), fctl(2), fdat(3))).frames == 3


def test_frames_beyond_the_announced_ones_are_not_looked_at(look: Look) -> None:
    assert look(png(actl(1), fctl(0), IDAT, fctl(9, 99, 99), fctl(9), fdat(9))).frames == 1


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
def test_an_apng_whose_control_is_missing_late_doubled_or_senseless_is_a_still_picture(
    look: Look, parts: tuple[bytes, ...]
) -> None:
    assert look(png(*parts)).frames == 1


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
def test_an_apng_whose_frames_are_missing_or_out_of_order_is_refused(
    refusal: Refusal, parts: tuple[bytes, ...], received: str
) -> None:
    assert received in refusal(png(*parts))


def test_the_first_fault_of_an_apng_is_the_one_that_is_told(refusal: Refusal) -> None:
    short = chunk(b"fcTL", bytes(25))
    assert "a fcTL of 25 bytes" in refusal(png(actl(1), short, short, fctl(7, 9), fctl(1), IDAT))


def test_the_frames_of_an_apng_are_limited(refusal: Refusal) -> None:
    frames = b"".join(fctl(number) + fdat(number + 1) for number in range(0, 2_000, 2))
    details = refusal(png(actl(1_000), IDAT, frames))
    assert details == "expected at most 1,000 frames for image but received 1,001"
