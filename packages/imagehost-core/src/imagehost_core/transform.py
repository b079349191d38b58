"""Transform parameters of image URLs: parsing, geometry and content negotiation.

Pure functions from a query string to a plan of the output's geometry; no image is decoded.

```python
>>> from imagehost_core.transform import Size, parse_transform, plan
>>> transform = parse_transform("w=320&h=240&fit=inside&fm=webp")
>>> print(plan(Size(2725, 2225), transform).output)
294×240
>>> transform.to_query()
'w=320&h=240&fit=inside&fm=webp'

```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal, TypedDict, TypeVar, cast
from urllib.parse import parse_qsl, urlencode

from attrs import field, frozen
from attrs.validators import ge, instance_of

from imagehost_core._util.fields import choice_error, is_within, parse_choice, parse_int_field, range_error
from imagehost_core.errors import BadRequestError, FieldError, NotFoundError, quote_value
from imagehost_core.formats import BY_EXTENSION, FORMATS, MAX_QUALITY, Format

# The transform parameters `w`, `h`, `q`, `fit` and `fm` of a delivery URL.
#
# Numbers are canonical decimal integers, a repeated parameter is an error, unknown parameters are
# ignored. All errors of a query are reported together.

MAX_SIDE = 8192
"""The largest `w` or `h`, in pixels."""

TRANSFORM_PARAMETERS = ("w", "h", "q", "fit", "fm")
"""The names of the transform parameters."""
CARD_PARAMETER = "card"
"""The name of the parameter of images in link cards, which programs show for a link to a page."""
CARD_BYTES = 300_000
"""The most bytes of the image of a link card: above some 300 kB, chat programs show none."""
ACCESS_PARAMETERS = ("exp", "sig", "share")
"""The names of the other parameters of a delivery URL; they change who may see an image."""
MAX_PARAMETERS = 64
"""The largest number of parameters in a query, known and unknown."""


class Fit(StrEnum):
    """The way an image is fitted to a given width and height: the five modes of sharp."""

    COVER = "cover"
    CONTAIN = "contain"
    FILL = "fill"
    INSIDE = "inside"
    OUTSIDE = "outside"


class Auto(StrEnum):
    """The output format is negotiated, by the `Accept` header and by the image."""

    AUTO = "auto"


AUTO: Final = Auto.AUTO

FORMAT_NAMES: dict[str, Format | Auto] = {
    **{info.parameter: fmt for fmt, info in FORMATS.items() if info.parameter},
    "auto": AUTO,
}
"""The values of `fm`."""

EXTENSIONS: dict[str, Format | Auto] = {**BY_EXTENSION, "auto": AUTO}
"""The file extensions of delivery URLs."""

FIT_NAMES: dict[str, Fit] = {fit.value: fit for fit in Fit}
"""The values of `fit`."""

T = TypeVar("T")


def _convert_fit(value: Fit | str) -> Fit:
    """Return a named fit; an unknown name is returned unchanged, for `_validate` to report."""
    return FIT_NAMES.get(value, cast("Fit", value))


@frozen
class Transform:
    """A validated request for a variant of an image.

    Attributes:
        width: Output width, 1–8192 pixels, or `None`.
        height: Output height, 1–8192 pixels, or `None`.
        quality: 1–100, or `None` for the format's default; ignored for PNG and GIF.
        fit: The fit mode, used if width and height are given.
        format: The output format; `AUTO` negotiates it; `None` is the stored format.
        card: Whether the variant is for a link card, so it has at most `CARD_BYTES` as JPEG or GIF.

    Raises:
        BadRequestError: Values are not allowed; every one is listed in `errors`.
    """

    width: int | None = None
    height: int | None = None
    quality: int | None = None
    fit: Fit = field(default=Fit.COVER, converter=_convert_fit)
    format: Format | Auto | None = None
    card: bool = False

    def __attrs_post_init__(self) -> None:
        errors = list(_validate(self))
        if errors:
            raise BadRequestError(errors=errors)

    def to_query(self) -> str:
        """Return the canonical query: parameters in the order w, h, q, fit, fm, card, without defaults.

        GIF is not a value of `fm`, only an extension, so the query leaves it out.
        """
        names = {fmt: name for name, fmt in FORMAT_NAMES.items()}
        pairs: dict[str, object | None] = {
            "w": self.width,
            "h": self.height,
            "q": self.quality,
            "fit": None if self.fit is Fit.COVER else self.fit.value,
            "fm": None if self.format is None else names.get(self.format),
            CARD_PARAMETER: "1" if self.card else None,
        }
        return urlencode({name: value for name, value in pairs.items() if value is not None})


def _validate(transform: Transform) -> Iterator[FieldError]:
    ranges = (
        ("w", transform.width, MAX_SIDE),
        ("h", transform.height, MAX_SIDE),
        ("q", transform.quality, MAX_QUALITY),
    )
    for name, value, maximum in ranges:
        if value is not None and not is_within(value, maximum):
            yield range_error(name, maximum, value)
    # Annotations do not bind an embedding program.
    fit = cast("object", transform.fit)
    fmt = cast("object", transform.format)
    if not isinstance(fit, Fit):
        yield choice_error("fit", FIT_NAMES, fit)
    if fmt is not None and not isinstance(fmt, Format | Auto):
        yield FieldError("the format", "a Format, AUTO or None", quote_value(fmt))


FitName = Fit | Literal["cover", "contain", "fill", "inside", "outside"]
"""A fit mode, or its name."""
SourceFormat = Literal[
    "jpg", "jpeg", "png", "webp", "avif", Format.JPEG, Format.PNG, Format.WEBP, Format.AVIF
]
"""A format of variants; `jpg` and `jpeg` are the same."""
OutputFormat = SourceFormat | Auto | Literal["auto"]
"""A format of variants, or `auto`, with which the host selects one."""


class TransformKeywords(TypedDict, total=False):
    """The parameters of an image URL as keywords; `None` omits one, and `jpeg` is a name of `jpg`."""

    w: int | None
    h: int | None
    q: int | None
    fit: FitName | None
    fm: OutputFormat | None


TransformSource = str | Mapping[str, object] | Transform
"""The parameters of an image URL: a query string such as `w=300&fm=webp`, a mapping, or a transform."""


def transform_parameters(params: object, keywords: TransformKeywords) -> TransformSource:
    """Return the parameters that a call has in one argument or in keywords.

    Other names are errors: a call is not a URL, to which others may add parameters of their own.

    Raises:
        BadRequestError: It has both, an argument of another type, or one with other names.
        TypeError: There is no such keyword.
    """
    unknown = sorted(keywords.keys() - set(TRANSFORM_PARAMETERS))
    if unknown:
        raise TypeError(
            f"expected some of {', '.join(TRANSFORM_PARAMETERS)} but received {', '.join(unknown)}"
        )
    if params and keywords:
        raise BadRequestError.of("the parameters", "params or keywords", "both")
    if not isinstance(params, str | Mapping | Transform):
        expected = "a query string, a mapping or a Transform"
        raise BadRequestError.of("the parameters", expected, quote_value(params))
    if errors := [] if isinstance(params, Transform) else unknown_parameters("params", params):
        raise BadRequestError(errors=errors)
    # `str` of a member of an enumeration may be its name.
    given = {k: str.__str__(v) if isinstance(v, str) else v for k, v in keywords.items() if v is not None}
    return params or {**given, **({"fm": "jpg"} if given.get("fm") == Format.JPEG else {})}


def unknown_parameters(where: str, params: str | Mapping[str, object]) -> list[FieldError]:
    """Return an error of the argument `where` for each name in it that is none of a transform parameter."""
    if isinstance(params, str) and params.startswith("?"):
        return [FieldError(where, "a query string without ?", quote_value(params))]
    known = (*TRANSFORM_PARAMETERS, CARD_PARAMETER)
    names = dict.fromkeys(name for name, _ in _parse_query(params))
    expected = f"only {', '.join(TRANSFORM_PARAMETERS)}"
    return [FieldError(where, expected, quote_value(name)) for name in names if name not in known]


def parse_transform(query: TransformSource = "", *, extension: str | None = None) -> Transform:
    """Return the transform that a delivery URL requests.

    Args:
        query: The URL's query string without `?`, or decoded parameters, whose numbers may be integers. A
            transform is returned as it is.
        extension: The extension of the URL's path without its dot, or `None`. `fm` takes precedence.

    Raises:
        BadRequestError: Values are not allowed or repeated; every one is listed in `errors`.
        NotFoundError: The extension is unknown.
    """
    if isinstance(query, Transform):
        return query
    extension_format = parse_extension(extension)
    errors: list[FieldError] = []
    values: dict[str, object] = {}
    for name, value in _parse_query(query):
        if name in values:
            errors.append(FieldError(name, "one value", "several"))
        elif name in (*TRANSFORM_PARAMETERS, CARD_PARAMETER, *ACCESS_PARAMETERS):
            values[name] = value

    def integer(name: str, maximum: int) -> int | None:
        return parse_int_field(name, values[name], maximum, errors) if name in values else None

    def choice(name: str, choices: Mapping[str, T]) -> T | None:
        return parse_choice(name, values[name], choices, errors) if name in values else None

    transform = Transform(
        width=integer("w", MAX_SIDE),
        height=integer("h", MAX_SIDE),
        quality=integer("q", MAX_QUALITY),
        fit=choice("fit", FIT_NAMES) or Fit.COVER,
        format=choice("fm", FORMAT_NAMES) or extension_format,
        card=choice(CARD_PARAMETER, {"1": True}) or False,
    )
    if errors:
        raise BadRequestError(errors=dict.fromkeys(errors))
    return transform


def parse_extension(extension: str | None) -> Format | Auto | None:
    """Return the format of a delivery URL's extension, in any case, or `None` without an extension.

    Raises:
        NotFoundError: The extension is unknown.
    """
    if extension is None:
        return None
    try:
        return EXTENSIONS[extension.lower()]
    except KeyError:
        raise NotFoundError(errors=[choice_error("the extension", EXTENSIONS, extension)]) from None


NAMED_FORMATS = (Format.AVIF, Format.WEBP)
"""The formats that `AUTO` selects only if the `Accept` header names them: every client sends `*/*`."""
FALLBACK_FORMATS = (Format.JPEG, Format.PNG)
"""The formats that `AUTO` selects for other clients, by the image; for animations it is GIF."""


def negotiate(accept: str, *, animated: bool = False, side: int = 1) -> tuple[Format, ...]:
    """Return the formats among which the image decides, for `AUTO`: those of the highest weight in a header.

    These are `NAMED_FORMATS` of the highest weight, and the fallback if its weight is as high and WebP is not
    among them. The fallback counts as one format: old browsers prefer PNG to JPEG, but not for photographs.
    If all weights are 0, it is selected. AVIF is not selected for animations, because only the first frame is
    encoded in it, and no format whose largest side is exceeded.

    Args:
        accept: The request's `Accept` header, or "".
        animated: Whether the master has more than one frame.
        side: The longer side of the output, in pixels.
    """
    usual = (Format.GIF,) if animated else FALLBACK_FORMATS
    # Without one that is large enough, the error is that of the fallback.
    fallback = tuple(fmt for fmt in usual if FORMATS[fmt].max_side >= side) or usual
    weights = {
        fmt: accept_weight(accept, fmt)
        for fmt in (*NAMED_FORMATS, *fallback)
        if FORMATS[fmt].max_side >= side and (FORMATS[fmt].animated or not animated)
    }
    accepted = tuple(fmt for fmt in fallback if weights.get(fmt)) or fallback
    highest = max(weights.values(), default=0.0)
    named = tuple(fmt for fmt in NAMED_FORMATS if highest > 0 and weights.get(fmt) == highest)
    is_fallback = highest == max(weights.get(fmt, 0.0) for fmt in accepted)
    return (*named, *accepted) if is_fallback and Format.WEBP not in named else named


def accept_weight(accept: str, fmt: Format) -> float:
    """Return the weight of a format in an `Accept` header, 0–1 (RFC 9110, section 12.5.1).

    Wildcards do not count for `NAMED_FORMATS`. An empty header accepts the others.
    """
    weights = _parse_accept(accept or "*/*")
    wildcards = () if fmt in NAMED_FORMATS else ("image/*", "*/*")
    names = (FORMATS[fmt].media_type, *wildcards)
    return next((weights[name] for name in names if name in weights), 0.0)


_WEIGHT = re.compile(r"q=(0(?:\.\d*)?|1(?:\.0*)?)", re.ASCII)


def _parse_query(query: str | Mapping[str, object]) -> Iterable[tuple[str, object]]:
    if not isinstance(query, str):
        return query.items()
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise BadRequestError.of("the query", f"at most {MAX_PARAMETERS} parameters", "more") from None


def _parse_accept(accept: str) -> dict[str, float]:
    """Return the weights of the media types and wildcards that an `Accept` header names."""
    weights = dict[str, float]()
    for entry in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in entry.split(";"))
        found = next(filter(None, map(_WEIGHT.fullmatch, parameters)), None)
        weights[media_type] = float(found[1]) if found else 1.0
    return weights


# Geometry of a transform: the size, crop and padding of the output, in pixels.
#
# The rules are those of sharp's `resize` (its documentation and `ResolveShrink`): one scale for both axes
# except for `fill`, sizes rounded half up and at least one pixel, centred crops and padding. sharp
# multiplies by a double; here integers are divided, so halves are exact: 1000×667 at w=500 is 500×334
# (667/2 = 333.5).

MAX_OUTPUT_PIXELS = 40_000_000
"""The maximum size of an output, in pixels; an animation has at most so many over all frames."""


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

    @classmethod
    def unchanged(cls, size: Size) -> Plan:
        """Return the geometry of an image that is not resized."""
        return cls(resize=size, crop=ORIGIN, pad=ORIGIN, output=size)

    @property
    def padded(self) -> bool:
        """Whether the image covers only a part of the output."""
        return self.resize.width < self.output.width or self.resize.height < self.output.height


def plan(source: Size, transform: Transform, *, max_side: int | None = None, enlarge: bool = True) -> Plan:
    """Return the geometry of a transform.

    Args:
        source: The size of the upright image (EXIF orientation applied).
        transform: The requested transform; only its width, height and fit are used.
        max_side: The maximum side that the output's format supports, in pixels.
        enlarge: Whether the image may be enlarged; if not, the output can be smaller than requested, except
            for `contain`, which pads.

    Raises:
        BadRequestError: The output exceeds `MAX_OUTPUT_PIXELS` or `max_side`.
    """
    result = _plan(source, transform, enlarge)
    _require_output_size(result.output, max_side)
    return result


def keeps_size(source: Size, transform: Transform, *, enlarge: bool = True) -> bool:
    """Return whether a transform leaves every pixel of the upright image where it is."""
    return _plan(source, transform, enlarge) == Plan.unchanged(source)


def frame_step(output: Size, frames: int) -> int:
    """Return the distance of those frames of an animation that are rendered, within `MAX_OUTPUT_PIXELS`.

    Args:
        output: The size of a frame.
        frames: The number of frames of the image.
    """
    return -(-frames // max(1, MAX_OUTPUT_PIXELS // output.pixels))


def _plan(source: Size, transform: Transform, enlarge: bool) -> Plan:
    resize = _resize(source, transform)
    if not enlarge:
        resize = _without_enlargement(source, resize, transform.fit)
    if transform.width is None or transform.height is None:
        return Plan.unchanged(resize)
    return _FITS[transform.fit](resize, Size(transform.width, transform.height))


def _resize(source: Size, transform: Transform) -> Size:
    """Return the size to which the whole image is resized."""
    width, height = transform.width, transform.height
    if transform.fit is Fit.FILL:
        return Size(width or source.width, height or source.height)
    if width is not None and height is not None:
        is_within = transform.fit in (Fit.CONTAIN, Fit.INSIDE)
        return (_inside if is_within else _outside)(source, Size(width, height))
    if width is not None:
        return _to_width(source, width)
    return source if height is None else _to_height(source, height)


def _without_enlargement(source: Size, resize: Size, fit: Fit) -> Size:
    """Return the size without enlargement, as sharp's `withoutEnlargement` does: by axis for `fill` only."""
    smaller = Size(min(source.width, resize.width), min(source.height, resize.height))
    return smaller if fit is Fit.FILL or smaller == resize else source


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


def _cover(resize: Size, box: Size) -> Plan:
    output = Size(min(box.width, resize.width), min(box.height, resize.height))
    # sharp's CalculateCrop: the odd pixel is cut off at the left and top.
    crop = Point((resize.width - output.width + 1) // 2, (resize.height - output.height + 1) // 2)
    return Plan(resize=resize, crop=crop, pad=ORIGIN, output=output)


def _contain(resize: Size, box: Size) -> Plan:
    # sharp's CalculateEmbedPosition: the odd pixel is added at the right and bottom.
    pad = Point((box.width - resize.width) // 2, (box.height - resize.height) // 2)
    return Plan(resize=resize, crop=ORIGIN, pad=pad, output=box)


def _uncropped(resize: Size, _box: Size) -> Plan:
    return Plan.unchanged(resize)


_FITS: dict[Fit, Callable[[Size, Size], Plan]] = {
    Fit.COVER: _cover,
    Fit.CONTAIN: _contain,
    Fit.FILL: _uncropped,
    Fit.INSIDE: _uncropped,
    Fit.OUTSIDE: _uncropped,
}
"""What becomes of the resized image for a requested width and height."""


def _require_output_size(output: Size, max_side: int | None) -> None:
    errors = []
    if output.pixels > MAX_OUTPUT_PIXELS:
        errors.append(FieldError("the output", f"at most {MAX_OUTPUT_PIXELS:,} pixels", str(output)))
    if max_side is not None and max(output.width, output.height) > max_side:
        errors.append(
            FieldError("the output", f"sides of at most {max_side:,} pixels in this format", str(output))
        )
    if errors:
        raise BadRequestError(errors=errors)
