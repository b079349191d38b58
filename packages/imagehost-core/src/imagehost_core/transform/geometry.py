"""How a picture of one size becomes the picture that is asked for, in whole pixels.

The rules are sharp's (its `resize` documentation and `ResolveShrink`): one factor for both axes but
for `fill`, sizes rounded half up, never below one pixel, centred crops and pads. Where sharp
multiplies by a double we divide integers, so an exact half is an exact half: 1000×667 at w=500 is
500×334 (667/2 = 333.5).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen
from attrs.validators import ge, instance_of

from imagehost_core.errors import BadRequestError, FieldError
from imagehost_core.transform.parameters import Fit, Transform

MAX_OUTPUT_PIXELS = 40_000_000
"""The largest output, in pixels summed over its frames (contract 7)."""


@frozen
class Size:
    """Width and height in pixels, at least 1 each."""

    width: int = field(validator=[instance_of(int), ge(1)])
    height: int = field(validator=[instance_of(int), ge(1)])

    @property
    def pixels(self) -> int:
        """The area, in pixels."""
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
    """The steps from the upright source to the output: resize, then crop or pad.

    Attributes:
        resize: The size to which the whole picture is brought. It can be far larger than the output
            (a 1×10000 picture to cover 8000×1), so a renderer computes only what `crop` keeps of it.
        crop: Where the output begins within the resized picture.
        pad: Where the resized picture begins within the output.
        output: The size of the result. On each axis either `crop` or `pad` is 0.
    """

    resize: Size
    crop: Point
    pad: Point
    output: Size

    @property
    def padded(self) -> bool:
        """Whether some of the output is not covered by the picture."""
        return self.resize.width < self.output.width or self.resize.height < self.output.height

    def keeps(self, source: Size) -> bool:
        """Whether nothing is to be done for a picture of that size."""
        return self.resize == self.output == source


def plan(source: Size, transform: Transform, *, frames: int = 1, max_side: int | None = None) -> Plan:
    """Return the steps that bring a picture to what is asked for.

    Args:
        source: The size of the upright picture (EXIF orientation applied).
        transform: What is asked for; only its width, height and fit matter.
        frames: How many frames the output has.
        max_side: The longest side that the output's format can hold, in pixels.

    Raises:
        BadRequestError: The output would have more than `MAX_OUTPUT_PIXELS`, or a side longer than
            the format can hold.
    """
    steps = _plan(source, transform)
    _require_output_size(steps.output, frames, max_side)
    return steps


def _plan(source: Size, transform: Transform) -> Plan:
    width, height = transform.width, transform.height
    if transform.fit is Fit.FILL:
        return _whole(Size(width or source.width, height or source.height))
    if width is not None and height is not None:
        return _FITS[transform.fit](source, Size(width, height))
    if width is not None:
        return _whole(_to_width(source, width))
    return _whole(source if height is None else _to_height(source, height))


def _whole(size: Size) -> Plan:
    return Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size)


def _to_width(source: Size, width: int) -> Size:
    return Size(width, max(1, _divide(source.height * width, source.width)))


def _to_height(source: Size, height: int) -> Size:
    return Size(max(1, _divide(source.width * height, source.height)), height)


def _divide(numerator: int, denominator: int) -> int:
    """Return the quotient rounded to the nearest integer, halves up: ⌊(2n + d) / 2d⌋."""
    return (2 * numerator + denominator) // (2 * denominator)


def _wider(source: Size, box: Size) -> bool:
    """Whether the source is wider for its height than the box: w/h > W/H."""
    return source.width * box.height > box.width * source.height


def _outer(source: Size, box: Size) -> Size:
    """The smallest size of the source's ratio that covers the box."""
    return _to_height(source, box.height) if _wider(source, box) else _to_width(source, box.width)


def _inner(source: Size, box: Size) -> Size:
    """The largest size of the source's ratio that lies within the box."""
    return _to_width(source, box.width) if _wider(source, box) else _to_height(source, box.height)


def _cover(source: Size, box: Size) -> Plan:
    resize = _outer(source, box)
    # sharp's CalculateCrop: the odd pixel is cut off at the left and top.
    crop = Point((resize.width - box.width + 1) // 2, (resize.height - box.height + 1) // 2)
    return Plan(resize=resize, crop=crop, pad=ORIGIN, output=box)


def _contain(source: Size, box: Size) -> Plan:
    resize = _inner(source, box)
    # sharp's CalculateEmbedPosition: the odd pixel is added at the right and bottom.
    pad = Point((box.width - resize.width) // 2, (box.height - resize.height) // 2)
    return Plan(resize=resize, crop=ORIGIN, pad=pad, output=box)


_FITS: dict[Fit, Callable[[Size, Size], Plan]] = {
    Fit.COVER: _cover,
    Fit.CONTAIN: _contain,
    Fit.INSIDE: lambda source, box: _whole(_inner(source, box)),
    Fit.OUTSIDE: lambda source, box: _whole(_outer(source, box)),
}


def _require_output_size(output: Size, frames: int, max_side: int | None) -> None:
    faults = []
    if output.pixels * frames > MAX_OUTPUT_PIXELS:
        shown = f"{output}" if frames == 1 else f"{output} with {frames} frames"
        faults.append(
            FieldError("the output", f"at most {MAX_OUTPUT_PIXELS:,} pixels over all frames", shown)
        )
    if max_side is not None and max(output.width, output.height) > max_side:
        faults.append(
            FieldError("the output", f"sides of at most {max_side:,} pixels in this format", str(output))
        )
    if faults:
        raise BadRequestError(errors=faults)
