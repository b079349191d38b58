"""How a picture is brought to another size: reduced in linear light, enlarged as it is."""

from __future__ import annotations

from PIL import Image

from imagehost_core.pixels.linear_light import Box
from imagehost_core.transform.geometry import Plan, Size

try:
    from imagehost_core.pixels.resample_native import downscale
except ImportError:
    from imagehost_core.pixels.resample_pillow import downscale

RESAMPLER = downscale.__module__.rpartition("_")[2]
"""The resampler in use: `native`, or `pillow` where the package was built without a C compiler. Their results
differ by one level in a few of ten thousand pixels."""

FILTER = Image.Resampling.BICUBIC
"""Catmull-Rom's cubic. Lanczos takes half as much time again, and its half a point of SSIMULACRA2 more
is paid for with 3 % more bytes in every format."""


def resize_and_crop(image: Image.Image, plan: Plan) -> Image.Image:
    """Return what the plan keeps of the picture, at the plan's scale; nothing else is computed.

    Args:
        image: The whole upright picture, in `RGB` or `RGBA`, at any scale.
        plan: The steps; its `resize` is where the whole picture is brought to.
    """
    width = min(plan.resize.width, plan.output.width)
    height = min(plan.resize.height, plan.output.height)
    across = image.width / plan.resize.width
    down = image.height / plan.resize.height
    box = Box(
        plan.crop.left * across,
        plan.crop.top * down,
        min(image.width, (plan.crop.left + width) * across),
        min(image.height, (plan.crop.top + height) * down),
    )
    return resample(image, Size(width, height), box)


def resize_to(image: Image.Image, size: Size) -> Image.Image:
    """Return the whole picture at a smaller size."""
    return resample(image, size, Box(0, 0, image.width, image.height))


def resample(image: Image.Image, size: Size, box: Box) -> Image.Image:
    """Return a box of the picture at another size: first the axes that shrink, then those that grow."""
    narrower = size.width < box.right - box.left
    lower = size.height < box.bottom - box.top
    if narrower or lower:
        first = Size(size.width if narrower else image.width, size.height if lower else image.height)
        part = Box(
            box.left if narrower else 0,
            box.top if lower else 0,
            box.right if narrower else image.width,
            box.bottom if lower else image.height,
        )
        image = downscale(image, first, part)
        box = Box(
            0 if narrower else box.left,
            0 if lower else box.top,
            first.width if narrower else box.right,
            first.height if lower else box.bottom,
        )
    return _upscale(image, size, box)


def _upscale(image: Image.Image, size: Size, box: Box) -> Image.Image:
    if box == Box(0, 0, size.width, size.height) and image.size == (size.width, size.height):
        return image
    # Pillow multiplies RGBA by its alpha before it resizes, and divides after.
    return image.resize((size.width, size.height), FILTER, box.edges)
