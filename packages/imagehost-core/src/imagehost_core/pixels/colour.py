"""How a decoded picture of any kind becomes 8-bit RGB or RGBA, and how it becomes sRGB.

Contract 7: *CMYK and other spaces are converted, wide-gamut ICC is kept or converted so that the
picture looks the same.* A master keeps its profile; rungs and variants are sRGB and have none.
"""

from __future__ import annotations

from io import BytesIO
from typing import cast

from attrs import frozen
from PIL import Image, ImageChops, ImageCms

WHITE = (255, 255, 255)

SAME_COLOUR = 2
"""A profile that moves no colour further than this, in 8-bit levels, is sRGB under another name."""

_SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
_SPACES = {"RGB": "RGB ", "L": "GRAY", "CMYK": "CMYK"}
"""The data colour space that a profile must name (ICC.1:2022, table 19) to fit a mode."""


@frozen
class NormalizedImage:
    """A picture of 8-bit RGB or RGBA, and the profile that says what its numbers mean.

    Attributes:
        image: In mode `RGB`, or `RGBA` where a pixel is not opaque.
        profile: ICC for RGB, or `None`: sRGB.
    """

    image: Image.Image
    profile: bytes | None


def normalize(image: Image.Image) -> NormalizedImage:
    """Return a decoded picture as 8-bit RGB(A), with its profile where that still fits.

    Grey and CMYK are brought to sRGB through their profile, since the profile cannot go with RGB.
    Alpha that hides nothing is dropped.
    """
    data = image.info.get("icc_profile")
    profile = data if isinstance(data, bytes) and data else None
    body, alpha = _split_alpha(image)
    converted = body if profile is None or body.mode == "RGB" else _apply_profile(body, profile)
    if body.mode == "RGB" and profile is not None and not _fits(body.mode, profile):
        profile = None
    rgb = converted if converted.mode == "RGB" else converted.convert("RGB")
    if alpha is not None:
        rgb.putalpha(alpha)
    return NormalizedImage(rgb, profile if body.mode == "RGB" else None)


def to_srgb(picture: NormalizedImage) -> Image.Image:
    """Return the picture in sRGB, as it looks under its profile."""
    if picture.profile is None or _is_srgb(picture.profile):
        return picture.image
    if picture.image.mode == "RGB":
        return _apply_profile(picture.image, picture.profile)
    converted = _apply_profile(picture.image.convert("RGB"), picture.profile)
    converted.putalpha(picture.image.getchannel("A"))
    return converted


def flatten_on_white(image: Image.Image) -> Image.Image:
    """Return the picture on white, for formats that hold no transparency."""
    if image.mode != "RGBA":
        return image
    paper = Image.new("RGB", image.size, WHITE)
    paper.paste(image, mask=image.getchannel("A"))
    return paper


def _split_alpha(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """Return the colours as `RGB`, `L` or `CMYK`, and the alpha where it hides something."""
    if image.mode.startswith("I"):
        return _from_16_bit(image)
    if image.mode in ("RGB", "L", "CMYK") and "transparency" not in image.info:
        return image, None
    rgba = _with_8_bit_key(image).convert("RGBA")
    grey = image.mode in ("1", "L", "LA", "La")
    return rgba.convert("L" if grey else "RGB"), _alpha_if_used(rgba.getchannel("A"))


def _alpha_if_used(alpha: Image.Image) -> Image.Image | None:
    lowest, _ = cast("tuple[int, int]", alpha.getextrema())
    return alpha if lowest < 255 else None


def _with_8_bit_key(image: Image.Image) -> Image.Image:
    """Return the picture with its transparent colour in the 8 bits that Pillow keeps of 16.

    A PNG of 16-bit RGB names its transparent colour in 16 bits (PNG, 11.3.2.1).
    """
    key = image.info.get("transparency")
    if isinstance(key, tuple) and max(key) > 255:
        image = image.copy()
        image.info["transparency"] = tuple(level >> 8 for level in key)
    return image


def _from_16_bit(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """Return 16-bit grey as `L`, and the alpha that its transparent level means."""
    wide = image.convert("I")
    key = image.info.get("transparency")
    grey = wide.point(_HIGH_BYTE, "L")
    if not isinstance(key, int):
        return grey, None
    opaque = [255] * 65536
    opaque[min(key, 65535)] = 0
    return grey, _alpha_if_used(wide.point(opaque, "L"))


_HIGH_BYTE = [round(level / 257) for level in range(65536)]


def _profile(data: bytes) -> ImageCms.ImageCmsProfile:
    return ImageCms.ImageCmsProfile(BytesIO(data))


def _fits(mode: str, data: bytes) -> bool:
    try:
        return _profile(data).profile.xcolor_space == _SPACES[mode]
    except (OSError, ImageCms.PyCMSError):
        return False


def _apply_profile(image: Image.Image, data: bytes) -> Image.Image:
    """Return the picture in sRGB through a profile, or as it is where the profile is of no use."""
    if not _fits(image.mode, data):
        return image
    try:
        # sharp's intent, so that both show the same; for matrix profiles all intents are one.
        transform = ImageCms.buildTransform(
            _profile(data), _SRGB, image.mode, "RGB", ImageCms.Intent.PERCEPTUAL
        )
        converted = ImageCms.applyTransform(image, transform)
    except (OSError, ValueError, ImageCms.PyCMSError):
        return image
    assert converted is not None
    return converted


def _is_srgb(data: bytes) -> bool:
    """Whether a profile moves none of 125 colours, evenly spread over the cube, by anything to see."""
    levels = (0, 64, 128, 191, 255)
    probe = Image.frombytes(
        "RGB", (125, 1), bytes(v for r in levels for g in levels for b in levels for v in (r, g, b))
    )
    moved = ImageChops.difference(probe, _apply_profile(probe, data)).getextrema()
    return max(high for _, high in cast("tuple[tuple[int, int], ...]", moved)) <= SAME_COLOUR
