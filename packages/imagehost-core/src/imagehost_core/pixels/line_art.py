"""Line art: images of few colours, which a lossless encoding may store in fewer bytes; and their samples."""

from __future__ import annotations

from itertools import product

from PIL import Image

LINE_ART_MAX_COLOURS = 4_096
"""An image with no more colours in its sample may be line art."""
LINE_ART_SAMPLE_SIDE = 256
"""The maximum side of the sample, in pixels."""
TILES = 4
"""Tiles of a sample on each axis."""


def is_line_art(image: Image.Image) -> bool:
    """Return whether an image has so few colours that a lossless encoding may be smaller than a lossy one."""
    sample = image.convert("RGB")
    sample.thumbnail((LINE_ART_SAMPLE_SIDE, LINE_ART_SAMPLE_SIDE), Image.Resampling.NEAREST)
    return sample.getcolors(LINE_ART_MAX_COLOURS) is not None


def sample_tiles(image: Image.Image, side: int) -> Image.Image:
    """Return tiles of an image side by side, which cost as much per pixel to encode as the whole of it.

    Args:
        image: The image.
        side: The side of a tile, in pixels; less where the image is smaller.
    """
    width, height = (max(1, min(side, length // TILES)) for length in image.size)
    sample = Image.new(image.mode, (TILES * width, TILES * height))
    for row, column in product(range(TILES), repeat=2):
        left = (2 * column + 1) * image.width // (2 * TILES) - width // 2
        top = (2 * row + 1) * image.height // (2 * TILES) - height // 2
        tile = image.crop((left, top, left + width, top + height))
        sample.paste(tile, (column * width, row * height))
    return sample
