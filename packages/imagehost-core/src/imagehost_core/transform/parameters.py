"""What the processing route is asked for: the parameters `w`, `h`, `q`, `fit` and `fm`, parsed once.

```python
>>> parse_transform("w=300&fm=avif")
Transform(width=300, height=None, quality=None, fit=<Fit.COVER: 'cover'>, format=<Format.AVIF: 'avif'>)

```

Contract 7: values are canonical decimal integers; a repeated name is refused; unknown names are
ignored. All faults of one query are reported together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeGuard, TypeVar, cast
from urllib.parse import parse_qsl, urlencode

from attrs import field, frozen

from imagehost_core.errors import BadRequestError, FieldError, NotFoundError, quote_value
from imagehost_core.formats import BY_EXTENSION, FORMATS, Format

MAX_SIDE = 8192
"""The largest `w` or `h`, in pixels (contract 7)."""
MAX_QUALITY = 100

DEFAULT_QUALITY: dict[Format, int] = {Format.JPEG: 80, Format.WEBP: 80, Format.AVIF: 60}
"""The quality of an output for which none is asked (contract 7); PNG and GIF have none."""

MAX_PARAMETERS = 64
"""More names than this in one query are refused: there are five that mean anything."""


class Fit(StrEnum):
    """How a picture is brought to a size of which both sides are given; sharp's five."""

    COVER = "cover"
    CONTAIN = "contain"
    FILL = "fill"
    INSIDE = "inside"
    OUTSIDE = "outside"


class Auto(StrEnum):
    """The format is left to the viewer: the best that its `Accept` header names."""

    AUTO = "auto"


AUTO: Final = Auto.AUTO

FORMAT_NAMES: dict[str, Format | Auto] = {
    "jpg": Format.JPEG,
    "png": Format.PNG,
    "webp": Format.WEBP,
    "avif": Format.AVIF,
    "auto": AUTO,
}
"""The values of `fm` (SPEC 4.6, and `auto`)."""

EXTENSIONS: dict[str, Format | Auto] = {**BY_EXTENSION, "auto": AUTO}
"""The extensions of delivery addresses (contract 7)."""


FIT_NAMES: dict[str, Fit] = {fit.value: fit for fit in Fit}
"""The values of `fit` (SPEC 4.6)."""


def _as_fit(value: Fit | str) -> Fit:
    """Return what a name means; `_faults` names the one that means nothing."""
    return FIT_NAMES.get(value, cast("Fit", value))


def _range_error(name: str, maximum: int, value: object) -> FieldError:
    return FieldError(name, f"an integer from 1 to {maximum}", quote_value(value))


def _choice_error(name: str, table: Mapping[str, object], value: object) -> FieldError:
    return FieldError(name, f"one of {', '.join(table)}", quote_value(value))


def _is_a(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds)


def _is_within(value: object, maximum: int) -> TypeGuard[int]:
    return type(value) is int and 1 <= value <= maximum


@frozen
class Transform:
    """One picture that is asked for; it cannot be built wrong.

    Attributes:
        width: Pixels of the upright picture, 1–8192, or `None`: not given.
        height: The same.
        quality: 1–100, or `None` for the format's default. Means nothing for PNG and GIF.
        fit: What happens where both sides are given.
        format: The format of the output; `AUTO` lets `Accept` decide; `None` keeps the stored one.

    Raises:
        BadRequestError: A value is not allowed. Names every fault.
    """

    width: int | None = None
    height: int | None = None
    quality: int | None = None
    fit: Fit = field(default=Fit.COVER, converter=_as_fit)
    format: Format | Auto | None = None

    def __attrs_post_init__(self) -> None:
        faults = list(_errors(self))
        if faults:
            raise BadRequestError(errors=faults)

    def to_query(self) -> str:
        """Return the canonical query: names in the order w, h, q, fit, fm, defaults left out.

        GIF has no name in `fm`; it is asked for by the extension, so it is left out here.
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


def _errors(transform: Transform) -> Iterator[FieldError]:
    ranges = (
        ("w", transform.width, MAX_SIDE),
        ("h", transform.height, MAX_SIDE),
        ("q", transform.quality, MAX_QUALITY),
    )
    for name, value, maximum in ranges:
        if value is not None and not _is_within(value, maximum):
            yield _range_error(name, maximum, value)
    if not _is_a(transform.fit, Fit):
        yield _choice_error("fit", FIT_NAMES, transform.fit)
    if transform.format is not None and not _is_a(transform.format, Format, Auto):
        yield FieldError("the format", "a Format, AUTO or None", quote_value(transform.format))


def parse_transform(query: str | Mapping[str, str | int] = "", *, extension: str | None = None) -> Transform:
    """Return what a delivery address asks for.

    Args:
        query: The query string as it came, without `?`, or names and values already decoded; there
            numbers may be integers.
        extension: The extension in the path, without its dot, or `None` where it has none. `fm`
            beats it.

    Raises:
        BadRequestError: A value is not allowed, or a name repeated. Names every fault.
        NotFoundError: There is no such extension.
    """
    by_path = parse_extension(extension)
    faults: list[FieldError] = []
    values: dict[str, str | int] = {}
    for name, text in _pairs(query):
        if name in values:
            faults.append(FieldError(name, "one value", "several"))
        elif name in _NAMES:
            values[name] = text
    transform = Transform(
        width=_integer(values, "w", MAX_SIDE, faults),
        height=_integer(values, "h", MAX_SIDE, faults),
        quality=_integer(values, "q", MAX_QUALITY, faults),
        fit=_choice(values, "fit", FIT_NAMES, faults) or Fit.COVER,
        format=_choice(values, "fm", FORMAT_NAMES, faults) or by_path,
    )
    if faults:
        raise BadRequestError(errors=dict.fromkeys(faults))
    return transform


def parse_extension(extension: str | None) -> Format | Auto | None:
    """Return the format that an extension of a delivery address means.

    Raises:
        NotFoundError: There is no such extension: contract 7, *another → 404*.
    """
    if extension is None:
        return None
    try:
        return EXTENSIONS[extension]
    except KeyError:
        raise NotFoundError(errors=[_choice_error("the extension", EXTENSIONS, extension)]) from None


def negotiate(accept: str, stored: Format, *, animated: bool = False) -> Format:
    """Return the format that `AUTO` means for one viewer: AVIF, else WebP, else the stored kind.

    An animation becomes no AVIF, of which we write the first frame only (contract 7: *animated
    masters stay animated for webp and gif*).

    A format counts as accepted where the header names its media type with a weight above zero
    (RFC 9110, section 12.5.1). Wildcards do not count: every browser sends `*/*`, also those that
    cannot show AVIF.

    Args:
        accept: The request's `Accept` header, or "".
        stored: The master's format.
        animated: Whether the master has more than one frame.
    """
    accepted = set(_accepted(accept))
    suitable = (fmt for fmt in (Format.AVIF, Format.WEBP) if FORMATS[fmt].animated or not animated)
    return next((fmt for fmt in suitable if FORMATS[fmt].media_type in accepted), stored)


T = TypeVar("T")
_NAMES = ("w", "h", "q", "fit", "fm")
_CANONICAL = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_NO_WEIGHT = re.compile(r"q=0(\.0*)?", re.ASCII)


def _pairs(query: str | Mapping[str, str | int]) -> Iterable[tuple[str, str | int]]:
    if not isinstance(query, str):
        return query.items()
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        fault = FieldError("the query", f"at most {MAX_PARAMETERS} parameters", "more")
        raise BadRequestError(errors=[fault]) from None


def _integer(
    values: Mapping[str, str | int], name: str, maximum: int, faults: list[FieldError]
) -> int | None:
    if name not in values:
        return None
    value = values[name]
    number = int(value) if isinstance(value, str) and _CANONICAL.fullmatch(value) else value
    if _is_within(number, maximum):
        return number
    faults.append(_range_error(name, maximum, value))
    return None


def _choice(
    values: Mapping[str, str | int], name: str, table: Mapping[str, T], faults: list[FieldError]
) -> T | None:
    if name not in values:
        return None
    value = values[name]
    if isinstance(value, str) and value in table:
        return table[value]
    faults.append(_choice_error(name, table, value))
    return None


def _accepted(accept: str) -> Iterator[str]:
    for entry in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in entry.split(";"))
        if not any(_NO_WEIGHT.fullmatch(parameter) for parameter in parameters):
            yield media_type
