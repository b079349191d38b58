"""The average colour of an image, from its ThumbHash."""

from __future__ import annotations

import base64
import binascii


def average_colour(placeholder: str) -> tuple[int, int, int] | None:
    """Return the average red, green and blue (0–255) of a ThumbHash, or `None` if it is invalid.

    A ThumbHash begins with 24 bits, lowest first: 6 of mean lightness, 6 of mean yellow against blue,
    6 of mean red against green, 5 of scale, 1 of alpha. Lightness is the mean of the mean of red and
    green with blue thirds: `l = (r+g+b)/3`, `p = (r+g)/2 - b`, `q = r - g`
    (https://evanw.github.io/thumbhash/).
    """
    try:
        head = base64.b64decode(placeholder, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(head) < 5:
        return None
    bits = int.from_bytes(head[:3], "little")
    lightness = (bits & 63) / 63
    yellow = (bits >> 6 & 63) / 31.5 - 1
    red_green = (bits >> 12 & 63) / 31.5 - 1
    blue = lightness - 2 / 3 * yellow
    red = (3 * lightness - blue + red_green) / 2
    green = red - red_green
    return _byte(red), _byte(green), _byte(blue)


def background_colour(placeholder: str) -> str | None:
    """Return the CSS declaration of a ThumbHash's average colour, or `None` if it is invalid."""
    colour = average_colour(placeholder)
    return None if colour is None else "background-color:#{:02x}{:02x}{:02x}".format(*colour)


def _byte(value: float) -> int:
    return round(255 * min(1.0, max(0.0, value)))
