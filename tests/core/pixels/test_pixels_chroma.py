"""Formats that keep one colour for every two by two pixels get one that keeps them as bright as they were."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import sqrt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.pixels import chroma_subsampling as chroma_module
from imagehost_core.pixels import codec_fingerprint
from imagehost_core.pixels.encode import encode
from imagehost_core.pixels.linear_light import SRGB_TO_LINEAR
from imagehost_core.pixels.render import render
from imagehost_core.transform import Transform
from imagehost_core.transform.geometry import Size, plan

Triple = tuple[float, ...]
Place = tuple[int, int]
LUMA, BRIGHT = (0.299, 0.587, 0.114), (0.2126, 0.7152, 0.0722)


@pytest.fixture(scope="module")
def chroma(compiler: Callable[[], Any]) -> Any:
    compiler()
    assert chroma_module.CHROMA_SUBSAMPLING == "sharp", "there is a compiler, and no compiled chroma"
    return chroma_module


def _weighed(weights: Triple, values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def _brightness(pixel: Sequence[float]) -> float:
    return sqrt(_weighed(BRIGHT, [level * level for level in pixel]))


def _colours(pixels: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the blue and red difference of the average of some pixels' light."""
    mean = [sqrt(sum(pixel[c] ** 2 for pixel in pixels) / len(pixels)) for c in range(3)]
    luma = _weighed(LUMA, mean)
    return (mean[2] - luma) / 1.772, (mean[0] - luma) / 1.402


def _mixed(luma: float, colours: Sequence[float]) -> Triple:
    blue, red = colours
    levels = (luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue)
    return tuple(min(255.0, max(0.0, level)) for level in levels)


class Reference:
    """The same in plain Python, a dictionary by place for each thing. The last of odd sides counts twice."""

    def __init__(self, image: Image.Image) -> None:
        self.shown = list(product(range(image.height), range(image.width)))
        self.rows, self.columns = (image.height + 1) // 2, (image.width + 1) // 2
        padded = image.crop((0, 0, 2 * self.columns, 2 * self.rows))
        padded.paste(image.crop((image.width - 1, 0, image.width, image.height)), (2 * self.columns - 1, 0))
        padded.paste(padded.crop((0, image.height - 1, padded.width, image.height)), (0, padded.height - 1))
        data = padded.tobytes()
        places = list(product(range(padded.height), range(padded.width)))
        pixels = {place: tuple(data[3 * at : 3 * at + 3]) for at, place in enumerate(places)}
        self.bright = {place: _brightness(pixel) for place, pixel in pixels.items()}
        self.luma = {place: _weighed(LUMA, pixel) for place, pixel in pixels.items()}
        aim = self.averages(pixels)
        self.relight(aim)
        seen = {place: _mixed(luma, self.spread(aim, place)) for place, luma in self.luma.items()}
        self.kept = {}
        for block, off in self.averages(seen).items():
            pairs = zip(aim[block], off, strict=True)
            self.kept[block] = tuple(min(127.5, max(-127.5, 2 * wanted - found)) for wanted, found in pairs)
        self.relight(self.kept)

    def averages(self, of: Mapping[Place, Triple]) -> dict[Place, Triple]:
        """Return the colour of each block of two by two pixels."""
        blocks = product(range(self.rows), range(self.columns))
        return {
            (y, x): _colours([of[2 * y + i, 2 * x + j] for i in (0, 1) for j in (0, 1)]) for y, x in blocks
        }

    def spread(self, colours: dict[Place, Triple], place: Place) -> Triple:
        """Return what a decoder makes of the colours at a pixel: 9, 3, 3 and 1 sixteenths of four."""
        y, x = (at // 2 for at in place)
        other_y = min(max(y + (1 if place[0] % 2 else -1), 0), self.rows - 1)
        other_x = min(max(x + (1 if place[1] % 2 else -1), 0), self.columns - 1)
        corners = [(y, x), (y, other_x), (other_y, x), (other_y, other_x)]
        return tuple(
            _weighed((9 / 16, 3 / 16, 3 / 16, 1 / 16), [colours[at][c] for at in corners]) for c in (0, 1)
        )

    def relight(self, colours: dict[Place, Triple]) -> None:
        """Give every pixel the luma with which it is as bright as it was."""
        for place, luma in self.luma.items():
            now = _brightness(_mixed(luma, self.spread(colours, place)))
            self.luma[place] = min(255.0, max(0.0, luma + self.bright[place] - now))

    def planes(self) -> bytes:
        """Return luma, blue and red difference of each pixel."""
        kept = {(y, x): self.kept[y // 2, x // 2] for y, x in self.shown}
        levels = ((self.luma[at], kept[at][0] + 128, kept[at][1] + 128) for at in self.shown)
        return bytes(min(255, int(level + 0.5)) for three in levels for level in three)

    def mixed(self) -> bytes:
        """Return red, green and blue of each pixel; with less colour where one of them were above 255."""
        found = bytearray()
        for y, x in self.shown:
            luma, (blue, red) = self.luma[y, x], self.kept[y // 2, x // 2]
            differences = (1.402 * red, -0.344136 * blue - 0.714136 * red, 1.772 * blue)
            share = min(1.0, *((255 - luma) / more for more in differences if more > 1e-6), 1.0)
            found += bytes(max(0, int(luma + share * more + 0.5)) for more in differences)
        return bytes(found)


sides = st.integers(1, 13)


@settings(max_examples=100)
@given(sides, sides, st.integers(0, 99), st.booleans())
def test_it_is_the_rule_written_plainly(
    chroma: Any, studio: Any, width: int, height: int, seed: int, soft: bool
) -> None:
    image = (studio.photo if soft else studio.noise)(width, height, seed)
    plain = Reference(image)
    for mode, wanted in (("YCbCr", plain.planes()), ("RGB", plain.mixed())):
        found = chroma.subsample_420(image, mode).tobytes()
        assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 1


@settings(max_examples=50)
@given(sides, sides, st.integers(0, 255))
def test_grey_stays_what_it_is(chroma: Any, width: int, height: int, seed: int) -> None:
    levels = [(seed + 7 * i) % 256 for i in range(width * height)]
    image = Image.frombytes("RGB", (width, height), bytes(level for level in levels for _ in range(3)))
    assert chroma.subsample_420(image, "RGB").tobytes() == image.tobytes()
    planes = bytes(value for level in levels for value in (level, 128, 128))
    assert chroma.subsample_420(image, "YCbCr").tobytes() == planes


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_one_colour_stays_what_it_is(chroma: Any, colour: tuple[int, int, int]) -> None:
    found = chroma.subsample_420(Image.new("RGB", (5, 5), colour), "RGB").tobytes()
    assert max(abs(level - colour[at % 3]) for at, level in enumerate(found)) <= 1


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 9), st.integers(1, 900))
def test_bands_do_not_show(chroma: Any, studio: Any, width: int, height: int, seed: int, pixels: int) -> None:
    image = studio.noise(width, height, seed)
    whole = chroma.subsample_420(image, "RGB").tobytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chroma, "STRIP_PIXELS", pixels)
        assert chroma.subsample_420(image, "RGB").tobytes() == whole


LOSSY = [Format.JPEG, Format.WEBP, Format.AVIF]


def _light(image: Image.Image) -> float:
    """Return the mean light of a picture, by its brightness, 0 to 1."""
    data = image.tobytes()
    means = [sum(SRGB_TO_LINEAR[level] for level in data[c::3]) * 3 / len(data) for c in range(3)]
    return _weighed(BRIGHT, means) / SRGB_TO_LINEAR[255]


def _lines(one: str, other: str) -> Image.Image:
    """Return columns of one pixel in two colours by turns, which 4:2:0 makes one colour of."""
    image = Image.new("RGB", (64, 64), one)
    for x in range(0, 64, 2):
        image.paste(other, (x, 0, x + 1, 64))
    return image


@pytest.mark.parametrize("fmt", LOSSY)
@pytest.mark.parametrize(
    "colours", [("red", "blue"), ("red", "lime"), ("magenta", "black"), ("yellow", "blue")]
)
def test_fine_lines_in_strong_colours_are_as_bright_as_they_were(
    chroma: Any, studio: Any, fmt: Format, colours: tuple[str, str]
) -> None:
    image = _lines(*colours)
    with_it, without = (studio.opened(encode(fmt, image, 90, subsample=halve)) for halve in (True, False))
    wanted = _light(image)
    assert abs(_light(with_it) - wanted) < 0.04
    assert abs(_light(without) - wanted) > 0.05


@pytest.mark.parametrize("fmt", LOSSY)
def test_white_beside_red_stays_white(chroma: Any, studio: Any, fmt: Format) -> None:
    image = Image.new("RGB", (64, 64), "white")
    image.paste("red", (0, 0, 31, 64))
    row = studio.opened(encode(fmt, image, 95, subsample=True)).convert("L").crop((31, 32, 64, 33)).tobytes()
    assert min(row) > 238


@pytest.mark.parametrize("fmt", LOSSY)
def test_variants_have_it(chroma: Any, studio: Any, fmt: Format) -> None:
    image = _lines("red", "blue")
    source = studio.file(image, Format.PNG)
    job = RenderJob(plan(Size(*image.size), Transform()), fmt, 90)
    assert render(job, Format.PNG, source)[1] == [encode(fmt, image, 90, subsample=True)]
    assert encode(fmt, image, 90, subsample=True) != encode(fmt, image, 90)


@pytest.mark.parametrize("fmt", [Format.PNG, Format.GIF])
def test_formats_that_keep_all_colours_do_without(chroma: Any, studio: Any, fmt: Format) -> None:
    image = studio.noise()
    assert encode(fmt, image, subsample=True) == encode(fmt, image)


@pytest.mark.parametrize("fmt", [Format.WEBP, Format.AVIF])
def test_pictures_with_alpha_are_left_to_the_encoder(chroma: Any, studio: Any, fmt: Format) -> None:
    image = studio.photo(mode="RGBA")
    assert encode(fmt, image, subsample=True) == encode(fmt, image)


def test_a_picture_that_lies_in_pieces_is_worked_on_in_bands(chroma: Any, studio: Any) -> None:
    # Pillow makes pieces of 16 MiB.
    image = studio.photo(2_200, 2_001)
    with pytest.raises(ValueError, match="contiguous"):
        image.__arrow_c_array__()
    found = chroma.subsample_420(image, "RGB")
    assert found.size == image.size
    corner = chroma.subsample_420(image.crop((0, 1_901, 100, 2_001)), "RGB")
    assert studio.difference(found.crop((0, 1_910, 90, 2_001)), corner.crop((0, 9, 90, 100))) < 0.1


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
def test_what_does_not_fit_is_refused(chroma: Any, pixels: bytes, size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="expected as many pixels as the size says"):
        chroma.NATIVE(pixels, size, False)


@pytest.mark.parametrize(
    "arguments", [("text", (1, 1), False), (b"1234", (1.0, 1), False), (b"1234", 1, False)]
)
def test_what_is_of_another_type_is_refused(chroma: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        chroma.NATIVE(*arguments)


@pytest.mark.parametrize("image", [Image.new("L", (8, 6)), Image.new("F", (8, 6)), Image.new("RGB", (6, 9))])
def test_other_pixels_are_refused_where_they_lie(chroma: Any, image: Image.Image) -> None:
    with pytest.raises(ValueError, match="as the size says"):
        chroma.NATIVE(image.__arrow_c_array__()[1], (8, 6), False)


WITHOUT = """
import sys
sys.modules["imagehost_core.pixels._chroma"] = None
from PIL import Image
from imagehost_core.formats import Format
from imagehost_core.transform.geometry import Size, plan
from imagehost_core.jobs import RenderJob
from imagehost_core.pixels import chroma_subsampling as chroma, codec_fingerprint
from imagehost_core.pixels.encode import encode
image = Image.effect_noise((64, 64), 50).convert("RGB")
assert encode(Format.JPEG, image, subsample=True) == encode(Format.JPEG, image)
print(chroma.CHROMA_SUBSAMPLING, codec_fingerprint())
"""


def test_without_it_encoders_choose_and_every_etag_is_another(chroma: Any) -> None:
    command = [sys.executable, "-c", WITHOUT]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert found[0] == "encoder"
    assert found[1] != codec_fingerprint()
