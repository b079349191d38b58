"""How much one picture may ask of a decoder, and the check of that.

A bomb is a small file that costs its decoder much memory or time. Each limit closes one way: pixels
(memory), frames and scans (time: every frame of a GIF and every scan of a progressive JPEG costs a pass
over the whole picture, however empty it is), sides and metadata (memory).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen
from attrs.validators import ge, instance_of

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.headers.header import ImageHeader


def _positive(default: int) -> int:
    number: int = field(default=default, validator=[instance_of(int), ge(1)])
    return number


@frozen(kw_only=True)
class SourceLimits:
    """The most that an uploaded picture may be; the defaults are those of contract 9.

    Attributes:
        frame_pixels: Pixels of one frame.
        total_pixels: Pixels of all frames together.
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
"""The limits of contract 9."""

_LIMITS: tuple[tuple[Callable[[SourceLimits], int], Callable[[ImageHeader], int], str], ...] = (
    (lambda limits: limits.side, lambda header: header.canvas_extent[0], "pixels of width"),
    (lambda limits: limits.side, lambda header: header.canvas_extent[1], "pixels of height"),
    (lambda limits: limits.frame_pixels, lambda header: header.frame_pixels, "pixels a frame"),
    (lambda limits: limits.frames, lambda header: header.frames, "frames"),
    (lambda limits: limits.total_pixels, lambda header: header.total_pixels, "pixels over all frames"),
    (lambda limits: limits.jpeg_scans, lambda header: header.scans, "JPEG scans"),
    (lambda limits: limits.metadata_bytes, lambda header: header.metadata_bytes, "bytes of metadata"),
)
"""Every limit: its value, what is held against it, and the unit that both are counted in."""


def check_limits(header: ImageHeader, limits: SourceLimits) -> None:
    """Refuse a picture that is over a limit.

    Contract 9: *≤ 100 million pixels a frame, ≤ 150 million over all frames, ≤ 1,000 frames, side
    ≤ 16,384, ≤ 100 JPEG scans, metadata ≤ 4 MiB; checked in the headers before any decoder runs*.

    Raises:
        ValidationError: With one fault for each limit that it is over.
    """
    faults = [
        FieldError("image", f"at most {most(limits):,} {unit}", f"{measure(header):,}")
        for most, measure, unit in _LIMITS
        if measure(header) > most(limits)
    ]
    if faults:
        raise ValidationError(errors=faults)
