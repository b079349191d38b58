"""4:2:0 chroma subsampling with luma correction, as libsharpyuv does.

The C extension `_chroma` implements it. It is part of the wheels, and is built on installation from source
where a C compiler is available. Without it, chroma subsampling is left to the encoders, which average
gamma-encoded chroma.
"""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image, _imaging

BLOCK_BYTES = 1 << 30
"""The largest block of memory in which Pillow stores the pixels of an image. With its default, 16 MiB, images
above 4 megapixels are stored in several, and the C extensions could not write to them."""
_imaging.set_block_size(BLOCK_BYTES)

RAW_MODES = {"RGB": "RGBX", "RGBA": "RGBA"}
"""Pillow's raw mode with four bytes per pixel, by image mode."""


def pixel_buffer(image: Image.Image) -> object:
    """Return the pixels without a copy where Pillow stores them contiguously, else as bytes."""
    try:
        return image.__arrow_c_array__()[1]
    except ValueError:
        return image.tobytes("raw", RAW_MODES[image.mode])


def new_image(mode: str, size: tuple[int, int]) -> tuple[Image.Image, object]:
    """Return an image in which nothing is drawn, and its pixels, for a C extension to write them."""
    image = Image.new(mode, size, None)
    return image, image.__arrow_c_array__()[1]


SubsampleFunction = Callable[[object, object, tuple[int, int], bool], None]


def _load_native() -> SubsampleFunction | None:
    try:
        from imagehost_core.pixels import _chroma
    except ImportError:
        return None
    return _chroma.subsample_420


NATIVE = _load_native()
"""The C extension's function, or `None` where it was not built."""
CHROMA_SUBSAMPLING = "encoder" if NATIVE is None else "sharp"
"""The implementation in use: `sharp`, or `encoder` where the package was built without a C compiler."""


def subsample_420(image: Image.Image, mode: str) -> Image.Image:
    """Return the image with one chroma value for every 2×2 pixels, at unchanged brightness.

    Args:
        image: An image in mode `RGB`.
        mode: The mode of the result: `RGB`, or `YCbCr` (ITU-T T.871) for JPEG.
    """
    if NATIVE is None:
        return image
    target, pixels = new_image(mode, image.size)
    NATIVE(pixel_buffer(image), pixels, image.size, mode == "YCbCr")
    return target
