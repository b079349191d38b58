"""Geometry of a transform: the size, crop and padding of the output, in pixels.

The rules are those of sharp's `resize` (its documentation and `ResolveShrink`): one scale for both axes
except for `fill`, sizes rounded half up and at least one pixel, centred crops and padding. sharp multiplies
by a double; here integers are divided, so halves are exact: 1000×667 at w=500 is 500×334 (667/2 = 333.5).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen
from attrs.validators import ge, instance_of

from imagehost_core.errors import BadRequestError, FieldError
from imagehost_core.transform.parameters import Fit, Transform

MAX_OUTPUT_PIXELS = 40_000_000
"""The maximum size of an output, in pixels summed over its frames."""


@frozen
class Size:
    """Width and height in pixels, at least 1 each."""

    width: int = field(validator=[instance_of(int), ge(1)])
    height: int = field(validator=[instance_of(int), ge(1)])

    @property
    def pixels(self) -> int:
        """The area."""
        return self.width * self.height

    def __str__(self) -> str:
        return f"{self.width}×{self.height}"


@frozen
class Point:
    """A distance from the top left corner, in pixels, at least 0 each."""

    left: int = field(validator=[instance_of(int), ge(0)])
    top: int = field(validator=[instance_of(int), ge(0)])


ORIGIN = Point(0, 0)


@frozen
class Plan:
    """The geometry of a render of the upright source: resize, then crop or pad.

    Attributes:
        resize: The size to which the whole image is resized. It can be far larger than the output (a 1×10000
            image covering 8000×1), so a renderer computes only what `crop` keeps of it.
        crop: The position of the output within the resized image.
        pad: The position of the resized image within the output.
        output: The size of the result. On each axis either `crop` or `pad` is 0.
    """

    resize: Size
    crop: Point
    pad: Point
    output: Size

    @property
    def padded(self) -> bool:
        """Whether the image covers only a part of the output."""
        return self.resize.width < self.output.width or self.resize.height < self.output.height


def plan(source: Size, transform: Transform, *, frames: int = 1, max_side: int | None = None) -> Plan:
    """Return the geometry of a transform.

    Args:
        source: The size of the upright image (EXIF orientation applied).
        transform: The requested transform; only its width, height and fit are used.
        frames: The number of frames of the output.
        max_side: The maximum side that the output's format supports, in pixels.

    Raises:
        BadRequestError: The output exceeds `MAX_OUTPUT_PIXELS` or `max_side`.
    """
    result = _plan(source, transform)
    _require_output_size(result.output, frames, max_side)
    return result


def _plan(source: Size, transform: Transform) -> Plan:
    width, height = transform.width, transform.height
    if transform.fit is Fit.FILL:
        return _resize_only(Size(width or source.width, height or source.height))
    if width is not None and height is not None:
        return _FITS[transform.fit](source, Size(width, height))
    if width is not None:
        return _resize_only(_to_width(source, width))
    return _resize_only(source if height is None else _to_height(source, height))


def _resize_only(size: Size) -> Plan:
    return Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size)


def _to_width(source: Size, width: int) -> Size:
    return Size(width, max(1, _divide(source.height * width, source.width)))


def _to_height(source: Size, height: int) -> Size:
    return Size(max(1, _divide(source.width * height, source.height)), height)


def _divide(numerator: int, denominator: int) -> int:
    """Return the quotient rounded to the nearest integer, halves up: ⌊(2n + d) / 2d⌋."""
    return (2 * numerator + denominator) // (2 * denominator)


def _is_wider(source: Size, box: Size) -> bool:
    """Return whether the source has a larger aspect ratio than the box: w/h > W/H."""
    return source.width * box.height > box.width * source.height


def _outside(source: Size, box: Size) -> Size:
    """Return the smallest size with the source's aspect ratio that covers the box."""
    return _to_height(source, box.height) if _is_wider(source, box) else _to_width(source, box.width)


def _inside(source: Size, box: Size) -> Size:
    """Return the largest size with the source's aspect ratio that fits within the box."""
    return _to_width(source, box.width) if _is_wider(source, box) else _to_height(source, box.height)


def _cover(source: Size, box: Size) -> Plan:
    resize = _outside(source, box)
    # sharp's CalculateCrop: the odd pixel is cut off at the left and top.
    crop = Point((resize.width - box.width + 1) // 2, (resize.height - box.height + 1) // 2)
    return Plan(resize=resize, crop=crop, pad=ORIGIN, output=box)


def _contain(source: Size, box: Size) -> Plan:
    resize = _inside(source, box)
    # sharp's CalculateEmbedPosition: the odd pixel is added at the right and bottom.
    pad = Point((box.width - resize.width) // 2, (box.height - resize.height) // 2)
    return Plan(resize=resize, crop=ORIGIN, pad=pad, output=box)


_FITS: dict[Fit, Callable[[Size, Size], Plan]] = {
    Fit.COVER: _cover,
    Fit.CONTAIN: _contain,
    Fit.INSIDE: lambda source, box: _resize_only(_inside(source, box)),
    Fit.OUTSIDE: lambda source, box: _resize_only(_outside(source, box)),
}


def _require_output_size(output: Size, frames: int, max_side: int | None) -> None:
    errors = []
    if output.pixels * frames > MAX_OUTPUT_PIXELS:
        received = f"{output}" if frames == 1 else f"{output} with {frames} frames"
        errors.append(
            FieldError("the output", f"at most {MAX_OUTPUT_PIXELS:,} pixels over all frames", received)
        )
    if max_side is not None and max(output.width, output.height) > max_side:
        errors.append(
            FieldError("the output", f"sides of at most {max_side:,} pixels in this format", str(output))
        )
    if errors:
        raise BadRequestError(errors=errors)
