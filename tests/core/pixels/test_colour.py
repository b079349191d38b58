"""Images of every mode and colour profile become RGB that looks the same."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from PIL import Image, ImageCms

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.pixels import colour
from imagehost_core.pixels.colour import (
    MAX_PROFILE_STAGES,
    NormalizedImage,
    flatten_on_white,
    normalize,
    to_srgb,
)
from imagehost_core.pixels.formats.png_colour import read_colour
from imagehost_core.pixels.render import render
from imagehost_core.pixels.resize import resize_to
from imagehost_core.transform import ORIGIN, Plan, Size

SRGB_TO_XYZ = ((0.4361, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7141))
"""The primaries of sRGB in the connection space of profiles."""


def rendered(factory: Any, data: bytes, fmt: Format) -> Image.Image:
    """Return a lossless variant of a file in its own size, as RGBA."""
    size = Size(*factory.decode(data).size)
    job = RenderJob(Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size), Format.PNG, None)
    image: Image.Image = factory.decode(render(job, fmt, data)[1][0])
    return image.convert("RGBA")


def pixel(image: Image.Image) -> tuple[int, ...]:
    """Return the first pixel."""
    return tuple(image.crop((0, 0, 1, 1)).tobytes())


def test_wide_gamut_colours_are_converted_to_srgb(factory: Any) -> None:
    # Display P3 (200, 100, 50) is more saturated than the same numbers in sRGB: more red, less blue.
    data = factory.encode(Image.new("RGB", (8, 8), (200, 100, 50)), icc_profile=factory.icc_profile())
    red, green, blue, _ = pixel(rendered(factory, data, Format.PNG))
    assert red > 205
    assert 85 < green < 100
    assert blue < 45


@pytest.mark.parametrize("mode", ["RGBA", "PA", "P"])
def test_the_profile_of_an_image_with_alpha_applies_to_its_colours(factory: Any, mode: str) -> None:
    image = Image.new("RGB", (8, 8), (204, 102, 51))  # of the palette too
    image.info["icc_profile"] = factory.icc_profile()
    expected = pixel(to_srgb(normalize(image)))
    image = image.convert("RGBA" if mode == "RGBA" else "P")
    if mode == "P":
        image.info["transparency"] = bytes([90]) * 256
    else:
        image.putalpha(90)
    assert image.mode == mode
    normalized = normalize(image)
    assert normalized.profile == factory.icc_profile()
    assert pixel(to_srgb(normalized)) == (*expected, 90)


def test_a_grey_image_with_a_profile_for_rgb_is_converted_by_it(factory: Any) -> None:
    image = Image.new("RGB", (8, 8), (90, 90, 90))
    profile = factory.icc_profile(gamma=1.8)
    expected = to_srgb(NormalizedImage(image, profile))
    data = factory.encode(image.convert("L"), icc_profile=profile)
    assert pixel(rendered(factory, data, Format.PNG))[:3] == pixel(expected) != (90, 90, 90)


def test_a_grey_image_is_converted_by_its_profile_for_grey(factory: Any) -> None:
    image, profile = Image.new("L", (8, 8), 90), factory.icc_profile(gamma=1.8)
    expected = to_srgb(NormalizedImage(image.convert("RGB"), profile))
    for_grey = profile.replace(b"RGB ", b"GRAY", 1).replace(b"rTRC", b"kTRC")
    data = factory.encode(image, icc_profile=for_grey)
    assert pixel(rendered(factory, data, Format.PNG))[:3] == pixel(expected) != (90, 90, 90)


def test_a_profile_that_changes_dark_colours_only_is_not_taken_for_srgb(factory: Any) -> None:
    image = Image.new("RGB", (8, 8), (10, 10, 10))
    profile = factory.icc_profile(SRGB_TO_XYZ, gamma=2.2)
    assert max(pixel(to_srgb(NormalizedImage(image, profile)))) < 5


def test_an_image_with_an_srgb_profile_is_unchanged(factory: Any) -> None:
    image = factory.noise()
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert to_srgb(NormalizedImage(image, profile)) is image


@pytest.mark.parametrize("profile", [b"", b"not a profile", b"\0" * 200])
def test_a_malformed_profile_is_ignored(factory: Any, profile: bytes) -> None:
    image = factory.noise()
    image.info["icc_profile"] = profile
    assert normalize(image) == NormalizedImage(image, None)


def test_a_profile_for_another_colour_space_is_ignored(factory: Any) -> None:
    image = factory.photo().convert("CMYK")
    data = factory.encode(image, Format.JPEG, icc_profile=factory.icc_profile())
    plain = rendered(factory, factory.encode(image, Format.JPEG), Format.JPEG)
    assert factory.difference(rendered(factory, data, Format.JPEG), plain) == 0


def test_a_truncated_profile_does_not_fail(factory: Any) -> None:
    image = Image.new("RGB", (4, 4), (200, 100, 50))
    profile = factory.icc_profile()
    for length in range(128, len(profile), 40):
        assert to_srgb(NormalizedImage(image, profile[:length])).mode == "RGB"


def with_stages(profile: bytes, count: int) -> bytes:
    """Return a profile with a multi-process transform of `count` equal elements (ICC.1:2022, 10.16)."""
    matrix = b"matf" + bytes(4) + struct.pack(">HH12f", 3, 3, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0)
    start = 16 + 8 * count
    places = struct.pack(">II", start, len(matrix)) * count
    transform = b"mpet" + bytes(4) + struct.pack(">HHI", 3, 3, count) + places + matrix
    tags = int.from_bytes(profile[128:132], "big")
    entries = [struct.unpack_from(">4sII", profile, 132 + 12 * number) for number in range(tags)]
    table = b"".join(struct.pack(">4sII", name, offset + 12, size) for name, offset, size in entries)
    table += struct.pack(">4sII", b"D2B0", len(profile) + 12, len(transform))
    size = struct.pack(">I", len(profile) + 12 + len(transform))
    head = size + profile[4:8] + b"\4\x30\0\0" + profile[12:128]
    return head + struct.pack(">I", tags + 1) + table + profile[132 + 12 * tags :] + transform


@pytest.mark.parametrize(("count", "is_kept"), [(2, True), (MAX_PROFILE_STAGES, True), (10_000, False)])
def test_a_profile_with_very_many_stages_is_ignored(factory: Any, count: int, is_kept: bool) -> None:
    image = Image.new("RGB", (8, 8), (200, 100, 50))
    image.info["icc_profile"] = profile = with_stages(factory.icc_profile(), count)
    assert ImageCms.ImageCmsProfile(io.BytesIO(profile)).profile.xcolor_space == "RGB "
    assert normalize(image).profile == (profile if is_kept else None)
    converted = to_srgb(NormalizedImage(image, profile))
    assert (pixel(converted) == (200, 100, 50)) is not is_kept


def test_cmyk_without_a_profile_is_converted_as_ink_on_white(factory: Any) -> None:
    for ink, expected in (((0, 0, 0, 0), 255), ((0, 0, 0, 255), 0), ((255, 255, 255, 0), 0)):
        data = factory.encode(Image.new("CMYK", (16, 16), ink), Format.JPEG, quality=95)
        assert all(abs(level - expected) <= 3 for level in pixel(rendered(factory, data, Format.JPEG))[:3])


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_opaque_modes_become_rgb(factory: Any, mode: str) -> None:
    source = factory.photo().convert(mode)
    result = normalize(factory.decode(factory.encode(source)))
    assert result.image.mode == "RGB"
    assert factory.difference(result.image, source) == 0


@pytest.mark.parametrize("mode", ["LA", "RGBA", "PA"])
def test_modes_with_alpha_become_rgba_unless_opaque(factory: Any, mode: str) -> None:
    source = factory.photo(mode="RGBA").convert(mode)
    result = normalize(source)
    assert result.image.mode == "RGBA"
    assert factory.difference(result.image, source) == 0
    opaque = factory.photo().convert("RGBA").convert(mode)
    assert normalize(opaque).image.mode == "RGB"


def test_a_palette_with_a_transparent_colour_becomes_rgba(factory: Any) -> None:
    source = factory.photo().quantize(16)
    data = factory.encode(source, transparency=3)
    result = normalize(factory.decode(data)).image
    assert result.mode == "RGBA"
    assert min(result.getchannel("A").tobytes()) == 0


def test_flattening_composites_on_white() -> None:
    assert pixel(flatten_on_white(Image.new("RGBA", (1, 1), (0, 0, 0, 0)))) == (255, 255, 255)
    assert pixel(flatten_on_white(Image.new("RGBA", (1, 1), (0, 0, 0, 51)))) == (204, 204, 204)
    image = Image.new("RGB", (1, 1))
    assert flatten_on_white(image) is image


def test_a_profile_with_unsupported_curves_leaves_the_colours_unchanged(factory: Any) -> None:
    image, profile = factory.noise(), factory.icc_profile()
    # Such a profile can be opened, but no transform can be built from it.
    broken = profile.replace(b"curv", b"nope")
    assert to_srgb(NormalizedImage(image, broken)).tobytes() == image.tobytes()


@pytest.mark.parametrize(("gamma", "converted"), [(None, (20, 15)), (1.0, (40, 30))])
def test_a_profile_with_the_tones_of_srgb_is_applied_to_what_is_resized(
    factory: Any, monkeypatch: pytest.MonkeyPatch, gamma: float | None, converted: tuple[int, int]
) -> None:
    display_p3 = read_colour({b"cICP": bytes((12, 13, 0, 1))}, is_grey=False).profile
    profile = display_p3 if gamma is None else factory.icc_profile(gamma=gamma)
    # Of muted colours: those outside of sRGB are clipped before their mean or after it.
    image = Image.blend(factory.photo(40, 30), Image.new("RGB", (40, 30), "grey"), 0.5)
    sizes: list[tuple[int, int]] = []

    def record(image: Image.Image, profile: bytes) -> Image.Image:
        sizes.append(image.size)
        return apply(image, profile)

    apply = colour._apply_profile
    monkeypatch.setattr(colour, "_apply_profile", record)
    normalized = NormalizedImage(image, profile)
    result = to_srgb(normalized, lambda image: resize_to(image, Size(20, 15)))
    assert {(40, 30), (20, 15)} & set(sizes) == {converted}
    expected = resize_to(to_srgb(normalized), Size(20, 15))
    assert factory.difference(result, expected) < 0.5
    assert factory.difference(resize_to(image, Size(20, 15)), expected) > 1
