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
from typing import Final, TypeVar
from urllib.parse import parse_qsl, urlencode

from attrs import Attribute, field, frozen

from imagehost_core.errors import BadRequestError, Fault, NotFoundError, quoted
from imagehost_core.formats import BY_EXTENSION, TRAITS, Format

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


_RANGES = {"width": ("w", MAX_SIDE), "height": ("h", MAX_SIDE), "quality": ("q", MAX_QUALITY)}


def _range_fault(name: str, maximum: int, value: object) -> Fault:
    return Fault(name, f"an integer from 1 to {maximum}", quoted(value))


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
        BadRequestError: A value is out of its range.
    """

    width: int | None = field(default=None)
    height: int | None = field(default=None)
    quality: int | None = field(default=None)
    fit: Fit = field(default=Fit.COVER, converter=Fit)
    format: Format | Auto | None = None

    @width.validator
    @height.validator
    @quality.validator
    def _in_range(self, attribute: Attribute[int | None], value: int | None) -> None:
        name, maximum = _RANGES[attribute.name]
        if value is not None and not (type(value) is int and 1 <= value <= maximum):
            raise BadRequestError(faults=[_range_fault(name, maximum, value)])

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


def parse_transform(query: str | Mapping[str, str] = "", *, extension: str | None = None) -> Transform:
    """Return what a delivery address asks for.

    Args:
        query: The query string as it came, without `?`, or names and values already decoded.
        extension: The extension in the path, without its dot, or `None` where it has none. `fm`
            beats it.

    Raises:
        BadRequestError: A value is not allowed, or a name repeated. Names every fault.
        NotFoundError: There is no such extension.
    """
    by_path = parse_extension(extension)
    faults: list[Fault] = []
    values: dict[str, str] = {}
    for name, text in _pairs(query):
        if name in values:
            faults.append(Fault(name, "one value", "several"))
        elif name in _NAMES:
            values[name] = text
    transform = Transform(
        width=_integer(values, "w", MAX_SIDE, faults),
        height=_integer(values, "h", MAX_SIDE, faults),
        quality=_integer(values, "q", MAX_QUALITY, faults),
        fit=_choice(values, "fit", {fit.value: fit for fit in Fit}, faults) or Fit.COVER,
        format=_choice(values, "fm", FORMAT_NAMES, faults) or by_path,
    )
    if faults:
        raise BadRequestError(faults=faults)
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
        fault = Fault("the extension", f"one of {', '.join(EXTENSIONS)}", quoted(extension))
        raise NotFoundError(faults=[fault]) from None


def negotiate(accept: str, stored: Format) -> Format:
    """Return the format that `AUTO` means for one viewer: AVIF, else WebP, else the stored kind.

    A format counts as accepted where the header names its media type with a weight above zero
    (RFC 9110, section 12.5.1). Wildcards do not count: every browser sends `*/*`, also those that
    cannot show AVIF.

    Args:
        accept: The request's `Accept` header, or "".
        stored: The master's format.
    """
    accepted = set(_accepted(accept))
    preferred = (fmt for fmt in (Format.AVIF, Format.WEBP) if TRAITS[fmt].media_type in accepted)
    return next(preferred, stored)


T = TypeVar("T")
_NAMES = ("w", "h", "q", "fit", "fm")
_CANONICAL = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_WEIGHT = re.compile(r"q=(0(\.0{0,3})?)", re.ASCII)


def _pairs(query: str | Mapping[str, str]) -> Iterable[tuple[str, str]]:
    if not isinstance(query, str):
        return query.items()
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        fault = Fault("the query", f"at most {MAX_PARAMETERS} parameters", "more")
        raise BadRequestError(faults=[fault]) from None


def _integer(values: Mapping[str, str], name: str, maximum: int, faults: list[Fault]) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if _CANONICAL.fullmatch(text) is not None and 1 <= int(text) <= maximum:
        return int(text)
    faults.append(_range_fault(name, maximum, text))
    return None


def _choice(values: Mapping[str, str], name: str, table: Mapping[str, T], faults: list[Fault]) -> T | None:
    text = values.get(name)
    if text is None or text in table:
        return None if text is None else table[text]
    faults.append(Fault(name, f"one of {', '.join(table)}", quoted(text)))
    return None


def _accepted(accept: str) -> Iterator[str]:
    for entry in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in entry.split(";"))
        if not any(_WEIGHT.fullmatch(parameter) for parameter in parameters):
            yield media_type
