"""The placeholder of a picture: its ThumbHash, some 25 bytes that hold a blurred miniature.

Written from the description of the format at https://evanw.github.io/thumbhash/: a cosine
transform of luminance, of two differences of colour and of alpha, with as many waves as the
picture's shape deserves, each quantised to 4 bits.

The transform is separable, so rows go first and columns after: about 7 products a pixel.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from math import cos, pi

from attrs import frozen
from PIL import Image

from imagehost_core.transform.geometry import Size

MAX_SIDE = 100
"""The largest side that the format's description allows, in pixels."""
SIDE = 32
"""The longer side of the miniature that is transformed, in pixels: well above twice the 7 waves
that a hash can hold, so that more pixels would not change it by anything to see."""


@frozen
class _Channel:
    """A channel's mean, its waves, and the largest of them.

    Attributes:
        mean: The average.
        waves: The other coefficients, row by row, each divided by `scale` and brought to 0–1.
        scale: The largest of them without its sign, or 0.
    """

    mean: float
    waves: tuple[float, ...]
    scale: float


def thumbhash(image: Image.Image) -> str:
    """Return a picture's ThumbHash, in base64.

    Args:
        image: In `RGB` or `RGBA`, in sRGB, upright, of any size.
    """
    small = _miniature(image)
    return b64encode(hash_of(Size(*small.size), small.tobytes())).decode("ascii")


def _miniature(image: Image.Image) -> Image.Image:
    longer = max(image.size)
    size = tuple(max(1, round(side * SIDE / longer)) for side in image.size)
    return image.resize((size[0], size[1]), Image.Resampling.BOX, reducing_gap=2.0).convert("RGBA")


def hash_of(size: Size, rgba: bytes) -> bytes:
    """Return the ThumbHash of a picture of at most 100 × 100 pixels.

    Args:
        size: Its size.
        rgba: Its pixels row by row, four bytes each, alpha not multiplied in.
    """
    red, green, blue = (_shares(rgba[index::4]) for index in range(3))
    alpha = _shares(rgba[3::4])
    total = sum(alpha) or 1.0
    mean = [sum(map(float.__mul__, channel, alpha)) / total for channel in (red, green, blue)]
    # What is transparent is filled with the average colour.
    red, green, blue = (
        [average * (1 - a) + a * value for value, a in zip(channel, alpha, strict=True)]
        for channel, average in zip((red, green, blue), mean, strict=True)
    )
    see_through = any(a < 1 for a in alpha)
    limit = 5 if see_through else 7
    longer = max(size.width, size.height)
    waves_x = max(1, _round(limit * size.width / longer))
    waves_y = max(1, _round(limit * size.height / longer))

    light = [(r + g + b) / 3 for r, g, b in zip(red, green, blue, strict=True)]
    yellow_blue = [(r + g) / 2 - b for r, g, b in zip(red, green, blue, strict=True)]
    red_green = [r - g for r, g in zip(red, green, strict=True)]
    luma = _channel(size, light, max(3, waves_x), max(3, waves_y))
    p, q = (_channel(size, values, 3, 3) for values in (yellow_blue, red_green))
    opacity = _channel(size, alpha, 5, 5) if see_through else None
    return _packed(size, luma, p, q, opacity, waves_y if size.width > size.height else waves_x)


def _shares(levels: bytes) -> list[float]:
    return [level / 255 for level in levels]


def _round(value: float) -> int:
    """Return the nearest integer, halves up."""
    return int(value + 0.5)


def _channel(size: Size, values: Sequence[float], waves_x: int, waves_y: int) -> _Channel:
    width, height = size.width, size.height
    across, down = _cosines(width, waves_x), _cosines(height, waves_y)
    rows = [values[y * width : (y + 1) * width] for y in range(height)]
    by_row = [[sum(map(float.__mul__, row, wave)) for row in rows] for wave in across]
    # Only the corner of low waves is kept: x/waves_x + y/waves_y < 1.
    found = [
        sum(map(float.__mul__, by_row[x], down[y])) / (width * height)
        for y in range(waves_y)
        for x in range(waves_x)
        if x * waves_y < waves_x * (waves_y - y)
    ]
    mean, *waves = found
    scale = max(map(abs, waves), default=0.0)
    shares = tuple(0.5 + 0.5 * wave / scale for wave in waves) if scale else tuple(waves)
    return _Channel(mean, shares, scale)


def _cosines(length: int, waves: int) -> list[list[float]]:
    return [[cos(pi / length * wave * (x + 0.5)) for x in range(length)] for wave in range(waves)]


def _packed(
    size: Size, light: _Channel, p: _Channel, q: _Channel, opacity: _Channel | None, shorter: int
) -> bytes:
    """Return the head of 5 or 6 bytes, then all waves as nibbles, the low one of each byte first."""
    head = (
        _round(63 * light.mean)
        | _round(31.5 + 31.5 * p.mean) << 6
        | _round(31.5 + 31.5 * q.mean) << 12
        | _round(31 * light.scale) << 18
        | (opacity is not None) << 23
    )
    tail = shorter | _round(63 * p.scale) << 3 | _round(63 * q.scale) << 9 | (size.width > size.height) << 15
    data = bytearray(head.to_bytes(3, "little") + tail.to_bytes(2, "little"))
    if opacity is not None:
        data.append(_round(15 * opacity.mean) | _round(15 * opacity.scale) << 4)
    channels = (light, p, q) if opacity is None else (light, p, q, opacity)
    nibbles = [_round(15 * wave) for channel in channels for wave in channel.waves]
    nibbles += [0] * (len(nibbles) % 2)
    data += bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))
    return bytes(data)
