"""Decoding of untrusted files: by one named decoder, with limits, and every decoder error as a 422 error.

The header scan has checked the limits before; the checks here are a second line of defence.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from PIL import Image, ImageFile, PngImagePlugin, _imaging

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.formats import Format
from imagehost_core.headers.exif import read_orientation
from imagehost_core.headers.limits import DEFAULT_LIMITS, SourceLimits
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.transform import Size

_FLAGS_OFFSET = 20
"""The offset of the VP8X flags: after `RIFF`, size, `WEBP`, `VP8X`, size."""
_ALPHA = 0b0001_0000
_ANIMATION = 0b0000_0010


def set_alpha_flag(data: bytes) -> bytes:
    """Return an animated WebP with its alpha flag set; any other file unchanged."""
    flags = data[_FLAGS_OFFSET : _FLAGS_OFFSET + 1]
    if data[12:16] != b"VP8X" or not flags or not flags[0] & _ANIMATION:
        return data
    return data[:_FLAGS_OFFSET] + bytes([flags[0] | _ALPHA]) + data[_FLAGS_OFFSET + 1 :]


BLOCK_BYTES = 1 << 30
"""The largest block of memory in which Pillow stores the pixels of an image. With its default, 16 MiB, images
above 4 megapixels are stored in several, and the native resampler would have to copy them, which took a tenth
of its time for 12 megapixels."""
_imaging.set_block_size(BLOCK_BYTES)

MIN_DRAFT_SCALE = 2
"""The minimum ratio of a JPEG scaled by its decoder to the target size, on either axis.

SSIMULACRA2 from 2725×2225 to 640 pixels: 45 for a ratio just above 1, 71 for 2, 76 for a full decode.
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
"""The exceptions that Pillow's decoders raise for damaged files. `MemoryError` is not among them: it may be
caused by the machine instead of the file, so the worker's caller handles it."""

_TRANSPOSE_METHODS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Pillow's transposition for each EXIF orientation (EXIF 2.32, tag 274)."""

TRANSPOSED = frozenset({5, 6, 7, 8})
"""The EXIF orientations that exchange width and height."""


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress Pillow's warnings, which are about the uploaded file, in the worker's output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def decoder_errors(source: Format | ImageFile.ImageFile) -> Iterator[None]:
    """Raise ValidationError for any decoder error. To be used around decoding only, not encoding.

    Raises:
        ValidationError: The decoder rejected the file; the decoder's exception is the cause.
    """
    try:
        yield
    except DECODER_ERRORS as error:
        name = source.name if isinstance(source, Format) else source.format
        field_error = FieldError("the image", f"a {name} file that can be decoded", "a damaged one")
        raise ValidationError(errors=[field_error]) from error


def open_image(fmt: Format, data: bytes, limits: SourceLimits = DEFAULT_LIMITS) -> ImageFile.ImageFile:
    """Open a file without decoding its pixels.

    Args:
        fmt: The format according to the file's headers.
        data: The whole file.
        limits: The limits on pixels and frames, checked again with the decoder's numbers.

    Raises:
        ValidationError: The decoder rejects the file, or it exceeds a limit.
    """
    with decoder_errors(fmt):
        image = Image.open(BytesIO(set_alpha_flag(data)), formats=(CODECS[fmt].name,))
        frames = frame_count(image)
    pixels = image.width * image.height
    if pixels > limits.frame_pixels or pixels * frames > limits.total_pixels or frames > limits.frames:
        expected = (
            f"at most {limits.frame_pixels:,} pixels a frame, {limits.total_pixels:,} over all "
            f"and {limits.frames:,} frames"
        )
        received = f"{frames} of {image.width}×{image.height}"
        raise ValidationError(errors=[FieldError("the image", expected, received)])
    return image


def frame_count(image: ImageFile.ImageFile) -> int:
    """Return the number of frames of the file's animation; 1 for a still image.

    Further images in a JPEG (a gain map, a preview) do not count, nor does the default image of an animated
    PNG that is not part of the animation.
    """
    if image.format not in ("GIF", "WEBP", "PNG"):
        return 1
    frames = int(getattr(image, "n_frames", 1))
    return frames - 1 if _has_separate_default_image(image) and frames > 1 else frames


def first_frame(image: ImageFile.ImageFile) -> int:
    """Return Pillow's index of the animation's first frame."""
    return 1 if frame_count(image) > 1 and _has_separate_default_image(image) else 0


def _has_separate_default_image(image: ImageFile.ImageFile) -> bool:
    return isinstance(image, PngImagePlugin.PngImageFile) and bool(image.info.get("default_image"))


def image_orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1–8; 1 where it is missing or invalid."""
    exif = image.info.get("exif")
    return read_orientation(exif) if isinstance(exif, bytes) else 1


def apply_orientation(image: Image.Image, orientation: int) -> Image.Image:
    """Return the image rotated and mirrored to upright."""
    method = _TRANSPOSE_METHODS.get(orientation)
    return image if method is None else image.transpose(method)


def shrink_on_load(image: ImageFile.ImageFile, target: Size) -> None:
    """Set a JPEG's decoder to downscale while decoding; has no effect on other formats.

    Args:
        image: The opened file, its pixels not yet decoded.
        target: The size to which the whole image will be resized, in its stored orientation.
    """
    if image.format in ("JPEG", "MPO"):
        image.draft(None, (MIN_DRAFT_SCALE * target.width, MIN_DRAFT_SCALE * target.height))
