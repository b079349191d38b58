"""Every kind of picture becomes RGB that looks the same."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image, ImageCms

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.pixels.colour import NormalizedImage, flatten_on_white, normalize, to_srgb
from imagehost_core.pixels.render import render
from imagehost_core.transform.geometry import ORIGIN, Plan, Size


def shown(studio: Any, data: bytes, fmt: Format) -> Image.Image:
    """The file as a viewer sees it: a lossless variant of it."""
    size = Size(*studio.opened(data).size)
    job = RenderJob(Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size), Format.PNG, None)
    picture: Image.Image = studio.opened(render(job, fmt, data)[1][0])
    return picture.convert("RGBA")


def pixel(image: Image.Image) -> tuple[int, ...]:
    """The first pixel."""
    return tuple(image.crop((0, 0, 1, 1)).tobytes())


def test_wide_gamut_colours_become_the_srgb_that_looks_the_same(studio: Any) -> None:
    # Display P3 (200, 100, 50) lies outside of what its numbers mean in sRGB: more red, less blue.
    data = studio.file(Image.new("RGB", (8, 8), (200, 100, 50)), icc_profile=studio.profile())
    red, green, blue, _ = pixel(shown(studio, data, Format.PNG))
    assert red > 205
    assert 85 < green < 100
    assert blue < 45


def test_wide_gamut_keeps_its_alpha(studio: Any) -> None:
    image = Image.new("RGBA", (8, 8), (200, 100, 50, 90))
    converted = to_srgb(NormalizedImage(image, studio.profile()))
    assert pixel(converted)[3] == 90
    assert pixel(converted)[:3] == pixel(to_srgb(NormalizedImage(image.convert("RGB"), studio.profile())))


def test_srgb_under_another_name_is_left_as_it_is(studio: Any) -> None:
    image = studio.noise()
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert to_srgb(NormalizedImage(image, profile)) is image


@pytest.mark.parametrize("profile", [b"", b"no profile at all", b"\0" * 200])
def test_a_broken_profile_is_none(studio: Any, profile: bytes) -> None:
    image = studio.noise()
    image.info["icc_profile"] = profile
    assert normalize(image) == NormalizedImage(image, None)


def test_a_profile_for_another_kind_of_picture_is_none(studio: Any) -> None:
    data = studio.file(studio.photo().convert("L"), icc_profile=studio.profile())
    assert studio.difference(shown(studio, data, Format.PNG), studio.photo().convert("L")) == 0


def test_a_profile_cut_short_leaves_the_colours_as_they_are(studio: Any) -> None:
    image = Image.new("RGB", (4, 4), (200, 100, 50))
    profile = studio.profile()
    for length in range(128, len(profile), 40):
        assert to_srgb(NormalizedImage(image, profile[:length])).mode == "RGB"


def test_cmyk_without_a_profile_is_ink_on_white(studio: Any) -> None:
    for ink, expected in (((0, 0, 0, 0), 255), ((0, 0, 0, 255), 0), ((255, 255, 255, 0), 0)):
        data = studio.file(Image.new("CMYK", (16, 16), ink), Format.JPEG, quality=95)
        assert all(abs(level - expected) <= 3 for level in pixel(shown(studio, data, Format.JPEG))[:3])


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_opaque_modes_become_rgb(studio: Any, mode: str) -> None:
    source = studio.photo().convert(mode)
    made = normalize(studio.opened(studio.file(source)))
    assert made.image.mode == "RGB"
    assert studio.difference(made.image, source) == 0


@pytest.mark.parametrize("mode", ["LA", "RGBA", "PA"])
def test_modes_with_alpha_become_rgba_where_it_hides_something(studio: Any, mode: str) -> None:
    source = studio.photo(mode="RGBA").convert(mode)
    made = normalize(source)
    assert made.image.mode == "RGBA"
    assert studio.difference(made.image, source) == 0
    opaque = studio.photo().convert("RGBA").convert(mode)
    assert normalize(opaque).image.mode == "RGB"


def test_a_palette_with_a_transparent_colour_becomes_rgba(studio: Any) -> None:
    source = studio.photo().quantize(16)
    data = studio.file(source, transparency=3)
    made = normalize(studio.opened(data)).image
    assert made.mode == "RGBA"
    assert min(made.getchannel("A").tobytes()) == 0


def test_16_bit_grey_keeps_its_high_byte_and_its_transparent_level(studio: Any) -> None:
    image = Image.new("I;16", (3, 1))
    for x, level in enumerate((0, 257 * 128, 65_535)):
        image.putpixel((x, 0), level)
    made = normalize(studio.opened(studio.file(image))).image
    assert made.tobytes() == bytes(level for level in (0, 128, 255) for _ in range(3))
    image.info["transparency"] = 257 * 128
    assert normalize(image).image.getchannel("A").tobytes() == b"\xff\x00\xff"
    image.info["transparency"] = 5
    assert normalize(image).image.mode == "RGB"


def test_the_transparent_colour_of_16_bit_rgb_is_understood() -> None:
    # Pillow keeps the high bytes of the pixels, but all 16 bits of the colour that is transparent.
    image = Image.new("RGB", (2, 1), (10, 20, 30))
    image.putpixel((1, 0), (200, 20, 30))
    image.info["transparency"] = (10 * 257, 20 * 257, 30 * 257)
    assert normalize(image).image.getchannel("A").tobytes() == b"\x00\xff"


def test_flattening_shows_white_through() -> None:
    assert pixel(flatten_on_white(Image.new("RGBA", (1, 1), (0, 0, 0, 0)))) == (255, 255, 255)
    assert pixel(flatten_on_white(Image.new("RGBA", (1, 1), (0, 0, 0, 51)))) == (204, 204, 204)
    image = Image.new("RGB", (1, 1))
    assert flatten_on_white(image) is image


def test_a_transform_that_cannot_be_built_leaves_the_colours(
    studio: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, profile = studio.noise(), studio.profile()
    # A profile with curves of a kind that nobody knows can be opened and named, but not used.
    broken = profile.replace(b"curv", b"nope")
    assert to_srgb(NormalizedImage(image, broken)).tobytes() == image.tobytes()
