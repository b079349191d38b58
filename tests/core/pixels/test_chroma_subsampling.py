"""Chroma subsampling with luma correction keeps the brightness of every pixel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from math import sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, _imaging

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.pixels import chroma_subsampling, codec_fingerprint
from imagehost_core.pixels.encode import encode
from imagehost_core.pixels.linear_light import SRGB_TO_LINEAR
from imagehost_core.pixels.render import render
from imagehost_core.transform import Size, Transform, plan

Triple = tuple[float, ...]
Position = tuple[int, int]
"""Row and column."""
LUMA, LUMINANCE = (0.299, 0.587, 0.114), (0.2126, 0.7152, 0.0722)


@pytest.fixture(scope="module")
def chroma(native_resampler: Any) -> Any:
    """The module, with its C extension, which is built together with the native resampler."""
    assert native_resampler
    assert chroma_subsampling.CHROMA_SUBSAMPLING == "sharp", "the C extension _chroma was not built"
    return chroma_subsampling


def _weighted_sum(weights: Triple, values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def _brightness(pixel: Sequence[float]) -> float:
    return sqrt(_weighted_sum(LUMINANCE, [level * level for level in pixel]))


def _mean_chroma(pixels: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the chroma of the mean linear light of pixels."""
    mean = [sqrt(sum(pixel[c] ** 2 for pixel in pixels) / len(pixels)) for c in range(3)]
    luma = _weighted_sum(LUMA, mean)
    return (mean[2] - luma) / 1.772, (mean[0] - luma) / 1.402


def _to_rgb(luma: float, chroma: Sequence[float]) -> Triple:
    cb, cr = chroma
    levels = (luma + 1.402 * cr, luma - 0.344136 * cb - 0.714136 * cr, luma + 1.772 * cb)
    return tuple(min(255.0, max(0.0, level)) for level in levels)


class Reference:
    """The algorithm in plain Python, with a dictionary by position for each quantity.

    The last row and column of an odd side are repeated.
    """

    def __init__(self, image: Image.Image) -> None:
        self.positions = list(product(range(image.height), range(image.width)))
        self.rows, self.columns = (image.height + 1) // 2, (image.width + 1) // 2
        padded = image.crop((0, 0, 2 * self.columns, 2 * self.rows))
        padded.paste(image.crop((image.width - 1, 0, image.width, image.height)), (2 * self.columns - 1, 0))
        padded.paste(padded.crop((0, image.height - 1, padded.width, image.height)), (0, padded.height - 1))
        data = padded.tobytes()
        positions = list(product(range(padded.height), range(padded.width)))
        pixels = {position: tuple(data[3 * at : 3 * at + 3]) for at, position in enumerate(positions)}
        self.brightness = {position: _brightness(pixel) for position, pixel in pixels.items()}
        self.luma = {position: _weighted_sum(LUMA, pixel) for position, pixel in pixels.items()}
        target = self.mean_chroma(pixels)
        self.correct_luma(target)
        decoded = {
            position: _to_rgb(luma, self.upsample(target, position)) for position, luma in self.luma.items()
        }
        self.chroma = {}
        for block, mean in self.mean_chroma(decoded).items():
            pairs = zip(target[block], mean, strict=True)
            self.chroma[block] = tuple(min(127.5, max(-127.5, 2 * a - b)) for a, b in pairs)
        self.correct_luma(self.chroma)

    def mean_chroma(self, pixels: Mapping[Position, Triple]) -> dict[Position, Triple]:
        """Return the chroma of each 2×2 block."""
        blocks = product(range(self.rows), range(self.columns))
        return {
            (y, x): _mean_chroma([pixels[2 * y + i, 2 * x + j] for i in (0, 1) for j in (0, 1)])
            for y, x in blocks
        }

    def upsample(self, chroma: dict[Position, Triple], position: Position) -> Triple:
        """Return the chroma at a pixel that decoders interpolate: 9, 3, 3 and 1 sixteenths of blocks."""
        y, x = (at // 2 for at in position)
        other_y = min(max(y + (1 if position[0] % 2 else -1), 0), self.rows - 1)
        other_x = min(max(x + (1 if position[1] % 2 else -1), 0), self.columns - 1)
        corners = [(y, x), (y, other_x), (other_y, x), (other_y, other_x)]
        return tuple(
            _weighted_sum((9 / 16, 3 / 16, 3 / 16, 1 / 16), [chroma[at][c] for at in corners]) for c in (0, 1)
        )

    def correct_luma(self, chroma: dict[Position, Triple]) -> None:
        """Adjust every pixel's luma so that its brightness is that of the source."""
        for position, luma in self.luma.items():
            brightness = _brightness(_to_rgb(luma, self.upsample(chroma, position)))
            self.luma[position] = min(255.0, max(0.0, luma + self.brightness[position] - brightness))

    def to_ycbcr(self) -> bytes:
        """Return luma, Cb and Cr of each pixel."""
        chroma = {(y, x): self.chroma[y // 2, x // 2] for y, x in self.positions}
        levels = ((self.luma[at], chroma[at][0] + 128, chroma[at][1] + 128) for at in self.positions)
        return bytes(min(255, int(level + 0.5)) for pixel in levels for level in pixel)

    def to_rgb(self) -> bytes:
        """Return red, green and blue of each pixel; desaturated where one of them would exceed 255."""
        data = bytearray()
        for y, x in self.positions:
            luma, (cb, cr) = self.luma[y, x], self.chroma[y // 2, x // 2]
            differences = (1.402 * cr, -0.344136 * cb - 0.714136 * cr, 1.772 * cb)
            scale = min(1.0, *((255 - luma) / value for value in differences if value > 1e-6), 1.0)
            data += bytes(max(0, int(luma + scale * value + 0.5)) for value in differences)
        return bytes(data)


sides = st.integers(1, 13)


@given(sides, sides, st.integers(0, 99), st.booleans())
def test_it_equals_the_plain_python_implementation_within_one_level(
    chroma: Any, factory: Any, width: int, height: int, seed: int, smooth: bool
) -> None:
    image = (factory.photo if smooth else factory.noise)(width, height, seed)
    reference = Reference(image)
    for mode, expected in (("YCbCr", reference.to_ycbcr()), ("RGB", reference.to_rgb())):
        data = chroma.subsample_420(image, mode).tobytes()
        assert max(abs(a - b) for a, b in zip(data, expected, strict=True)) <= 1


@given(sides, sides, st.integers(0, 255))
def test_grey_is_unchanged(chroma: Any, width: int, height: int, seed: int) -> None:
    levels = [(seed + 7 * i) % 256 for i in range(width * height)]
    image = Image.frombytes("RGB", (width, height), bytes(level for level in levels for _ in range(3)))
    assert chroma.subsample_420(image, "RGB").tobytes() == image.tobytes()
    planes = bytes(value for level in levels for value in (level, 128, 128))
    assert chroma.subsample_420(image, "YCbCr").tobytes() == planes


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_a_uniform_colour_is_unchanged(chroma: Any, colour: tuple[int, int, int]) -> None:
    data = chroma.subsample_420(Image.new("RGB", (5, 5), colour), "RGB").tobytes()
    assert max(abs(level - colour[at % 3]) for at, level in enumerate(data)) <= 1


LOSSY = [Format.JPEG, Format.WEBP, Format.AVIF]


def _luminance(image: Image.Image) -> float:
    """Return the mean luminance of an image, 0 to 1."""
    data = image.tobytes()
    means = [sum(SRGB_TO_LINEAR[level] for level in data[c::3]) * 3 / len(data) for c in range(3)]
    return _weighted_sum(LUMINANCE, means) / SRGB_TO_LINEAR[255]


def _columns(one: str, other: str) -> Image.Image:
    """Return alternating columns of one pixel in two colours, which share their chroma in 4:2:0."""
    image = Image.new("RGB", (64, 64), one)
    for x in range(0, 64, 2):
        image.paste(other, (x, 0, x + 1, 64))
    return image


@pytest.mark.parametrize("fmt", LOSSY)
@pytest.mark.parametrize(
    "colours", [("red", "blue"), ("red", "lime"), ("magenta", "black"), ("yellow", "blue")]
)
def test_fine_lines_in_saturated_colours_keep_their_brightness(
    chroma: Any, factory: Any, fmt: Format, colours: tuple[str, str]
) -> None:
    image = _columns(*colours)
    corrected, uncorrected = (
        factory.decode(encode(fmt, image, 90, subsample=subsample)) for subsample in (True, False)
    )
    expected = _luminance(image)
    assert abs(_luminance(corrected) - expected) < 0.04
    assert abs(_luminance(uncorrected) - expected) > 0.05


@pytest.mark.parametrize("fmt", LOSSY)
def test_white_beside_red_stays_white(chroma: Any, factory: Any, fmt: Format) -> None:
    image = Image.new("RGB", (64, 64), "white")
    image.paste("red", (0, 0, 31, 64))
    row = factory.decode(encode(fmt, image, 95, subsample=True)).convert("L").crop((31, 32, 64, 33)).tobytes()
    assert min(row) > 238


@pytest.mark.parametrize("fmt", LOSSY)
def test_variants_are_subsampled_with_luma_correction(chroma: Any, factory: Any, fmt: Format) -> None:
    image = factory.photo()
    source = factory.encode(image, Format.PNG)
    job = RenderJob(plan(Size(*image.size), Transform()), fmt, 90)
    assert render(job, Format.PNG, source)[1] == [encode(fmt, image, 90, subsample=True)]
    assert encode(fmt, image, 90, subsample=True) != encode(fmt, image, 90)


@pytest.mark.parametrize("fmt", [Format.PNG, Format.GIF])
def test_formats_without_chroma_subsampling_are_unaffected(chroma: Any, factory: Any, fmt: Format) -> None:
    image = factory.noise()
    assert encode(fmt, image, subsample=True) == encode(fmt, image)


@pytest.mark.parametrize("fmt", [Format.WEBP, Format.AVIF])
def test_images_with_alpha_are_subsampled_by_the_encoder(chroma: Any, factory: Any, fmt: Format) -> None:
    image = factory.photo(mode="RGBA")
    assert encode(fmt, image, subsample=True) == encode(fmt, image)


@pytest.mark.usefixtures("small_blocks")
def test_an_image_that_is_not_contiguous_is_copied(chroma: Any, factory: Any) -> None:
    image = factory.photo(1_200, 1_001)
    with pytest.raises(ValueError, match="contiguous"):
        image.__arrow_c_array__()
    _imaging.set_block_size(chroma.BLOCK_BYTES)
    copied = chroma.subsample_420(image, "RGB")
    assert chroma.subsample_420(image.copy(), "RGB") == copied


@pytest.mark.parametrize(
    ("pixels", "size"),
    [
        (bytes(8 * 6 * 4 - 1), (8, 6)),
        (bytes(8 * 6 * 4 + 4), (8, 6)),
        (b"", (8, 6)),
        (b"", (0, 0)),
        (bytes(8 * 6 * 4), (-8, -6)),
        (b"", (0, 6)),
        (b"", (65_536, 65_536)),
        (b"", (1_000_001, 1)),
    ],
)
def test_a_size_that_does_not_match_the_pixels_is_a_value_error(
    chroma: Any, pixels: bytes, size: tuple[int, int]
) -> None:
    with pytest.raises(ValueError, match="expected 4 bytes for each pixel of the size"):
        chroma.NATIVE(pixels, bytearray(pixels), size, False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("text", bytearray(4), (1, 1), False),
        (b"1234", "text", (1, 1), False),
        (b"1234", bytearray(4), (1.0, 1), False),
        (b"1234", bytearray(4), 1, False),
    ],
)
def test_arguments_of_another_type_are_a_type_error(chroma: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        chroma.NATIVE(*arguments)


@pytest.mark.parametrize("image", [Image.new("L", (8, 6)), Image.new("F", (8, 6)), Image.new("RGB", (6, 9))])
def test_an_arrow_array_of_other_pixels_is_a_value_error(chroma: Any, image: Image.Image) -> None:
    with pytest.raises(ValueError, match="expected 4 bytes"):
        chroma.NATIVE(image.__arrow_c_array__()[1], bytearray(8 * 6 * 4), (8, 6), False)
    with pytest.raises(ValueError, match="expected 4 bytes"):
        chroma.NATIVE(bytes(8 * 6 * 4), image.__arrow_c_array__()[1], (8, 6), False)


@pytest.mark.parametrize(
    ("fmt", "pixels", "subsampled"), [("JPEG", 0, False), ("JPEG", 6, True), ("PNG", 0, True)]
)
def test_large_variants_of_lossy_sources_are_subsampled_by_the_encoder(
    chroma: Any, factory: Any, monkeypatch: pytest.MonkeyPatch, fmt: str, pixels: int, subsampled: bool
) -> None:
    monkeypatch.setattr("imagehost_core.pixels.render.MAX_SUBSAMPLED_PIXELS", pixels * 1_000)
    data = factory.encode(factory.noise(96, 64).resize((100, 60)), Format[fmt])
    job = RenderJob(plan(Size(100, 60), Transform()), Format.WEBP, 80)
    expected = encode(Format.WEBP, factory.decode(data), 80, subsample=subsampled)
    assert render(job, Format[fmt], data)[1] == [expected]


WITHOUT_EXTENSION = """
import sys
sys.modules["imagehost_core.pixels._chroma"] = None
from PIL import Image
from imagehost_core.formats import Format
from imagehost_core.pixels import CHROMA_SUBSAMPLING, codec_fingerprint
from imagehost_core.pixels.encode import encode
image = Image.effect_noise((64, 64), 50).convert("RGB")
assert encode(Format.JPEG, image, subsample=True) == encode(Format.JPEG, image)
print(CHROMA_SUBSAMPLING, codec_fingerprint())
"""


def test_without_it_encoders_subsample_and_every_etag_differs(chroma: Any) -> None:
    command = [sys.executable, "-c", WITHOUT_EXTENSION]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert output[0] == "encoder"
    assert output[1] != codec_fingerprint()
