"""Chooses the colours of pictures whose format keeps one for every two by two pixels, in light.

`_chroma.c` does it, which is built with the package where there is a compiler, and part of its wheels.
Where it is not there, colours are left to the encoders, which average the numbers of an 8-bit picture.
"""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image

from imagehost_core.pixels.buffers import PACKED, pixel_buffer

STRIP_PIXELS = 3 << 20
"""About how many pixels are worked on at once: 12 MiB."""

REACH = 4
"""How many rows above and below a band have a say in it: two pairs."""

SubsampleFunction = Callable[[object, tuple[int, int], bool], bytes]


def _load_native() -> SubsampleFunction | None:
    try:
        from imagehost_core.pixels import _chroma
    except ImportError:
        return None
    return _chroma.halve


NATIVE = _load_native()
CHROMA_SUBSAMPLING = "encoder" if NATIVE is None else "sharp"
"""Who chooses colours here."""


def subsample_420(image: Image.Image, mode: str) -> Image.Image:
    """Return the picture with one colour for every two by two pixels, as bright as it was.

    Args:
        image: In `RGB`.
        mode: What is returned: `RGB`, or `YCbCr` (ITU-T T.871), which JPEG has.
    """
    if NATIVE is None:
        return image
    rows = max(2, STRIP_PIXELS // image.width // 2 * 2)
    if rows >= image.height:
        return _subsample_strips(NATIVE, image, mode)
    target = Image.new(mode, image.size)
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        first, last = max(0, top - REACH), min(image.height, bottom + REACH)
        made = _subsample_strips(NATIVE, image.crop((0, first, image.width, last)), mode)
        target.paste(made.crop((0, top - first, image.width, bottom - first)), (0, top))
    return target


def _subsample_strips(halve: SubsampleFunction, image: Image.Image, mode: str) -> Image.Image:
    pixels = halve(pixel_buffer(image), image.size, mode == "YCbCr")
    return Image.frombytes(mode, image.size, pixels, "raw", PACKED[mode])
