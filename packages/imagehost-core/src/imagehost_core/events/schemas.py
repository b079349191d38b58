"""The JSON Schemas of events, made from the classes that are sent.

They are published with the interface, so they cannot tell of a member that is not there.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

import attrs

from imagehost_core.events import EVENT_TYPES, Event

Schema = dict[str, object]

_PLAIN: dict[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
    NoneType: {"type": "null"},
}


def event_schemas() -> dict[str, Schema]:
    """Return the JSON Schema (2020-12) of the body of each kind of event, by the names of SPEC 6.

    Each stands alone, without a reference to another. Members may be added to records one day, so none
    forbids what it does not know.
    """
    return {name: _event(kind) for name, kind in EVENT_TYPES.items()}


def _event(kind: type[Event]) -> Schema:
    hints = get_type_hints(kind)
    members = {name: schema_of(hints[name]) for name in ("timestamp", "data")}
    return _object({"type": {"const": kind.type}, **members}, kind)


def schema_of(kind: object) -> Schema:
    """Return the JSON Schema of a type: a plain one, an enum, an attrs class, or a union of these.

    Raises:
        TypeError: It is none of them.
    """
    kind = getattr(kind, "__supertype__", kind)
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [member.value for member in kind]}
    if get_origin(kind) in (Union, UnionType):
        return {"anyOf": [schema_of(one) for one in get_args(kind)]}
    if isinstance(kind, type) and attrs.has(kind):
        hints = get_type_hints(kind)
        return _object({field.name: schema_of(hints[field.name]) for field in attrs.fields(kind)}, kind)
    raise TypeError(f"expected a type of records but received {kind!r}")


def _object(properties: dict[str, Schema], kind: type[object]) -> Schema:
    description = (kind.__doc__ or "").split("\n", 1)[0]
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
    }
