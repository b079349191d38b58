"""The values of responses and exports in types of JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import attrs
import msgspec

from imagehost_core import to_rfc3339

Converter = Callable[[Any], object]

_converters: dict[type, Converter] = {}
"""The conversion of each class that was converted before."""


def to_jsonable(value: object) -> object:
    """Return `value` in types of JSON, datetimes as RFC 3339 with microseconds; leave unset members out."""
    kind = type(value)
    convert = _converters.get(kind)
    if convert is None:
        convert = _converters[kind] = _new_converter(kind)
    return convert(value)


def _new_converter(kind: type) -> Converter:
    """Return the conversion of the instances of a class to types of JSON."""
    if issubclass(kind, Mapping):
        return lambda value: {name: to_jsonable(item) for name, item in value.items()}
    if issubclass(kind, list | tuple):
        return lambda value: [to_jsonable(item) for item in value]
    if issubclass(kind, datetime):
        return to_rfc3339
    return _new_record_converter(kind) if attrs.has(kind) else _identity


def _new_record_converter(kind: type[attrs.AttrsInstance]) -> Converter:
    names = tuple(attribute.name for attribute in attrs.fields(kind))

    def convert(record: object) -> dict[str, object]:
        members = [(name, getattr(record, name)) for name in names]
        return {
            name: item if type(item) in _JSON_SCALARS else to_jsonable(item)
            for name, item in members
            if item is not msgspec.UNSET
        }

    return convert


def _identity(value: object) -> object:
    return value


_JSON_SCALARS = frozenset((str, int, bool, float, type(None)))
"""Types whose values need no conversion."""
