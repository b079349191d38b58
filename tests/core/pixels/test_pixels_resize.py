"""Pictures are reduced in linear light, only as far as they are kept, alike in any band."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.pixels import resample_pillow as floats
from imagehost_core.pixels import resize
from imagehost_core.pixels.linear_light import LINEAR_TO_SRGB, SRGB_TO_LINEAR
from imagehost_core.pixels.resize import resize_and_crop, resize_to
from imagehost_core.transform import Fit, Transform
from imagehost_core.transform.geometry import ORIGIN, Plan, Point, Size, plan

SIDES = st.integers(1, 90)
SIZES = st.builds(Size, SIDES, SIDES)


pytestmark = pytest.mark.usefixtures("reducer")


@pytest.fixture(params=["compiled", "floats"], scope="module")
def reducer(request: pytest.FixtureRequest, compiler: Callable[[], Any]) -> Any:
    """Let every test see both ways to reduce."""
    chosen = compiler() if request.param == "compiled" else floats
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resize, "downscale", chosen.downscale)
        yield chosen


def whole(size: Size) -> Plan:
    return Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size)


def test_black_and_white_make_the_grey_that_the_eye_sees() -> None:
    # Half the light of white is level 188 (IEC 61966-2-1); the mean of the numbers would be 128.
    board = Image.frombytes("L", (64, 64), bytes(255 * ((x + y) % 2) for y in range(64) for x in range(64)))
    grey = resize_to(board.convert("RGB"), Size(8, 8))
    assert all(abs(value - 188) <= 1 for value in grey.tobytes())


@pytest.mark.parametrize("level", range(0, 256, 15))
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_plain_colour_stays_what_it_is(mode: str, level: int) -> None:
    colour = (level, 255 - level, 77, 130)[: len(mode)]
    image = Image.new(mode, (50, 40), colour)
    for size in (Size(7, 5), Size(49, 39), Size(7, 40), Size(120, 100), Size(120, 3)):
        result = resize_and_crop(image, whole(size))
        # Enlarging multiplies by alpha in 8 bits, which can cost one level.
        worst = 1 if mode == "RGBA" and size.width > 50 else 0
        assert all(
            abs(a - b) <= worst
            for a, b in zip(result.tobytes(), colour * result.width * result.height, strict=True)
        )


def test_light_there_and_back_is_the_same_level() -> None:
    assert [LINEAR_TO_SRGB[int(light)] for light in SRGB_TO_LINEAR] == list(range(256))


@given(SIZES, SIZES, st.sampled_from(["RGB", "RGBA"]))
def test_the_result_has_the_planned_size_and_the_mode_of_the_source(
    source: Size, target: Size, mode: str
) -> None:
    image = resize_and_crop(Image.new(mode, (source.width, source.height)), whole(target))
    assert (image.size, image.mode) == ((target.width, target.height), mode)


@settings(max_examples=25)
@given(st.integers(16, 4_000), st.integers(500, 9_000), SIZES, st.sampled_from(["RGB", "RGBA"]))
def test_bands_and_flushes_change_no_more_than_a_rounding(
    reducer: Any, studio: Any, band: int, flush: int, target: Size, mode: str
) -> None:
    image = studio.photo(90, 120, mode=mode)
    expected = resize_and_crop(image, whole(target))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reducer, "STRIP_PIXELS", band)
        if reducer is floats:
            patch.setattr(reducer, "FLUSH_PIXELS", flush)
        pieced = resize_and_crop(image, whole(target))
    steps = [abs(a - b) for a, b in zip(pieced.tobytes(), expected.tobytes(), strict=True)]
    assert max(steps) <= 1
    assert sum(steps) <= 1 + target.pixels / 1_000


@given(SIZES, st.builds(Size, st.integers(1, 60), st.integers(1, 60)), st.sampled_from(["RGB", "RGBA"]))
def test_what_is_cropped_equals_resizing_all_of_it_and_cropping_then(
    studio: Any, source: Size, box: Size, mode: str
) -> None:
    image = studio.photo(source.width, source.height, seed=5, mode=mode)
    steps = plan(source, Transform(box.width, box.height, fit=Fit.COVER))
    left, top = steps.crop.left, steps.crop.top
    everything = resize_and_crop(image, whole(steps.resize)).crop(
        (left, top, left + box.width, top + box.height)
    )
    assert studio.difference(resize_and_crop(image, steps), everything) <= 1


def test_an_extreme_cover_computes_only_what_it_keeps(studio: Any) -> None:
    # The whole picture at that scale would have 671 thousand million pixels.
    steps = plan(Size(1, 10_000), Transform(8_192, 1, fit=Fit.COVER))
    assert steps.resize == Size(8_192, 81_920_000)
    assert resize_and_crop(studio.photo(1, 10_000), steps).size == (8_192, 1)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_one_axis_may_shrink_while_the_other_grows(studio: Any, mode: str) -> None:
    image = studio.photo(80, 60, mode=mode)
    upright = resize_and_crop(image, whole(Size(20, 240)))
    turned = resize_and_crop(image.transpose(Image.Transpose.TRANSPOSE), whole(Size(240, 20)))
    assert studio.difference(upright, turned.transpose(Image.Transpose.TRANSPOSE)) <= 1


def test_what_is_transparent_does_not_bleed_its_colour() -> None:
    image = Image.new("RGBA", (64, 64), (255, 0, 0, 0))
    image.paste((0, 0, 255, 255), (0, 0, 31, 64))
    small = resize_and_crop(image, whole(Size(9, 9)))
    large = resize_and_crop(image, whole(Size(200, 200)))
    for result in (small, large):
        data = result.tobytes()
        assert all(red <= 8 for red, alpha in zip(data[0::4], data[3::4], strict=True) if alpha > 40)


def test_a_picture_of_the_planned_size_is_not_touched(studio: Any) -> None:
    image = studio.noise(33, 21)
    assert resize_and_crop(image, whole(Size(33, 21))).tobytes() == image.tobytes()


def test_the_crop_of_an_unscaled_picture_takes_its_pixels_as_they_are(studio: Any) -> None:
    image = studio.noise(40, 30)
    steps = Plan(resize=Size(40, 30), crop=Point(7, 3), pad=ORIGIN, output=Size(20, 10))
    assert resize_and_crop(image, steps).tobytes() == image.crop((7, 3, 27, 13)).tobytes()
