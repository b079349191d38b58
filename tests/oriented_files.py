"""Files with an EXIF orientation, stated in every way that encoders and editors do."""

from __future__ import annotations

import struct
from collections.abc import Callable
from io import BytesIO

from PIL import Image
from tests.unusual_files import jpeg_segment, png_chunk

ORIENTATION = 0x0112
SHORT, LONG = 3, 4
LABEL = b"Exif\0\0"
SIZE = (32, 16)

TRANSPOSITIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def stored_pixels() -> Image.Image:
    """Return four fields of different colours, so that every orientation differs."""
    image = Image.new("RGB", SIZE, "black")
    image.paste("red", (16, 0, 32, 8))
    image.paste("lime", (0, 8, 16, 16))
    image.paste("white", (16, 8, 32, 16))
    return image


def upright_pixels(orientation: int) -> Image.Image:
    """Return what a viewer shows of `stored_pixels` with an orientation."""
    method = TRANSPOSITIONS.get(orientation)
    return stored_pixels() if method is None else stored_pixels().transpose(method)


def corners(image: Image.Image) -> tuple[object, ...]:
    """Return whether an image is wide, and which of red, green and blue each corner has."""
    image = image.convert("RGB")
    right, bottom = image.width - 3, image.height - 3
    places = ((2, 2), (right, 2), (2, bottom), (right, bottom))
    levels = [image.getpixel(place) for place in places]
    return image.width > image.height, *(tuple(level > 127 for level in pixel) for pixel in levels)  # type: ignore[union-attr]


def exif(orientation: int, kind: int = SHORT, order: str = "<") -> bytes:
    """Return a TIFF file with an orientation of a type."""
    value = struct.pack(order + {SHORT: "H2x", LONG: "I"}[kind], orientation)
    head = struct.pack(f"{order}2sHIH", b"II" if order == "<" else b"MM", 42, 8, 1)
    return head + struct.pack(f"{order}HHI", ORIENTATION, kind, 1) + value + bytes(4)


def _encode(fmt: str, **options: object) -> bytes:
    buffer = BytesIO()
    stored_pixels().save(buffer, fmt, **options)
    return buffer.getvalue()


def _animation(fmt: str, **options: object) -> bytes:
    other = stored_pixels()
    other.paste("blue", (12, 4, 20, 12))
    return _encode(fmt, save_all=True, append_images=[other], duration=100, **options)


def _jpeg(block: bytes, marker: bytes = b"\xff\xe0") -> bytes:
    """Return a JPEG with an EXIF segment before the first segment of a marker."""
    data = _encode("JPEG", quality=95, subsampling=0)
    before, _, after = data.partition(marker)
    return before + jpeg_segment(0xE1, block) + marker + after


def _png(block: bytes, before: bytes, *, animated: bool = False) -> bytes:
    """Return a PNG with an EXIF chunk before the first chunk of a type."""
    data = _animation("PNG") if animated else _encode("PNG")
    offset = data.index(before) - 4
    return data[:offset] + png_chunk(b"eXIf", block) + data[offset:]


ORIENTED: dict[str, Callable[[int], bytes]] = {
    "jpeg SHORT": lambda value: _jpeg(LABEL + exif(value)),
    "jpeg SHORT big-endian": lambda value: _jpeg(LABEL + exif(value, order=">")),
    "jpeg LONG": lambda value: _jpeg(LABEL + exif(value, LONG)),
    "jpeg LONG big-endian": lambda value: _jpeg(LABEL + exif(value, LONG, ">")),
    "jpeg labelled Exif 0xFF": lambda value: _jpeg(b"Exif\0\xff" + exif(value)),
    "jpeg labelled twice": lambda value: _jpeg(2 * LABEL + exif(value)),
    "jpeg after the frame header": lambda value: _jpeg(LABEL + exif(value, LONG), b"\xff\xda"),
    "png before the pixels": lambda value: _png(exif(value), b"IDAT"),
    "png after the pixels": lambda value: _png(exif(value), b"IEND"),
    "png labelled": lambda value: _png(LABEL + exif(value), b"IDAT"),
    "png LONG": lambda value: _png(exif(value, LONG, ">"), b"IDAT"),
    "apng before the pixels": lambda value: _png(exif(value), b"IDAT", animated=True),
    "apng after the pixels": lambda value: _png(exif(value), b"IEND", animated=True),
    "webp lossy": lambda value: _encode("WEBP", quality=95, exif=exif(value)),
    "webp lossless": lambda value: _encode("WEBP", lossless=True, exif=exif(value)),
    "webp labelled": lambda value: _encode("WEBP", lossless=True, exif=LABEL + exif(value, LONG)),
    "webp animated": lambda value: _animation("WEBP", quality=95, exif=exif(value)),
    "webp animated lossless": lambda value: _animation("WEBP", lossless=True, exif=exif(value)),
}
"""A file with an orientation, 1 to 8, by the format and how the file states it."""
