"""Reduces in linear light by the compiled reducer, in a quarter of the time that Pillow's floats take.

`_resample.c` is built with the package where there is a compiler, and part of its wheels. Importing this
module where it is not there raises `ImportError`.
"""

from __future__ import annotations

from array import array

from PIL import Image

from imagehost_core.pixels import _resample
from imagehost_core.pixels.buffers import PACKED, pixel_buffer
from imagehost_core.pixels.linear_light import LINEAR_TO_SRGB, SRGB_TO_LINEAR, Box, box_factor, strips
from imagehost_core.transform.geometry import Size

STRIP_PIXELS = 3 << 20
"""About how many source pixels a band has: 12 MiB. Of as much Pillow makes one piece of memory, and not of
more than 16 MiB."""

_TO_LIGHT = array("f", SRGB_TO_LINEAR).tobytes()
_FROM_LIGHT = bytes(LINEAR_TO_SRGB)


def downscale(image: Image.Image, size: Size, box: Box) -> Image.Image:
    """Return a box of the picture at a size that is smaller on both axes, or equal on one.

    Args:
        image: In `RGB` or `RGBA`.
        size: What the box is reduced to.
        box: The part of the picture.
    """
    cell = box_factor(box, size)
    pieces = []
    for band in strips(Size(*image.size), size, box, cell, range(size.height), STRIP_PIXELS):
        rows = (band.first, band.last)
        strip = image if rows == (0, image.height) else image.crop((0, rows[0], image.width, rows[1]))
        pieces.append(
            _resample.reduce(
                pixel_buffer(strip),
                strip.size,
                (size.width, band.rows),
                band.box.edges,
                cell,
                image.mode == "RGBA",
                _TO_LIGHT,
                _FROM_LIGHT,
            )
        )
    whole_size = (size.width, size.height)
    return Image.frombytes(image.mode, whole_size, b"".join(pieces), "raw", PACKED[image.mode])
