"""4:2:0 chroma subsampling with luma correction, as libsharpyuv does.

The C extension `_chroma` implements it. It is part of the wheels, and is built on installation from source
where a C compiler is available. Without it, chroma subsampling is left to the encoders, which average
gamma-encoded chroma.
"""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image

RAW_MODES = {"RGB": "RGBX", "RGBA": "RGBA", "YCbCr": "YCbCrX"}
"""Pillow's raw mode with four bytes per pixel, by image mode."""


def pixel_buffer(image: Image.Image) -> object:
    """Return the pixels without a copy where Pillow stores them contiguously, else as bytes."""
    try:
        return image.__arrow_c_array__()[1]
    except ValueError:
        return image.tobytes("raw", RAW_MODES[image.mode])


STRIP_PIXELS = 3 << 20
"""The approximate size of a strip: 12 MiB of pixels."""

CONTEXT_ROWS = 4
"""Rows above and below a strip that affect its result: two pairs of lines."""

SubsampleFunction = Callable[[object, tuple[int, int], bool], bytes]


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
    rows = max(2, STRIP_PIXELS // image.width // 2 * 2)
    if rows >= image.height:
        return _subsample(NATIVE, image, mode)
    target = Image.new(mode, image.size)
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        first, last = max(0, top - CONTEXT_ROWS), min(image.height, bottom + CONTEXT_ROWS)
        strip = _subsample(NATIVE, image.crop((0, first, image.width, last)), mode)
        target.paste(strip.crop((0, top - first, image.width, bottom - first)), (0, top))
    return target


def _subsample(function: SubsampleFunction, image: Image.Image, mode: str) -> Image.Image:
    pixels = function(pixel_buffer(image), image.size, mode == "YCbCr")
    return Image.frombytes(mode, image.size, pixels, "raw", RAW_MODES[mode])
