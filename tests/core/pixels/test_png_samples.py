"""Samples of a PNG: their transparent colour at the depth of the file, and what its colour chunks mean."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms
from tests.unusual_files import PNG_CHANNELS, png_of_samples

from imagehost_core.formats import Format
from imagehost_core.headers.scanner import scan
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.linear_light import to_srgb
from imagehost_core.pixels.render import render
from imagehost_core.transform import ORIGIN, Plan, Size

PNG, WEBP = Format.PNG, Format.WEBP
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
TYPES = [(GREY, 1), (GREY, 2), (GREY, 4), (GREY, 8), (GREY, 16), (RGB, 8), (RGB, 16)]
Chunk = tuple[bytes, bytes]

ORANGE = (180, 90, 60)
SRGB_PRIMARIES = (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
P3_PRIMARIES = (31270, 32900, 68000, 32000, 26500, 69000, 15000, 6000)
SRGB_PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def flat(*chunks: Chunk, colour: Sequence[int] = ORANGE, colour_type: int = RGB, depth: int = 8) -> bytes:
    return png_of_samples([colour], colour_type, depth, *chunks)


def shown(data: bytes, fmt: Format = PNG) -> Image.Image:
    """Return a lossless variant of a file in its own size."""
    header = scan(BytesIO(data), len(data))
    size = Size(header.width, header.height)
    job = RenderJob(Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size), PNG, None)
    return Image.open(BytesIO(render(job, fmt, data)[1][0])).convert("RGBA")


def stored(data: bytes) -> bytes:
    """Return the lossless WebP that is stored of a PNG."""
    master: bytes = ingest(IngestJob(PNG, requested_format=WEBP), data)[1][0]
    return master


def colour_of(image: Image.Image) -> tuple[int, ...]:
    return tuple(image.crop((0, 0, 1, 1)).tobytes())


def is_near(colour: Sequence[int], expected: Sequence[int], most: int = 2) -> bool:
    return all(abs(one - other) <= most for one, other in zip(colour, expected, strict=False))


@given(st.data(), st.sampled_from(TYPES), st.booleans())
def test_only_pixels_equal_to_the_transparent_colour_at_the_files_depth_are_transparent(
    data: st.DataObject, kind: tuple[int, int], linear: bool
) -> None:
    colour_type, depth = kind
    channels, maximum = PNG_CHANNELS[colour_type], 2**depth - 1
    transparent = data.draw(st.tuples(*[st.integers(0, maximum)] * channels))
    # Neighbours of the transparent colour are equal to it after a reduction to fewer bits.
    near = [st.sampled_from([max(0, level - 1), level, min(maximum, level + 1)]) for level in transparent]
    pixels = data.draw(st.lists(st.tuples(*near) | st.just(transparent), min_size=1, max_size=12))
    chunks = [(b"tRNS", struct.pack(f">{channels}H", *transparent))]
    if linear:
        chunks.append((b"gAMA", struct.pack(">I", 100_000)))
    image = shown(
        png_of_samples([[sample for pixel in pixels for sample in pixel]], colour_type, depth, *chunks)
    )
    assert list(image.getchannel("A").tobytes()) == [0 if pixel == transparent else 255 for pixel in pixels]
    for index, pixel in enumerate(pixels):
        if pixel != transparent:
            levels = [sample / maximum for sample in pixel]
            expected = [255 * (to_srgb(level) if linear else level) for level in levels]
            expected = expected if channels == 3 else expected * 3
            assert is_near(
                tuple(image.crop((index, 0, index + 1, 1)).tobytes()), [round(v) for v in expected], 1
            )


@pytest.mark.parametrize(("colour_type", "depth"), TYPES)
def test_an_image_of_its_transparent_colour_is_stored_transparent(colour_type: int, depth: int) -> None:
    channels = PNG_CHANNELS[colour_type]
    data = flat(
        (b"tRNS", struct.pack(f">{channels}H", *[1] * channels)),
        colour=[1] * channels,
        colour_type=colour_type,
        depth=depth,
    )
    result, (master, *_) = ingest(IngestJob(PNG, requested_format=WEBP), data)
    assert result.has_alpha
    assert colour_of(Image.open(BytesIO(master)).convert("RGBA"))[3] == 0


@pytest.mark.parametrize("length", [0, 1, 3, 5, 7])
@pytest.mark.parametrize("colour_type", [GREY, RGB, GREY_ALPHA])
def test_a_transparent_colour_of_another_length_is_ignored(colour_type: int, length: int) -> None:
    samples = [7] * PNG_CHANNELS[colour_type]
    plain = flat(colour=samples, colour_type=colour_type)
    data = flat((b"tRNS", (b"\0\7" * 4)[:length]), colour=samples, colour_type=colour_type)
    assert shown(data).tobytes() == shown(plain).tobytes()


@given(st.data(), st.sampled_from([GREY_ALPHA, RGBA, GREY, RGB]), st.booleans())
def test_samples_of_16_bits_are_reduced_to_the_nearest_level(
    data: st.DataObject, colour_type: int, linear: bool
) -> None:
    channels = PNG_CHANNELS[colour_type]
    samples = data.draw(st.lists(st.integers(0, 65_535), min_size=channels, max_size=channels))
    chunks = [(b"gAMA", struct.pack(">I", 100_000))] if linear else []
    colours = channels - (channels in (2, 4))
    levels = [s / 65_535 for s in samples]
    expected = [255 * (to_srgb(v) if linear and i < colours else v) for i, v in enumerate(levels)]
    expected = expected if channels > 2 else [expected[0]] * 3 + expected[1:]
    received = colour_of(shown(flat(*chunks, colour=samples, colour_type=colour_type, depth=16)))
    if channels in (2, 4) and not received[3]:
        return
    assert is_near(received, [round(value) for value in expected], 1)


def gama(value: int) -> Chunk:
    return b"gAMA", struct.pack(">I", value)


def chrm(values: Sequence[int]) -> Chunk:
    return b"cHRM", struct.pack(">8I", *values)


def cicp(*values: int) -> Chunk:
    return b"cICP", bytes(values)


def iccp(profile: bytes) -> Chunk:
    return b"iCCP", b"profile\0\0" + zlib.compress(profile)


SRGB = (b"sRGB", b"\0")
LINEAR, P3 = gama(100_000), cicp(12, 13, 0, 1)
PLAIN, LINEAR_COLOUR, P3_COLOUR = ORANGE, (219, 160, 133), (193, 83, 51)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], PLAIN),
        ([LINEAR], LINEAR_COLOUR),
        ([P3], P3_COLOUR),
        # Each chunk prevails over those after it in the standard's order, whatever their order in the file.
        ([LINEAR, SRGB], PLAIN),
        ([SRGB, LINEAR, chrm(P3_PRIMARIES)], PLAIN),
        ([LINEAR, iccp(SRGB_PROFILE)], PLAIN),
        ([iccp(SRGB_PROFILE), LINEAR, SRGB, P3], P3_COLOUR),
        # gAMA and cHRM count together; cHRM alone does not, and a gAMA like that of sRGB means sRGB.
        ([gama(45_455)], PLAIN),
        ([chrm(P3_PRIMARIES)], PLAIN),
        ([LINEAR, chrm(SRGB_PRIMARIES)], LINEAR_COLOUR),
        ([gama(45_455), chrm(P3_PRIMARIES)], (195, 83, 47)),
        ([LINEAR, chrm(P3_PRIMARIES)], (229, 157, 128)),
        # What is malformed or reserved is skipped.
        ([(b"sRGB", b""), LINEAR], LINEAR_COLOUR),
        ([(b"iCCP", b"profile\0\0not compressed"), LINEAR], LINEAR_COLOUR),
        ([gama(0), chrm(P3_PRIMARIES)], PLAIN),
        ([(b"gAMA", b"\0\0")], PLAIN),
        ([LINEAR, (b"cHRM", bytes(8))], LINEAR_COLOUR),
        ([LINEAR, chrm([0] * 8)], LINEAR_COLOUR),
        ([LINEAR, chrm([30_000] * 8)], LINEAR_COLOUR),
        ([cicp(12, 13, 0, 0), LINEAR], LINEAR_COLOUR),
        ([cicp(12, 13, 1, 1), LINEAR], LINEAR_COLOUR),
        ([cicp(2, 2, 0, 1), LINEAR], LINEAR_COLOUR),
        ([(b"cICP", b"\x0c\x0d"), LINEAR], LINEAR_COLOUR),
        # The codes of ITU-T H.273.
        ([cicp(1, 8, 0, 1)], LINEAR_COLOUR),
        ([cicp(1, 1, 0, 1)], (176, 81, 49)),
        ([cicp(1, 4, 0, 1)], (181, 90, 57)),
        ([cicp(1, 5, 0, 1)], (165, 66, 36)),
        ([cicp(9, 14, 0, 1)], (214, 55, 37)),
        ([cicp(12, 17, 0, 1)], (191, 68, 31)),
    ],
)
def test_colour_chunks_count_in_the_order_of_the_standard(
    chunks: list[Chunk], expected: tuple[int, ...]
) -> None:
    # The expected colours are those that Chromium draws.
    data = flat(*chunks)
    assert is_near(colour_of(shown(data)), expected)
    assert is_near(colour_of(shown(stored(data), WEBP)), expected)
    deep = flat(*chunks, colour=[257 * level for level in ORANGE], depth=16)
    assert is_near(colour_of(shown(deep)), expected)
    palette = png_of_samples([[0]], PALETTE, 8, *chunks, (b"PLTE", bytes(ORANGE)))
    assert is_near(colour_of(shown(palette)), expected)


@pytest.mark.parametrize("chunks", [[LINEAR], [cicp(12, 8, 0, 1)], [LINEAR, chrm(P3_PRIMARIES)]])
@pytest.mark.parametrize("depth", [8, 16])
def test_grey_has_a_transfer_function_and_no_primaries(chunks: list[Chunk], depth: int) -> None:
    level = 90 * 257 if depth == 16 else 90
    image = Image.open(BytesIO(stored(flat(*chunks, colour=[level], colour_type=GREY, depth=depth))))
    assert "icc_profile" not in image.info
    assert is_near(colour_of(image.convert("RGB")), (160,) * 3, 1)


def test_a_stored_image_of_other_primaries_has_a_profile_of_them(factory: Any) -> None:
    image = Image.open(BytesIO(stored(flat(P3))))
    assert colour_of(image.convert("RGB")) == ORANGE
    profile = ImageCms.ImageCmsProfile(BytesIO(image.info["icc_profile"])).profile
    colourants = (profile.red_colorant, profile.green_colorant, profile.blue_colorant)
    for colourant, expected in zip(colourants, factory.P3_TO_XYZ, strict=True):
        assert colourant is not None
        assert colourant[0] == pytest.approx(expected, abs=0.001)
    assert "icc_profile" not in Image.open(BytesIO(stored(flat(LINEAR)))).info


PERCEPTUAL_QUANTISER, HYBRID_LOG_GAMMA = 16, 18


@pytest.mark.parametrize(
    ("transfer", "level", "expected"),
    [
        (PERCEPTUAL_QUANTISER, 0, 0),
        (PERCEPTUAL_QUANTISER, 100, 76),
        (PERCEPTUAL_QUANTISER, 148, 187),
        (PERCEPTUAL_QUANTISER, 170, 229),
        (PERCEPTUAL_QUANTISER, 192, 255),
        (PERCEPTUAL_QUANTISER, 255, 255),
        (HYBRID_LOG_GAMMA, 0, 0),
        (HYBRID_LOG_GAMMA, 128, 99),
        (HYBRID_LOG_GAMMA, 192, 189),
        (HYBRID_LOG_GAMMA, 255, 255),
    ],
)
def test_high_dynamic_range_is_tone_mapped(transfer: int, level: int, expected: int) -> None:
    # As in Chromium, up to 6 levels above diffuse white.
    most = 6 if 148 < level < 192 else 2
    colour = colour_of(shown(flat(cicp(9, transfer, 0, 1), colour=[level] * 3)))
    assert is_near(colour, [expected] * 3, most)


@pytest.mark.parametrize("transfer", [PERCEPTUAL_QUANTISER, HYBRID_LOG_GAMMA])
def test_tone_mapping_never_darkens_a_brighter_sample(transfer: int) -> None:
    rows = [[level for level in range(256) for _ in range(3)]]
    levels = shown(png_of_samples(rows, RGB, 8, cicp(1, transfer, 0, 1))).getchannel("R").tobytes()
    assert list(levels) == sorted(levels)
    assert (levels[0], levels[255]) == (0, 255)
