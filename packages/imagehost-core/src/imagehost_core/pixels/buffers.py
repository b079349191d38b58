"""Access to the pixels of Pillow images, four bytes per pixel, for the C extensions."""

from __future__ import annotations

from PIL import Image

RAW_MODES = {"RGB": "RGBX", "RGBA": "RGBA", "YCbCr": "YCbCrX"}
"""Pillow's raw mode with four bytes per pixel, by image mode."""


def pixel_buffer(image: Image.Image) -> object:
    """Return the pixels without a copy where Pillow stores them contiguously, else as bytes."""
    try:
        return image.__arrow_c_array__()[1]
    except ValueError:
        return image.tobytes("raw", RAW_MODES[image.mode])
