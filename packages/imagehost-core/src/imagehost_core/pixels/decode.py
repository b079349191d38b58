"""Decoding of untrusted files: by the decoder of one named format, with limits.

The header scan has checked the limits before; the checks here are a second line of defence.
"""

from __future__ import annotations

from imagehost_core.errors import ValidationError
from imagehost_core.formats import Format
from imagehost_core.headers.header import DEFAULT_LIMITS, SourceLimits
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.decoder_errors import decoder_errors
from imagehost_core.pixels.source import SourceImage
from imagehost_core.pixels.strip_metadata import drop_excess_metadata


def correct(fmt: Format, data: bytes) -> bytes:
    """Return a file that decoders accept, and that claims nothing but what it contains; or `data` itself.

    Browsers show it upright, if they read EXIF of its format.

    Args:
        fmt: The format.
        data: A whole file whose structure the header scan has accepted.

    Raises:
        ValidationError: A part of the pixels is missing or damaged.
    """
    with decoder_errors(fmt):
        codec = CODECS[fmt]
        data = drop_excess_metadata(fmt, codec.complete(data))
        return codec.standardize(codec.drop_malformed(data))


def open_image(fmt: Format, data: bytes, limits: SourceLimits = DEFAULT_LIMITS) -> SourceImage:
    """Open a file without decoding its pixels.

    Args:
        fmt: The format according to the file's headers.
        data: The whole file.
        limits: The limits on pixels and frames, checked again with the decoder's numbers.

    Raises:
        ValidationError: The decoder rejects the file, or it exceeds a limit.
    """
    with decoder_errors(fmt):
        source = CODECS[fmt].open(data)
    pixels = source.size[0] * source.size[1]
    frames = source.frame_count
    if pixels > limits.frame_pixels or pixels * frames > limits.total_pixels or frames > limits.frames:
        expected = (
            f"at most {limits.frame_pixels:,} pixels a frame, {limits.total_pixels:,} over all "
            f"and {limits.frames:,} frames"
        )
        raise ValidationError.of("the image", expected, f"{frames} of {source.size[0]}×{source.size[1]}")
    return source
