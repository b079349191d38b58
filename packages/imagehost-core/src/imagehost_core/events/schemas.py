"""JSON Schemas of event bodies, generated from the event classes.

They are published in `docs/schemas`; a test compares the two.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

import attrs

from imagehost_core.events.models import EVENT_TYPES, Event

Schema = dict[str, object]
"""A JSON Schema, as Python values."""

_PRIMITIVES: dict[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
    NoneType: {"type": "null"},
}


def event_schemas() -> dict[str, Schema]:
    """Return the JSON Schema (2020-12) of every event's body, by event type.

    The schemas do not reference each other. They allow additional properties, because records may gain
    fields.
    """
    return {name: _event_schema(kind) for name, kind in EVENT_TYPES.items()}


def _event_schema(kind: type[Event]) -> Schema:
    hints = get_type_hints(kind)
    properties = {name: schema_of(hints[name]) for name in ("timestamp", "data")}
    return _object({"type": {"const": kind.type}, **properties}, kind)


def schema_of(kind: object) -> Schema:
    """Return the JSON Schema of a type: a primitive, an enum, an attrs class or a union of these.

    Raises:
        TypeError: The type is none of these.
    """
    kind = getattr(kind, "__supertype__", kind)
    if kind in _PRIMITIVES:
        return dict(_PRIMITIVES[kind])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [member.value for member in kind]}
    if get_origin(kind) in (Union, UnionType):
        return _union([schema_of(member) for member in get_args(kind)])
    if isinstance(kind, type) and attrs.has(kind):
        hints = get_type_hints(kind)
        return _object({field.name: schema_of(hints[field.name]) for field in attrs.fields(kind)}, kind)
    raise TypeError(f"expected the type of a record's field but received {kind!r}")


def _union(schemas: list[Schema]) -> Schema:
    """Return the schema of a union; one of primitive types has `type` alone, which more programs support."""
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _object(properties: dict[str, Schema], kind: type[object]) -> Schema:
    description = (kind.__doc__ or "").split("\n", 1)[0]
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
    }
