"""The Pillow resampler: downscaling in linear light by Pillow operations, used without the native resampler.

Pillow resizes images of float samples one channel at a time, so each channel is converted to linear light,
resized and converted back. Strips of rows keep the floats within the processor's cache and limit the memory.
"""

from __future__ import annotations

from typing import cast

from PIL import Image, ImageMath

from imagehost_core.pixels.linear_light import LINEAR_TO_SRGB, SRGB_TO_LINEAR, Box, Strip, box_factor, strips
from imagehost_core.transform import Size

STRIP_PIXELS = 1 << 18
"""The approximate size of a strip: 1 MiB of floats per channel, which fits a core's cache."""

FLUSH_PIXELS = 1 << 22
"""The number of resized float samples that are buffered before conversion to 8 bits: 16 MiB."""


def downscale(image: Image.Image, size: Size, box: Box) -> Image.Image:
    """Return a box of the image at a size that is smaller on both axes, or equal on one.

    Args:
        image: An image in mode `RGB` or `RGBA`.
        size: The target size of the box.
        box: The source region.
    """
    target = Image.new(image.mode, (size.width, size.height))
    factor = box_factor(box, size)
    channels = 3 if image.mode == "RGB" else 4
    flush_rows = max(1, FLUSH_PIXELS // (channels * size.width))
    for start in range(0, size.height, flush_rows):
        rows = min(flush_rows, size.height - start)
        linear = Image.new("F", (size.width, rows * 3))
        alpha = Image.new("L", (size.width, rows)) if image.mode == "RGBA" else None
        target_rows = range(start, start + rows)
        for strip in strips(Size(*image.size), size, box, factor, target_rows, STRIP_PIXELS):
            _downscale_strip(image, strip, factor, linear, alpha, start, rows)
        samples = _to_8bit(linear)
        parts = [samples.crop((0, i * rows, size.width, (i + 1) * rows)) for i in range(3)]
        target.paste(Image.merge(image.mode, parts if alpha is None else [*parts, alpha]), (0, start))
    return target


def _to_8bit(linear: Image.Image) -> Image.Image:
    """Return linear light as 8-bit sRGB samples.

    Pillow's `point` converts the table of 65,536 entries at each call, which takes as long as downscaling a
    megapixel; the core function behind it takes the table unconverted.
    """
    samples = Image.new("L", linear.size)
    samples.im = linear.convert("I").im.point(LINEAR_TO_SRGB, "L")
    return samples


def _downscale_strip(
    image: Image.Image,
    strip: Strip,
    factor: tuple[int, int],
    linear: Image.Image,
    alpha: Image.Image | None,
    start: int,
    rows: int,
) -> None:
    """Downscale a strip into `linear`, which holds the colour channels one below the other, and `alpha`."""
    source = image.crop((0, strip.first, image.width, strip.last))
    size = (linear.width, strip.rows)
    source_alpha = None if alpha is None else source.getchannel("A").convert("F")
    resized_alpha = None if source_alpha is None else _resample(source_alpha, factor, size, strip.box)
    for index in range(3):
        channel = source.getchannel(index).point(SRGB_TO_LINEAR, "F")
        if source_alpha is None or resized_alpha is None:
            resized = _resample(channel, factor, size, strip.box)
        else:
            premultiplied = _resample(_premultiply(channel, source_alpha), factor, size, strip.box)
            resized = _unpremultiply(premultiplied, resized_alpha)
        linear.paste(resized, (0, index * rows + strip.top - start))
    if alpha is not None and resized_alpha is not None:
        alpha.paste(resized_alpha.point(lambda level: level * 1 + 0.5).convert("L"), (0, strip.top - start))


def _resample(channel: Image.Image, factor: tuple[int, int], size: tuple[int, int], box: Box) -> Image.Image:
    if factor != (1, 1):
        channel = channel.reduce(factor)
    return channel.resize(size, Image.Resampling.BICUBIC, box.edges)


def _premultiply(channel: Image.Image, alpha: Image.Image) -> Image.Image:
    return cast("Image.Image", ImageMath.lambda_eval(lambda args: args["a"] * args["b"], a=channel, b=alpha))


def _unpremultiply(channel: Image.Image, alpha: Image.Image) -> Image.Image:
    """Return the channel divided by alpha; 0 where alpha is 0."""
    return cast("Image.Image", ImageMath.lambda_eval(lambda args: args["a"] / args["b"], a=channel, b=alpha))
