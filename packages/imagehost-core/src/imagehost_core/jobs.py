"""Jobs of the worker processes, and their results.

A job crosses a pipe as JSON, beside the bytes of its image. A worker needs neither the database nor the file
system: it receives bytes and returns bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isqrt

from attrs import field, frozen
from attrs.validators import and_, ge, le, optional

from imagehost_core.formats import Format
from imagehost_core.transform import MAX_SIDE, Plan, Size, Transform, plan

MIN_DOWNSCALE = (8, 7)
"""The minimum ratio of a derivative to the size rendered from it, on both axes, as a fraction. A copy in the
image's own size is used for any smaller variant."""

MAX_DERIVATIVE_WIDTH, MAX_DERIVATIVE_HEIGHT = 2930, 2200
"""A little more than a variant of 2,560 pixels width, or one that is cropped to 1,920 pixels height, needs by
`MIN_DOWNSCALE`: sides are rounded. The first derivative has at least one of both."""
MAX_DERIVATIVE_PIXELS = 13_000_000
"""A portrait of 2:3 and the maximum width has 12.9 million pixels."""
MAX_SECOND_WIDTH = 2200
"""A little more than a variant of 1,920 pixels needs. The second derivative has at most three quarters of the
width of the first, and the third has half the width of the second."""
MIN_COPY_PIXELS = 2_000_000
"""The pixels of an image from which the first derivative may be as large as the image: a JPEG of two
megapixels is decoded in 7 ms, a WebP in 36."""
MIN_SAVED_PIXELS = 500_000
"""The derivatives of smaller images have at least so many pixels less than the image: decoding them takes
8 ms. The largest one of an image of 0.7 megapixels would take 9 % of the upload and save less than that."""
MIN_DERIVATIVE_SIDE = 256
"""The minimum of a derivative's longer side, in pixels."""


def derivative_sizes(size: Size) -> tuple[Size, ...]:
    """Return the sizes of the derivatives that are made of an image at upload, largest first.

    Args:
        size: The size of the upright image.
    """
    has_copy = size.pixels >= MIN_COPY_PIXELS
    width = min(
        size.width if has_copy else 4 * size.width // 5,
        max(MAX_DERIVATIVE_WIDTH, MAX_DERIVATIVE_HEIGHT * size.width // size.height),
        isqrt(MAX_DERIVATIVE_PIXELS * size.width // size.height),
        MAX_SIDE,
    )
    second = min(3 * width // 4, MAX_SECOND_WIDTH)
    widths = (width, second, second // 2) if has_copy else (width, width // 2)
    sizes = (plan(size, Transform(width)).resize for width in widths if width)
    return tuple(
        derivative
        for derivative in sizes
        if (has_copy or size.pixels - derivative.pixels >= MIN_SAVED_PIXELS)
        and max(derivative.width, derivative.height) >= MIN_DERIVATIVE_SIDE
    )


MAX_PREFERRED_SIDE = 1200
"""The maximum of the longer side of a derivative from which rendering is cheap, in pixels."""

PREFERRED_DOWNSCALE = (2, 1)
"""The preferred ratio where rendering is cheap: for derivatives of at most `MAX_PREFERRED_SIDE`; a fraction.

Gains 0.9 points of SSIMULACRA2 at 320 pixels.
"""


COPY_QUALITY = 84
"""The quality of JPEG copies in the size of their image, unless they would have too many bytes, or better
ones have few. A JPEG variant of at most this quality scores 0.4 points of SSIMULACRA2 more from them than
from the master, in the mean of five photographs, and a WebP 2.1 less."""


def pick_derivative(
    derivatives: Iterable[Size], target: Size, image: Size, *, can_be_equal: bool = False
) -> Size | None:
    """Return the derivative to render a variant from, or `None` where none is large enough.

    This is the smallest one of at least twice the target's sides, if it is no larger than
    `MAX_PREFERRED_SIDE`; else the smallest one that exceeds the target by `MIN_DOWNSCALE`; else a copy in the
    size of the image, if the target is smaller.

    Args:
        derivatives: The sizes of the derivatives that are stored.
        target: The size to which the whole image is resized.
        image: The size of the image.
        can_be_equal: Whether the copy is also used if the target has the size of the image.
    """
    by_size = sorted(derivatives, key=lambda size: size.pixels)
    uses_copy = _exceeds(image, target, (1, 1)) and (can_be_equal or target != image)
    sufficient = [
        size for size in by_size if (uses_copy and size == image) or _exceeds(size, target, MIN_DOWNSCALE)
    ]
    preferred = (
        size
        for size in sufficient
        if max(size.width, size.height) <= MAX_PREFERRED_SIDE and _exceeds(size, target, PREFERRED_DOWNSCALE)
    )
    return next(preferred, next(iter(sufficient), None))


def pick_source(derivatives: Iterable[Size], job: RenderJob, image: Size) -> Size | None:
    """Return the derivative to render a job from by `pick_derivative`, or `None` for the master.

    Args:
        derivatives: The sizes of the derivatives that are stored.
        job: The variant.
        image: The size of the image.
    """
    can_be_equal = job.format is Format.JPEG and job.quality is not None and job.quality <= COPY_QUALITY
    return pick_derivative(derivatives, job.plan.resize, image, can_be_equal=can_be_equal)


def _exceeds(size: Size, target: Size, ratio: tuple[int, int]) -> bool:
    numerator, denominator = ratio
    return (
        size.width * denominator >= target.width * numerator
        and size.height * denominator >= target.height * numerator
    )


@frozen
class IngestJob:
    """Conversion of an upload to what is stored of it.

    Attributes:
        format: The upload's format according to its headers.
        requested_format: The master's format requested by the uploader, or `None`.
        convert_to_webp: Whether to convert to WebP where no format is requested and the result is smaller.
        quality: The requested quality, 1–100, or `None`.
        remove_exif: Whether to remove EXIF, XMP and IPTC. The ICC profile stays.
        derivative_sides: The longer sides of the derivatives to make, in pixels, descending; `None` for those
            of `derivative_sizes`.
        is_displayable: Whether browsers display the upload as it is; if not, it is always re-encoded.
    """

    format: Format
    requested_format: Format | None = None
    convert_to_webp: bool = True
    quality: int | None = None
    remove_exif: bool = False
    derivative_sides: tuple[int, ...] | None = None
    is_displayable: bool = True


@frozen
class IngestResult:
    """The result of an `IngestJob`. Its blobs are the master, then the derivatives in order.

    Attributes:
        format: The master's format.
        size: The upright size of one frame, in pixels.
        frames: The number of the master's frames.
        has_alpha: Whether any pixel of the master is not opaque.
        placeholder: The ThumbHash, in base64.
        unchanged: Whether the master is the upload's own bytes; its blob is then empty.
        derivatives: The sizes of the derivatives, largest first. Each is an upright sRGB image.
    """

    format: Format
    size: Size
    frames: int
    has_alpha: bool
    placeholder: str
    unchanged: bool
    derivatives: tuple[Size, ...] = ()


@frozen
class RenderJob:
    """Rendering of one variant. Its only blob is the variant.

    Attributes:
        plan: The geometry for the upright master, in the master's pixels.
        format: The output format.
        quality: 1–100, or `None` where the format has none.
        animated: Whether to render all frames instead of the first.
        avif_speed: The speed of the AVIF encoder, 0–10; `None` for the codec's, and in other formats.
        frame_step: The distance of the frames of an animation that are rendered; each is shown as long as it
            and those that are left out.
        keeps_file: Whether the variant is the master without its metadata, if that is upright.
        choices: The formats among which the image decides; `format` is the first. `keeps_file` then means
            that the master is one of the choices, too. Empty if the format is fixed.
        max_bytes: The most bytes of a JPEG, by its quality, or of a GIF, by its number of frames; `None` for
            any.
    """

    plan: Plan
    format: Format
    quality: int | None = field(validator=optional(and_(ge(1), le(100))))
    animated: bool = False
    avif_speed: int | None = None
    frame_step: int = 1
    keeps_file: bool = False
    choices: tuple[Format, ...] = ()
    max_bytes: int | None = field(default=None, validator=optional(ge(1)))


@frozen
class RenderResult:
    """The result of a `RenderJob`: the size of the output in pixels, and its number of frames."""

    size: Size
    frames: int
