"""The choice of a variant's format by its pixels, for `fm=auto`.

At equal SSIMULACRA2 (`bench/auto.py`), AVIF has 0.8 to 0.97 times the bytes of WebP for photographs, and 1.1
to 1.5 times for screenshots, charts and drawings, also where they came as a JPEG or are downscaled.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction

from PIL import Image, ImageChops

from imagehost_core.formats import Format
from imagehost_core.pixels.colour import drop_opaque_alpha
from imagehost_core.transform import NAMED_FORMATS

MIN_FLAT_SHARE = 1 / 3
"""The least share of a graphic's pixels that equal their neighbour at the top left. Of screenshots 0.34 to
0.95 do, of photographs up to 0.55."""
MIN_SHARP_SHARE = 1 / 10
"""The least share of sharp edges among a graphic's other pixels: screenshots have 0.11 to 0.9, photographs
with so many equal pixels, which are overexposed or out of focus, up to 0.06."""
SHARP_STEP, CLEAR_STEP = 32, 64
"""The least differences of a channel across a sharp and across a clear edge, 0–255."""
MAX_BLURRED_SHARE, MIN_CLEAR_SHARE = 0.12, 0.15
"""Text that is too small to be read is no graphic: it has sharp edges in more of its pixels than the one, and
clear edges in fewer of those that are not flat than the other. AVIF has 0.75 to 0.8 times the bytes there."""
EXACT_MARGIN = Fraction(6, 5)
"""A file without loss is sent if it has at most so many times the bytes of one with loss."""


def choose_lossy(choices: Collection[Format], image: Image.Image) -> Format:
    """Return the format for an image that is encoded with loss.

    Args:
        choices: The formats that the client accepts.
        image: The image, in mode `RGB` or `RGBA`.
    """
    image = drop_opaque_alpha(image)
    has_alpha = image.mode == "RGBA"
    named = [fmt for fmt in NAMED_FORMATS if fmt in choices]
    if len(named) > 1:
        has_partial_alpha = has_alpha and _has_partial_alpha(image)
        return Format.WEBP if has_partial_alpha or is_graphic(image) else Format.AVIF
    fallback = (Format.PNG, Format.JPEG) if has_alpha else (Format.JPEG, Format.PNG)
    return next(fmt for fmt in (*named, *fallback, Format.GIF) if fmt in choices)


def choose_lossless(choices: Collection[Format]) -> Format | None:
    """Return the format for an image that is encoded without loss, or `None` if there is none."""
    return next((fmt for fmt in (Format.WEBP, Format.PNG) if fmt in choices), None)


def is_worth_its_bytes(exact: bytes, lossy: bytes) -> bool:
    """Return whether a file without loss is sent instead of one with loss."""
    return len(exact) <= EXACT_MARGIN * len(lossy)


def is_graphic(image: Image.Image) -> bool:
    """Return whether an image has flat areas and sharp edges, as screenshots have and photographs do not."""
    width, height = image.size
    if min(image.size) < 2:
        return False
    image = image.convert("RGB")
    shifted = image.crop((0, 0, width - 1, height - 1))
    rest = image.crop((1, 1, width, height))
    red, green, blue = ImageChops.difference(shifted, rest).split()
    steps = ImageChops.lighter(ImageChops.lighter(red, green), blue).histogram()
    pixels = sum(steps)
    sharp = sum(steps[SHARP_STEP:])
    clear = sum(steps[CLEAR_STEP:])
    others = pixels - steps[0]
    is_blurred_text = sharp > MAX_BLURRED_SHARE * pixels and clear < MIN_CLEAR_SHARE * others
    is_sharp = sharp >= MIN_SHARP_SHARE * others and not is_blurred_text
    return is_sharp and steps[0] >= MIN_FLAT_SHARE * pixels


def _has_partial_alpha(image: Image.Image) -> bool:
    """Return whether any pixel is neither opaque nor transparent: Chromium shows those of an AVIF wrongly."""
    return any(image.getchannel("A").histogram()[1:255])
