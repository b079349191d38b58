"""ThumbHash placeholders: about 25 bytes that encode a blurred miniature of an image.

Implements the format described at https://evanw.github.io/thumbhash/: a discrete cosine transform of
luminance, two colour differences and alpha, with a number of coefficients that depends on the aspect ratio,
each quantised to 4 bits. The transform is separable: first rows, then columns, about 7 multiplications per
pixel.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from math import cos, pi

from attrs import frozen
from PIL import Image

from imagehost_core.transform import Size

MAX_SIDE = 100
"""The maximum side of the image to hash according to the format's description, in pixels."""
MINIATURE_SIDE = 24
"""The longer side of the miniature that is hashed, in pixels. Its mean values lower the highest of the 7
frequencies of a hash by 2.5 %, which has 16 levels."""


@frozen
class _Channel:
    """The quantisation input of one channel.

    Attributes:
        dc: The mean of the samples.
        ac: The other coefficients in row order, scaled to 0–1.
        scale: The largest absolute value of the other coefficients.
    """

    dc: float
    ac: tuple[float, ...]
    scale: float


def thumbhash(image: Image.Image) -> str:
    """Return an image's ThumbHash, in base64.

    Args:
        image: An upright sRGB image of any size, in mode `RGB` or `RGBA`.
    """
    miniature = _miniature(image)
    return b64encode(hash_of(Size(*miniature.size), miniature.tobytes())).decode("ascii")


def _miniature(image: Image.Image) -> Image.Image:
    longer = max(image.size)
    size = tuple(max(1, round(side * MINIATURE_SIDE / longer)) for side in image.size)
    return image.resize((size[0], size[1]), Image.Resampling.BOX, reducing_gap=2.0).convert("RGBA")


def hash_of(size: Size, rgba: bytes) -> bytes:
    """Return the ThumbHash of an image of at most `MAX_SIDE` × `MAX_SIDE` pixels.

    Args:
        size: The size of the image.
        rgba: Its pixels in row order, four bytes each, with straight (not premultiplied) alpha.
    """
    red, green, blue = (_to_unit(rgba[index::4]) for index in range(3))
    alpha = _to_unit(rgba[3::4])
    has_alpha = min(alpha) < 1
    if has_alpha:
        red, green, blue = (_composite_on_mean(channel, alpha) for channel in (red, green, blue))
    limit = 5 if has_alpha else 7
    longer = max(size.width, size.height)
    count_x = max(1, _round(limit * size.width / longer))
    count_y = max(1, _round(limit * size.height / longer))

    luminance = [(r + g + b) / 3 for r, g, b in zip(red, green, blue, strict=True)]
    yellow_blue = [(r + g) / 2 - b for r, g, b in zip(red, green, blue, strict=True)]
    red_green = [r - g for r, g in zip(red, green, strict=True)]
    l_channel = _transform(size, luminance, max(3, count_x), max(3, count_y))
    p_channel, q_channel = (_transform(size, values, 3, 3) for values in (yellow_blue, red_green))
    a_channel = _transform(size, alpha, 5, 5) if has_alpha else None
    shorter_count = count_y if size.width > size.height else count_x
    return _pack(size, l_channel, p_channel, q_channel, a_channel, shorter_count)


def _to_unit(levels: bytes) -> list[float]:
    return [_UNIT[level] for level in levels]


_UNIT = [level / 255 for level in range(256)]


def _composite_on_mean(channel: Sequence[float], alpha: Sequence[float]) -> list[float]:
    """Return a colour channel composited on its mean, weighted by alpha."""
    mean = sum(map(float.__mul__, channel, alpha)) / (sum(alpha) or 1.0)
    return [mean * (1 - a) + a * value for value, a in zip(channel, alpha, strict=True)]


def _round(value: float) -> int:
    """Return the nearest integer, halves rounded up."""
    return int(value + 0.5)


def _transform(size: Size, values: Sequence[float], count_x: int, count_y: int) -> _Channel:
    """Return the cosine transform of a channel, with a number of frequencies per axis."""
    width, height = size.width, size.height
    cosines_x = _cosines(width, count_x)
    cosines_y = _cosines(height, count_y)
    rows = [values[y * width : (y + 1) * width] for y in range(height)]
    by_row = [[sum(map(float.__mul__, row, wave)) for row in rows] for wave in cosines_x]
    # Only the triangle of low frequencies is kept: x/count_x + y/count_y < 1.
    coefficients = [
        sum(map(float.__mul__, by_row[x], cosines_y[y])) / (width * height)
        for y in range(count_y)
        for x in range(count_x)
        if x * count_y < count_x * (count_y - y)
    ]
    dc, *ac = coefficients
    scale = max(map(abs, ac), default=0.0)
    scaled = tuple(0.5 + 0.5 * value / scale for value in ac) if scale else tuple(ac)
    return _Channel(dc, scaled, scale)


@cache
def _cosines(length: int, count: int) -> list[list[float]]:
    return [[cos(pi / length * frequency * (x + 0.5)) for x in range(length)] for frequency in range(count)]


def _pack(
    size: Size,
    l_channel: _Channel,
    p_channel: _Channel,
    q_channel: _Channel,
    a_channel: _Channel | None,
    shorter_count: int,
) -> bytes:
    """Return the header of 5 or 6 bytes, then all AC coefficients as nibbles, low nibble first."""
    header = (
        _round(63 * l_channel.dc)
        | _round(31.5 + 31.5 * p_channel.dc) << 6
        | _round(31.5 + 31.5 * q_channel.dc) << 12
        | _round(31 * l_channel.scale) << 18
        | (a_channel is not None) << 23
    )
    header_end = (
        shorter_count
        | _round(63 * p_channel.scale) << 3
        | _round(63 * q_channel.scale) << 9
        | (size.width > size.height) << 15
    )
    data = bytearray(header.to_bytes(3, "little") + header_end.to_bytes(2, "little"))
    if a_channel is not None:
        data.append(_round(15 * a_channel.dc) | _round(15 * a_channel.scale) << 4)
    channels = [l_channel, p_channel, q_channel] + ([] if a_channel is None else [a_channel])
    nibbles = [_round(15 * value) for channel in channels for value in channel.ac]
    nibbles += [0] * (len(nibbles) % 2)
    data += bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))
    return bytes(data)
