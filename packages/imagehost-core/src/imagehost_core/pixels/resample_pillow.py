"""Reduces in linear light by Pillow alone, where there is no compiled reducer.

Pillow reduces single channels of floats, so each channel goes by itself: through a table to light,
reduced, and back through a table. It is done in bands of rows, which keeps the floats within the
processor's cache and the memory within bounds.
"""

from __future__ import annotations

from typing import cast

from PIL import Image, ImageMath

from imagehost_core.pixels.linear_light import LINEAR_TO_SRGB, SRGB_TO_LINEAR, Box, Strip, box_factor, strips
from imagehost_core.transform.geometry import Size

STRIP_PIXELS = 1 << 18
"""About how many source pixels a band has: 1 MiB of floats a channel, which a core's cache holds."""

FLUSH_PIXELS = 1 << 22
"""How many floats wait before they go back through the table: 16 MiB."""


def downscale(image: Image.Image, size: Size, box: Box) -> Image.Image:
    """Return a box of the picture at a size that is smaller on both axes, or equal on one.

    Args:
        image: In `RGB` or `RGBA`.
        size: What the box is reduced to.
        box: The part of the picture.
    """
    target = Image.new(image.mode, (size.width, size.height))
    cell = box_factor(box, size)
    channels = 3 if image.mode == "RGB" else 4
    flush_rows = max(1, FLUSH_PIXELS // (channels * size.width))
    for start in range(0, size.height, flush_rows):
        rows = min(flush_rows, size.height - start)
        light = Image.new("F", (size.width, rows * 3))
        alpha = Image.new("L", (size.width, rows)) if image.mode == "RGBA" else None
        wanted = range(start, start + rows)
        for band in strips(Size(*image.size), size, box, cell, wanted, STRIP_PIXELS):
            _downscale_strip(image, band, cell, light, alpha, start, rows)
        levels = _to_8bit(light)
        parts = [levels.crop((0, i * rows, size.width, (i + 1) * rows)) for i in range(3)]
        target.paste(Image.merge(image.mode, parts if alpha is None else [*parts, alpha]), (0, start))
    return target


def _to_8bit(light: Image.Image) -> Image.Image:
    """Return light as 8-bit levels.

    `Image.point` rounds every entry of its table anew at each call, which for 65,536 of them takes as
    long as reducing a megapixel. The function below it takes the table as it is.
    """
    levels = Image.new("L", light.size)
    levels.im = light.convert("I").im.point(LINEAR_TO_SRGB, "L")
    return levels


def _downscale_strip(
    image: Image.Image,
    band: Strip,
    cell: tuple[int, int],
    light: Image.Image,
    alpha: Image.Image | None,
    start: int,
    rows: int,
) -> None:
    strip = image.crop((0, band.first, image.width, band.last))
    size = (light.width, band.rows)
    opacity = None if alpha is None else strip.getchannel("A").convert("F")
    seen = None if opacity is None else _resample(opacity, cell, size, band.box)
    for index in range(3):
        channel = strip.getchannel(index).point(SRGB_TO_LINEAR, "F")
        if opacity is None or seen is None:
            part = _resample(channel, cell, size, band.box)
        else:
            part = _unpremultiply(_resample(_premultiply(channel, opacity), cell, size, band.box), seen)
        light.paste(part, (0, index * rows + band.top - start))
    if alpha is not None and seen is not None:
        alpha.paste(seen.point(lambda level: level * 1 + 0.5).convert("L"), (0, band.top - start))


def _resample(channel: Image.Image, cell: tuple[int, int], size: tuple[int, int], box: Box) -> Image.Image:
    if cell != (1, 1):
        channel = channel.reduce(cell)
    return channel.resize(size, Image.Resampling.BICUBIC, box.edges)


def _premultiply(channel: Image.Image, by: Image.Image) -> Image.Image:
    return cast("Image.Image", ImageMath.lambda_eval(lambda args: args["a"] * args["b"], a=channel, b=by))


def _unpremultiply(channel: Image.Image, by: Image.Image) -> Image.Image:
    """Return the quotient; 0 where the divisor is."""
    return cast("Image.Image", ImageMath.lambda_eval(lambda args: args["a"] / args["b"], a=channel, b=by))
