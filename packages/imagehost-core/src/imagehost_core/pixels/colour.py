"""Conversion of decoded images to 8-bit RGB or RGBA, and to sRGB.

A master keeps its ICC profile; derivatives and variants are sRGB and have none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from io import BytesIO
from itertools import chain, product
from typing import cast

from attrs import frozen
from PIL import Image, ImageChops, ImageCms

WHITE = (255, 255, 255)

MAX_SRGB_DIFFERENCE = 2
"""A profile that changes no colour by more than this, in 8-bit levels, is treated as sRGB."""

MAX_PROFILE_STAGES = 64
"""The most elements of a multi-process transform (ICC.1:2022, 10.16) in a profile; a conversion needs a few.
Little CMS evaluates them all for a grid of colours: 10,000 of them, in 160 KB, cost 5 s a transform."""
_MAX_PROFILE_TAGS = 100
"""Little CMS reads no profile with more tags."""

_SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
_COLOUR_SPACES = {"RGB": "RGB ", "L": "GRAY", "CMYK": "CMYK"}
"""The data colour space (ICC.1:2022, table 19) that a profile needs, by image mode."""


@frozen
class NormalizedImage:
    """An 8-bit RGB or RGBA image and its colour profile.

    Attributes:
        image: An image in mode `RGB`, or `RGBA` if any pixel is not opaque.
        profile: An ICC profile for RGB, or `None` for sRGB.
    """

    image: Image.Image
    profile: bytes | None


def normalize(image: Image.Image) -> NormalizedImage:
    """Convert a decoded image of any mode to 8-bit RGB or RGBA.

    A profile for RGB is kept, also that of a grey image, to which browsers apply it. Otherwise grey and CMYK
    are converted to sRGB through their profile. Fully opaque alpha is dropped.
    """
    data = image.info.get("icc_profile")
    profile = data if isinstance(data, bytes) and data else None
    rgb, alpha = _split_alpha(image)
    is_rgb = profile is not None and rgb.mode != "CMYK" and _is_profile_for("RGB", profile)
    if profile is not None and rgb.mode != "RGB" and not is_rgb:
        rgb = _apply_profile(rgb, profile)
    rgb = rgb if rgb.mode == "RGB" else rgb.convert("RGB")
    if alpha is not None:
        rgb.putalpha(alpha)
    return NormalizedImage(rgb, profile if is_rgb else None)


def to_srgb(
    normalized: NormalizedImage, resize: Callable[[Image.Image], Image.Image] = lambda image: image
) -> Image.Image:
    """Return the image converted from its profile to sRGB, and resized.

    The conversion is last where the profile has the tones of sRGB, as Display P3 has: the mean of linear
    light is the same in both. For a whole photograph it would take a quarter of the time of an upload.
    """
    image, profile = normalized.image, normalized.profile
    if profile is None:
        return resize(image)
    of_greys, of_colours = _differences(profile)
    if of_colours <= MAX_SRGB_DIFFERENCE:
        return resize(image)
    if of_greys <= MAX_SRGB_DIFFERENCE:
        return _convert(resize(image), profile)
    return resize(_convert(image, profile))


def _convert(image: Image.Image, profile: bytes) -> Image.Image:
    if image.mode == "RGB":
        return _apply_profile(image, profile)
    converted = _apply_profile(image.convert("RGB"), profile)
    converted.putalpha(image.getchannel("A"))
    return converted


def flatten_on_white(image: Image.Image) -> Image.Image:
    """Return the image composited on white, for formats without alpha."""
    if image.mode != "RGBA":
        return image
    canvas = Image.new("RGB", image.size, WHITE)
    canvas.paste(image, mask=image.getchannel("A"))
    return canvas


def _split_alpha(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """Return the colours in mode `RGB`, `L` or `CMYK`, and the alpha channel unless it is fully opaque."""
    if image.mode in ("RGB", "L", "CMYK") and "transparency" not in image.info:
        return image, None
    rgba = image.convert("RGBA")
    is_grey = image.mode in ("1", "L", "LA", "La")
    return rgba.convert("L" if is_grey else "RGB"), _alpha_if_used(rgba.getchannel("A"))


def _alpha_if_used(alpha: Image.Image) -> Image.Image | None:
    lowest, _ = cast("tuple[int, int]", alpha.getextrema())
    return alpha if lowest < 255 else None


def _open_profile(data: bytes) -> ImageCms.ImageCmsProfile:
    return ImageCms.ImageCmsProfile(BytesIO(data))


def _is_profile_for(mode: str, data: bytes) -> bool:
    if _stage_count(data) > MAX_PROFILE_STAGES:
        return False
    try:
        return _open_profile(data).profile.xcolor_space == _COLOUR_SPACES[mode]
    except (OSError, ImageCms.PyCMSError):
        return False


def _stage_count(profile: bytes) -> int:
    """Return the highest number of elements of a multi-process transform in a profile."""
    table = profile[132 : 132 + 12 * _MAX_PROFILE_TAGS]
    offsets = [offset for _, offset, _ in struct.iter_unpack(">4sII", table[: len(table) // 12 * 12])]
    tags = [profile[offset : offset + 16] for offset in offsets]
    counts = [int.from_bytes(tag[12:], "big") for tag in tags if tag.startswith(b"mpet")]
    return max(counts, default=0)


def _apply_profile(image: Image.Image, data: bytes) -> Image.Image:
    """Return the image converted from a profile to sRGB, or unchanged where the profile is unusable."""
    if not _is_profile_for(image.mode, data):
        return image
    try:
        # Perceptual, as sharp does; matrix profiles are the same under all intents.
        transform = ImageCms.buildTransform(
            _open_profile(data), _SRGB, image.mode, "RGB", ImageCms.Intent.PERCEPTUAL
        )
        converted = ImageCms.applyTransform(image, transform)
    except (OSError, ValueError, ImageCms.PyCMSError):
        return image
    assert converted is not None
    return converted


def _differences(profile: bytes) -> tuple[int, int]:
    """Return the most, in 8-bit levels, by which a profile changes greys, and a grid of RGB colours."""
    # A power of 2.2 differs from sRGB in dark colours only.
    colours = product((0, 16, 64, 128, 191, 255), repeat=3)
    samples = bytes(chain.from_iterable(chain(((level,) * 3 for level in range(256)), colours)))
    grid = Image.frombytes("RGB", (len(samples) // 3, 1), samples)
    changes = ImageChops.difference(grid, _apply_profile(grid, profile)).tobytes()
    return max(changes[: 3 * 256]), max(changes[3 * 256 :])


def drop_opaque_alpha(image: Image.Image) -> Image.Image:
    """Return the image without its alpha channel if that is fully opaque."""
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        return image.convert("RGB")
    return image


def is_icc_profile(profile: bytes) -> bool:
    """Return whether bytes are an ICC profile that is complete (ICC.1:2022, 7.2)."""
    return (
        len(profile) >= 132
        and profile[36:40] == b"acsp"
        and 132 <= int.from_bytes(profile[:4], "big") <= len(profile)
    )
