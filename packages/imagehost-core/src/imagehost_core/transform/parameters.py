"""The transform parameters `w`, `h`, `q`, `fit` and `fm` of a delivery URL.

```python
>>> parse_transform("w=300&fm=avif")
Transform(width=300, height=None, quality=None, fit=<Fit.COVER: 'cover'>, format=<Format.AVIF: 'avif'>)

```

Numbers are canonical decimal integers, a repeated parameter is an error, unknown parameters are ignored.
All errors of a query are reported together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeVar, cast
from urllib.parse import parse_qsl, urlencode

from attrs import field, frozen

from imagehost_core._util.fields import choice_error, is_within, parse_choice, parse_int_field, range_error
from imagehost_core.errors import BadRequestError, FieldError, NotFoundError, quote_value
from imagehost_core.formats import BY_EXTENSION, FORMATS, Format

MAX_SIDE = 8192
"""The largest `w` or `h`, in pixels."""
MAX_QUALITY = 100

PARAMETERS = ("w", "h", "q", "fit", "fm")
"""The names of the transform parameters."""
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
    """The output format is negotiated: the best one that the `Accept` header names."""

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

    Raises:
        BadRequestError: Values are not allowed; every one is listed in `errors`.
    """

    width: int | None = None
    height: int | None = None
    quality: int | None = None
    fit: Fit = field(default=Fit.COVER, converter=_convert_fit)
    format: Format | Auto | None = None

    def __attrs_post_init__(self) -> None:
        errors = list(_validate(self))
        if errors:
            raise BadRequestError(errors=errors)

    def to_query(self) -> str:
        """Return the canonical query: parameters in the order w, h, q, fit, fm, without defaults.

        GIF is not a value of `fm`, only an extension, so the query leaves it out.
        """
        names = {fmt: name for name, fmt in FORMAT_NAMES.items()}
        pairs: dict[str, object | None] = {
            "w": self.width,
            "h": self.height,
            "q": self.quality,
            "fit": None if self.fit is Fit.COVER else self.fit.value,
            "fm": None if self.format is None else names.get(self.format),
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
    fit, fmt = cast("object", transform.fit), cast("object", transform.format)
    if not isinstance(fit, Fit):
        yield choice_error("fit", FIT_NAMES, fit)
    if fmt is not None and not isinstance(fmt, Format | Auto):
        yield FieldError("the format", "a Format, AUTO or None", quote_value(fmt))


def parse_transform(query: str | Mapping[str, object] = "", *, extension: str | None = None) -> Transform:
    """Return the transform that a delivery URL requests.

    Args:
        query: The URL's query string without `?`, or decoded parameters, whose numbers may be integers.
        extension: The extension of the URL's path without its dot, or `None`. `fm` takes precedence.

    Raises:
        BadRequestError: Values are not allowed or repeated; every one is listed in `errors`.
        NotFoundError: The extension is unknown.
    """
    extension_format = parse_extension(extension)
    errors: list[FieldError] = []
    values: dict[str, object] = {}
    for name, value in _parse_query(query):
        if name in values:
            errors.append(FieldError(name, "one value", "several"))
        elif name in PARAMETERS:
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


def negotiate(accept: str, stored: Format, *, animated: bool = False) -> Format:
    """Return the format that `AUTO` selects: AVIF, WebP or the stored format, by the weights of a header.

    Of equal weights the first counts. AVIF is not selected for animations, because only the first frame is
    encoded in it. The weight of a format is that of its media type (RFC 9110, section 12.5.1), or 0 if it is
    not named. Wildcards do not count: every browser sends `*/*`, also those without AVIF support. If all
    weights are 0, the stored format is selected.

    Args:
        accept: The request's `Accept` header, or "".
        stored: The master's format.
        animated: Whether the master has more than one frame.
    """
    weights = _parse_accept(accept)
    candidates = [fmt for fmt in (Format.AVIF, Format.WEBP) if FORMATS[fmt].animated or not animated]
    best = max((*candidates, stored), key=lambda fmt: weights.get(FORMATS[fmt].media_type, 0.0))
    return best if FORMATS[best].media_type in weights else stored


_WEIGHT = re.compile(r"q=(0(?:\.\d*)?|1(?:\.0*)?)", re.ASCII)


def _parse_query(query: str | Mapping[str, object]) -> Iterable[tuple[str, object]]:
    if not isinstance(query, str):
        return query.items()
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        error = FieldError("the query", f"at most {MAX_PARAMETERS} parameters", "more")
        raise BadRequestError(errors=[error]) from None


def _parse_accept(accept: str) -> dict[str, float]:
    """Return the media types that an `Accept` header names with a weight above 0."""
    weights = dict[str, float]()
    for entry in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in entry.split(";"))
        found = next(filter(None, map(_WEIGHT.fullmatch, parameters)), None)
        weight = float(found[1]) if found else 1.0
        if weight > 0:
            weights[media_type] = weight
    return weights
