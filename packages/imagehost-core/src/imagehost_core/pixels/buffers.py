"""How pictures lie in memory, four bytes a pixel, as the compiled modules take them."""

from __future__ import annotations

from PIL import Image

PACKED = {"RGB": "RGBX", "RGBA": "RGBA", "YCbCr": "YCbCrX"}
"""By mode, how Pillow names four bytes a pixel."""


def pixel_buffer(image: Image.Image) -> object:
    """Return the pixels where they lie; a copy where they lie in pieces."""
    try:
        return image.__arrow_c_array__()[1]
    except ValueError:
        return image.tobytes("raw", PACKED[image.mode])
