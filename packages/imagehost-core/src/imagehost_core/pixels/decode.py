"""How bytes become a picture: with the one named decoder, upright, and every refusal a 422.

The header scan has measured the file before; what is checked again here only keeps a mistake there
from becoming a gigabyte here.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from PIL import Image, ImageFile, PngImagePlugin

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.formats import Format
from imagehost_core.headers.exif import read_orientation
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.webp_alpha_flag import set_alpha_flag
from imagehost_core.transform.geometry import Size

MAX_FRAME_PIXELS = 100_000_000
"""The largest frame, in pixels (contract 9)."""
MAX_FRAMES = 1_000
"""The most frames of one file (contract 9)."""
MAX_PIXELS = 150_000_000
"""The most pixels over all frames (contract 9)."""

DRAFT_MARGIN = 2
"""A JPEG is never scaled by its decoder below this many times the target, on either axis.

Measured (SSIMULACRA2, 2725×2225 to 640 px): scaled to just above the target 45, to twice it 71,
decoded whole 76.
"""

DECODER_ERRORS = (
    OSError,  # with UnidentifiedImageError
    ValueError,
    SyntaxError,
    EOFError,
    struct.error,
    LookupError,
    ArithmeticError,
    TypeError,
    AttributeError,
    AssertionError,
    RuntimeError,
    Image.DecompressionBombError,
)
"""What Pillow's decoders have been seen to raise on damaged files. `MemoryError` is not among them:
it says something about the machine as well, so whoever runs the worker decides."""

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What brings a picture of each EXIF orientation upright (EXIF 2.32, tag 274)."""

TRANSPOSED = frozenset({5, 6, 7, 8})
"""The orientations whose upright picture has width and height exchanged."""


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Keep Pillow's warnings, which speak of what uploaders did, out of the worker's output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def decoder_errors(source: Format | ImageFile.ImageFile) -> Iterator[None]:
    """Turn whatever a decoder raises into the contract's answer.

    Contract 2: *an image that is recognised but damaged* is 422. Only decoding goes in here: what
    an encoder raises is a fault of ours.

    Raises:
        ValidationError: The decoder refused the file; its own words are the cause.
    """
    try:
        yield
    except DECODER_ERRORS as error:
        name = source.name if isinstance(source, Format) else source.format
        fault = FieldError("the image", f"a {name} file that can be decoded", "a damaged one")
        raise ValidationError(errors=[fault]) from error


def open_image(fmt: Format, data: bytes) -> ImageFile.ImageFile:
    """Return the opened file, its pixels not yet decoded.

    Args:
        fmt: What the bytes are, by their headers.
        data: The whole file.

    Raises:
        ValidationError: The decoder refuses it, or it is larger than the contract allows.
    """
    with decoder_errors(fmt):
        image = Image.open(BytesIO(set_alpha_flag(data)), formats=(CODECS[fmt].name,))
        frames = frame_count(image)
    pixels = image.width * image.height
    if pixels > MAX_FRAME_PIXELS or pixels * frames > MAX_PIXELS or frames > MAX_FRAMES:
        expected = (
            f"at most {MAX_FRAME_PIXELS:,} pixels a frame, {MAX_PIXELS:,} over all and {MAX_FRAMES:,} frames"
        )
        received = f"{frames} of {image.width}×{image.height}"
        raise ValidationError(errors=[FieldError("the image", expected, received)])
    return image


def frame_count(image: ImageFile.ImageFile) -> int:
    """Return how many frames the file's animation has; 1 for a still picture.

    A JPEG that carries further pictures (a gain map, a preview) is still one picture. An animated
    PNG may have a picture for viewers that know no animations: that is no frame.
    """
    if image.format not in ("GIF", "WEBP", "PNG"):
        return 1
    frames = int(getattr(image, "n_frames", 1))
    return frames - 1 if _has_fallback(image) and frames > 1 else frames


def first_frame(image: ImageFile.ImageFile) -> int:
    """Return the number that Pillow gives to the animation's first frame."""
    return 1 if frame_count(image) > 1 and _has_fallback(image) else 0


def _has_fallback(image: ImageFile.ImageFile) -> bool:
    return isinstance(image, PngImagePlugin.PngImageFile) and bool(image.info.get("default_image"))


def image_orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1–8; 1 where there is none, or none that means anything."""
    exif = image.info.get("exif")
    return read_orientation(exif) if isinstance(exif, bytes) else 1


def apply_orientation(image: Image.Image, orientation: int) -> Image.Image:
    """Return the picture turned and mirrored as its EXIF orientation says."""
    turn = _UPRIGHT.get(orientation)
    return image if turn is None else image.transpose(turn)


def shrink_on_load(image: ImageFile.ImageFile, target: Size) -> None:
    """Let a JPEG's decoder leave out what the target will not show; other formats cannot.

    Args:
        image: The opened file, its pixels not yet decoded.
        target: The size to which the whole picture will be brought, in its stored orientation.
    """
    if image.format in ("JPEG", "MPO"):
        image.draft(None, (DRAFT_MARGIN * target.width, DRAFT_MARGIN * target.height))
