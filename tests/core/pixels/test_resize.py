"""Images are downscaled in linear light, only within the crop, and alike in any division into strips."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.pixels import resample_pillow, resize
from imagehost_core.pixels.linear_light import LINEAR_TO_SRGB, SRGB_TO_LINEAR
from imagehost_core.pixels.resize import resize_and_crop, resize_to
from imagehost_core.transform import ORIGIN, Fit, Plan, Point, Size, Transform, plan

SIDES = st.integers(1, 90)
SIZES = st.builds(Size, SIDES, SIDES)


pytestmark = pytest.mark.usefixtures("resampler")


@pytest.fixture(params=["native", "pillow"], scope="module")
def resampler(request: pytest.FixtureRequest) -> Any:
    """Each resampler in turn, as a module."""
    module = request.getfixturevalue("native_resampler") if request.param == "native" else resample_pillow
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resize, "downscale", module.downscale)
        yield module


def resize_only(size: Size) -> Plan:
    return Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size)


def test_black_and_white_average_to_half_the_light() -> None:
    # Half the light of white is level 188 (IEC 61966-2-1); the mean of the samples would be 128.
    board = Image.frombytes("L", (64, 64), bytes(255 * ((x + y) % 2) for y in range(64) for x in range(64)))
    grey = resize_to(board.convert("RGB"), Size(8, 8))
    assert all(abs(value - 188) <= 1 for value in grey.tobytes())


@pytest.mark.parametrize("level", range(0, 256, 15))
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_uniform_colour_is_unchanged(mode: str, level: int) -> None:
    colour = (level, 255 - level, 77, 130)[: len(mode)]
    image = Image.new(mode, (50, 40), colour)
    for size in (Size(7, 5), Size(49, 39), Size(7, 40), Size(120, 100), Size(120, 3)):
        result = resize_and_crop(image, resize_only(size))
        # Upscaling premultiplies alpha in 8 bits, which can change a sample by one level.
        tolerance = 1 if mode == "RGBA" and size.width > 50 else 0
        assert all(
            abs(a - b) <= tolerance
            for a, b in zip(result.tobytes(), colour * result.width * result.height, strict=True)
        )


def test_converting_to_linear_light_and_back_is_the_identity() -> None:
    assert [LINEAR_TO_SRGB[int(light)] for light in SRGB_TO_LINEAR] == list(range(256))


@given(SIZES, SIZES, st.sampled_from(["RGB", "RGBA"]))
def test_the_result_has_the_planned_size_and_the_mode_of_the_source(
    source: Size, target: Size, mode: str
) -> None:
    image = resize_and_crop(Image.new(mode, (source.width, source.height)), resize_only(target))
    assert (image.size, image.mode) == ((target.width, target.height), mode)


@given(st.integers(16, 4_000), st.integers(500, 9_000), SIZES, st.sampled_from(["RGB", "RGBA"]))
def test_strips_and_flushes_change_the_result_by_rounding_only(
    factory: Any, strip: int, flush: int, target: Size, mode: str
) -> None:
    image = factory.photo(90, 120, mode=mode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resize, "downscale", resample_pillow.downscale)
        expected = resize_and_crop(image, resize_only(target))
        patch.setattr(resample_pillow, "STRIP_PIXELS", strip)
        patch.setattr(resample_pillow, "FLUSH_PIXELS", flush)
        in_strips = resize_and_crop(image, resize_only(target))
    differences = [abs(a - b) for a, b in zip(in_strips.tobytes(), expected.tobytes(), strict=True)]
    assert max(differences) <= 1
    assert sum(differences) <= 1 + target.pixels / 1_000


@given(SIZES, st.builds(Size, st.integers(1, 60), st.integers(1, 60)), st.sampled_from(["RGB", "RGBA"]))
def test_resize_and_crop_equals_a_full_resize_followed_by_a_crop(
    factory: Any, source: Size, box: Size, mode: str
) -> None:
    image = factory.photo(source.width, source.height, seed=5, mode=mode)
    steps = plan(source, Transform(box.width, box.height, fit=Fit.COVER))
    left, top = steps.crop.left, steps.crop.top
    expected = resize_and_crop(image, resize_only(steps.resize)).crop(
        (left, top, left + box.width, top + box.height)
    )
    assert factory.difference(resize_and_crop(image, steps), expected) <= 1


def test_an_extreme_cover_computes_only_the_cropped_part(factory: Any) -> None:
    # The whole image at that scale would have 671 billion pixels.
    steps = plan(Size(1, 10_000), Transform(8_192, 1, fit=Fit.COVER))
    assert steps.resize == Size(8_192, 81_920_000)
    assert resize_and_crop(factory.photo(1, 10_000), steps).size == (8_192, 1)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_one_axis_can_be_downscaled_and_the_other_upscaled(factory: Any, mode: str) -> None:
    image = factory.photo(80, 60, mode=mode)
    upright = resize_and_crop(image, resize_only(Size(20, 240)))
    transposed = resize_and_crop(image.transpose(Image.Transpose.TRANSPOSE), resize_only(Size(240, 20)))
    assert factory.difference(upright, transposed.transpose(Image.Transpose.TRANSPOSE)) <= 1


def test_the_colour_of_transparent_pixels_does_not_bleed() -> None:
    image = Image.new("RGBA", (64, 64), (255, 0, 0, 0))
    image.paste((0, 0, 255, 255), (0, 0, 31, 64))
    small = resize_and_crop(image, resize_only(Size(9, 9)))
    large = resize_and_crop(image, resize_only(Size(200, 200)))
    for result in (small, large):
        data = result.tobytes()
        assert all(red <= 8 for red, alpha in zip(data[0::4], data[3::4], strict=True) if alpha > 40)


def test_an_image_of_the_planned_size_is_unchanged(factory: Any) -> None:
    image = factory.noise(33, 21)
    assert resize_and_crop(image, resize_only(Size(33, 21))).tobytes() == image.tobytes()


def test_a_crop_without_resize_keeps_the_pixels_unchanged(factory: Any) -> None:
    image = factory.noise(40, 30)
    steps = Plan(resize=Size(40, 30), crop=Point(7, 3), pad=ORIGIN, output=Size(20, 10))
    assert resize_and_crop(image, steps).tobytes() == image.crop((7, 3, 27, 13)).tobytes()
