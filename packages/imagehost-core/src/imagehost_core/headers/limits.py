"""Limits of source images, which protect decoders from decompression bombs.

A decompression bomb is a small file that costs its decoder much memory or time. Pixels, sides and metadata
cost memory; frames and scans cost time, because each frame of a GIF and each scan of a progressive JPEG is
a pass over the whole image, even if it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen
from attrs.validators import ge, instance_of

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.headers.header import ImageHeader


def _positive(default: int) -> int:
    attribute: int = field(default=default, validator=[instance_of(int), ge(1)])
    return attribute


@frozen(kw_only=True)
class SourceLimits:
    """Upper limits of an uploaded image.

    Attributes:
        frame_pixels: Pixels of one frame.
        total_pixels: Pixels of all frames.
        frames: Frames of an animation.
        side: Width or height, in pixels.
        jpeg_scans: Scans of a JPEG.
        metadata_bytes: Bytes of metadata, as stored.
    """

    frame_pixels: int = _positive(100_000_000)
    total_pixels: int = _positive(150_000_000)
    frames: int = _positive(1_000)
    side: int = _positive(16_384)
    jpeg_scans: int = _positive(100)
    metadata_bytes: int = _positive(4 * 1024 * 1024)


DEFAULT_LIMITS = SourceLimits()
"""The limits of a host."""

_LIMITS: tuple[tuple[Callable[[SourceLimits], int], Callable[[ImageHeader], int], str], ...] = (
    (lambda limits: limits.side, lambda header: header.canvas_extent[0], "pixels of width"),
    (lambda limits: limits.side, lambda header: header.canvas_extent[1], "pixels of height"),
    (lambda limits: limits.frame_pixels, lambda header: header.frame_pixels, "pixels a frame"),
    (lambda limits: limits.frames, lambda header: header.frames, "frames"),
    (lambda limits: limits.total_pixels, lambda header: header.total_pixels, "pixels over all frames"),
    (lambda limits: limits.jpeg_scans, lambda header: header.scans, "JPEG scans"),
    (lambda limits: limits.metadata_bytes, lambda header: header.metadata_bytes, "bytes of metadata"),
)
"""For each limit its value, the value of a header to compare, and their unit."""


def require_within_limits(header: ImageHeader, limits: SourceLimits) -> None:
    """Raise ValidationError if an image exceeds a limit.

    Raises:
        ValidationError: With one field error for each limit that the image exceeds.
    """
    errors = [
        FieldError("image", f"at most {limit(limits):,} {unit}", f"{measure(header):,}")
        for limit, measure, unit in _LIMITS
        if measure(header) > limit(limits)
    ]
    if errors:
        raise ValidationError(errors=errors)
