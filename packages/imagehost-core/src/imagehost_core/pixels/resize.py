"""How a picture is brought to another size: reduced in linear light, enlarged as it is.

Light adds up; the numbers of an 8-bit picture do not, they are its 2.4th root or so (IEC 61966-2-1).
Averaging the numbers darkens fine light detail. Measured on photographs, averaging light instead is
worth 10 to 16 points of SSIMULACRA2 for a quarter more time.

Pillow reduces single channels of floats, so each channel goes by itself: through a table to light,
reduced, and back through a table. It is done in bands of rows, which keeps the floats within the
processor's cache and the memory within bounds, and changes nothing in the result: each band reads
as many rows beyond its own as the filter reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor
from typing import cast

from attrs import frozen
from PIL import Image, ImageMath

from imagehost_core.geometry import Plan, Size

FILTER = Image.Resampling.BICUBIC
"""Catmull-Rom's cubic. Lanczos takes twice the time, and its half a point of SSIMULACRA2 more is paid
for with 3 % more bytes in every format."""
REACH = 2
"""How far the filter reaches, in pixels of the reduced picture to each side."""

GAP = 1.75
"""Box averages go first, as long as they leave the picture this many times larger than the target:
0.3 points for half the time."""

BAND_PIXELS = 1 << 18
"""About how many source pixels a band has: 1 MiB of floats a channel, which a core's cache holds."""

FLUSH_PIXELS = 1 << 22
"""How many floats wait before they go back through the table: 16 MiB."""

LIGHT_MAX = 65_535


def _light(level: float) -> float:
    return level / 12.92 if level <= 0.04045 else ((level + 0.055) / 1.055) ** 2.4


def _level(light: float) -> float:
    return light * 12.92 if light <= 0.0031308 else 1.055 * light ** (1 / 2.4) - 0.055


TO_LIGHT = [_light(level / 255) * LIGHT_MAX + 0.5 for level in range(256)]
"""Light of each 8-bit level. The half makes the later cut to integers a rounding: filters keep it,
since their weights add up to 1."""
FROM_LIGHT = [round(_level(light / LIGHT_MAX) * 255) for light in range(LIGHT_MAX + 1)]


@frozen
class Box:
    """A part of a picture, in its pixels; edges may lie between two of them."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom."""
        return self.left, self.top, self.right, self.bottom


def resized(image: Image.Image, plan: Plan) -> Image.Image:
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


def reduced(image: Image.Image, size: Size) -> Image.Image:
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
        image = _in_light(image, first, part)
        box = Box(
            0 if narrower else box.left,
            0 if lower else box.top,
            first.width if narrower else box.right,
            first.height if lower else box.bottom,
        )
    return _enlarged(image, size, box)


def _enlarged(image: Image.Image, size: Size, box: Box) -> Image.Image:
    if box == Box(0, 0, size.width, size.height) and image.size == (size.width, size.height):
        return image
    # Pillow multiplies RGBA by its alpha before it resizes, and divides after.
    return image.resize((size.width, size.height), FILTER, box.edges)


@frozen
class _Band:
    """Rows of the target, and what of the source they are made of.

    Attributes:
        top: The first row of the target.
        rows: How many rows.
        first: The first row of the source that is read.
        last: The row after the last one that is read.
        box: The part of those rows that the band shows, after the box averages.
    """

    top: int
    rows: int
    first: int
    last: int
    box: Box


def _in_light(image: Image.Image, size: Size, box: Box) -> Image.Image:
    """Return a box of the picture at a size that is smaller on both axes, or equal on one."""
    target = Image.new(image.mode, (size.width, size.height))
    factors = (
        max(1, int((box.right - box.left) / size.width / GAP)),
        max(1, int((box.bottom - box.top) / size.height / GAP)),
    )
    channels = 3 if image.mode == "RGB" else 4
    flush_rows = max(1, FLUSH_PIXELS // (channels * size.width))
    for start in range(0, size.height, flush_rows):
        rows = min(flush_rows, size.height - start)
        light = Image.new("F", (size.width, rows * 3))
        alpha = Image.new("L", (size.width, rows)) if image.mode == "RGBA" else None
        for band in _bands(image, size, box, factors, start, start + rows):
            _reduce_band(image, band, factors, light, alpha, start, rows)
        levels = _levels(light)
        parts = [levels.crop((0, i * rows, size.width, (i + 1) * rows)) for i in range(3)]
        target.paste(Image.merge(image.mode, parts if alpha is None else [*parts, alpha]), (0, start))
    return target


def _levels(light: Image.Image) -> Image.Image:
    """Return light as 8-bit levels.

    `Image.point` rounds every entry of its table anew at each call, which for 65,536 of them takes as
    long as reducing a megapixel. The function below it takes the table as it is.
    """
    levels = Image.new("L", light.size)
    levels.im = light.convert("I").im.point(FROM_LIGHT, "L")
    return levels


def _bands(
    image: Image.Image, size: Size, box: Box, factors: tuple[int, int], start: int, stop: int
) -> Iterator[_Band]:
    scale = (box.bottom - box.top) / size.height
    reach = REACH * max(scale, factors[1]) + factors[1]
    step = max(16, ceil(BAND_PIXELS / image.width / scale))
    for top in range(start, stop, step):
        rows = min(step, stop - top)
        upper, under = box.top + top * scale, box.top + (top + rows) * scale
        # Bands begin at a multiple of the factor, so that the averages are the same in any band.
        first = max(0, floor((upper - reach) / factors[1]) * factors[1])
        last = min(image.height, ceil((under + reach) / factors[1]) * factors[1])
        shown = Box(
            box.left / factors[0],
            (upper - first) / factors[1],
            box.right / factors[0],
            (under - first) / factors[1],
        )
        yield _Band(top, rows, first, last, shown)


def _reduce_band(
    image: Image.Image,
    band: _Band,
    factors: tuple[int, int],
    light: Image.Image,
    alpha: Image.Image | None,
    start: int,
    rows: int,
) -> None:
    strip = image.crop((0, band.first, image.width, band.last))
    size = (light.width, band.rows)
    opacity = None if alpha is None else strip.getchannel("A").convert("F")
    seen = None if opacity is None else _shrunk(opacity, factors, size, band.box)
    for index in range(3):
        channel = strip.getchannel(index).point(TO_LIGHT, "F")
        if opacity is None or seen is None:
            part = _shrunk(channel, factors, size, band.box)
        else:
            part = _divided(_shrunk(_multiplied(channel, opacity), factors, size, band.box), seen)
        light.paste(part, (0, index * rows + band.top - start))
    if alpha is not None and seen is not None:
        alpha.paste(seen.point(lambda level: level * 1 + 0.5).convert("L"), (0, band.top - start))


def _shrunk(channel: Image.Image, factors: tuple[int, int], size: tuple[int, int], box: Box) -> Image.Image:
    if factors != (1, 1):
        channel = channel.reduce(factors)
    edges = (box.left, box.top, min(box.right, channel.width), min(box.bottom, channel.height))
    return channel.resize(size, FILTER, edges)


def _multiplied(channel: Image.Image, by: Image.Image) -> Image.Image:
    return cast("Image.Image", ImageMath.lambda_eval(lambda args: args["a"] * args["b"], a=channel, b=by))


def _divided(channel: Image.Image, by: Image.Image) -> Image.Image:
    """Return the quotient; 0 where the divisor is."""
    return cast("Image.Image", ImageMath.lambda_eval(lambda args: args["a"] / args["b"], a=channel, b=by))
