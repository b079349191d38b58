"""Event models, their JSON serialization and their JSON Schemas.

```python
>>> from datetime import UTC, datetime
>>> from imagehost_core.events import DeletedImage, ImageDeleted, deserialize_event, serialize_event
>>> time = datetime(2026, 1, 1, tzinfo=UTC)
>>> image = DeletedImage(id="4fTq0ZrXb81KcVnE", album_id=None, deleted_at=time)
>>> event = ImageDeleted(id="msg_000000000000000000000000", timestamp=time, data=image)
>>> body = serialize_event(event)
>>> deserialize_event(event.id, body) == event
True

```
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
from attrs import frozen

from imagehost_core._util.clock import to_rfc3339
from imagehost_core.errors import ValidationError, quote_value
from imagehost_core.formats import Format
from imagehost_core.ids import AlbumId, EventId, ImageId
from imagehost_core.resources import AlbumRecord, ImageRecord

if TYPE_CHECKING:
    from cattrs import Converter


# The JSON body of an event is `{"type", "timestamp", "data"}`; the event's id is sent beside it, as
# `webhook-id`. There is one event per image and album. The same converter reads and writes bodies, so
# that an embedding program can pass events through a queue.

T = TypeVar("T")


@frozen(kw_only=True)
class DeletedImage:
    """The record of a deleted image."""

    id: ImageId
    album_id: AlbumId | None
    deleted_at: datetime


@frozen(kw_only=True)
class ImageUploaded:
    """An image was uploaded."""

    type: ClassVar[str] = "image.uploaded"
    id: EventId
    timestamp: datetime
    data: ImageRecord


@frozen(kw_only=True)
class ImageDeleted:
    """An image and all its variants were deleted."""

    type: ClassVar[str] = "image.deleted"
    id: EventId
    timestamp: datetime
    data: DeletedImage


@frozen(kw_only=True)
class AlbumCreated:
    """An album was created."""

    type: ClassVar[str] = "album.created"
    id: EventId
    timestamp: datetime
    data: AlbumRecord


@frozen(kw_only=True)
class AlbumUpdated:
    """An album's fields or membership were changed, other than by an upload."""

    type: ClassVar[str] = "album.updated"
    id: EventId
    timestamp: datetime
    data: AlbumRecord


Event = ImageUploaded | ImageDeleted | AlbumCreated | AlbumUpdated
"""The closed union of all events."""

EVENT_TYPES: dict[str, type[Event]] = {kind.type: kind for kind in get_args(Event)}
"""Every event class by its type."""


def serialize_event(event: Event) -> bytes:
    """Return the JSON body of an event, the same bytes each time."""
    body = {"type": event.type, "timestamp": event.timestamp, "data": event.data}
    return json.dumps(_converter().unstructure(body), ensure_ascii=False, separators=(",", ":")).encode()


def deserialize_event(event_id: str, body: bytes) -> Event:
    """Return the event of a JSON body that `serialize_event` returned.

    Args:
        event_id: The event's id, the value of `webhook-id`.
        body: The JSON body.

    Raises:
        ValidationError: The body is not that of an event.
    """
    from cattrs import BaseValidationError

    kind: object = None
    try:
        members = json.loads(body)
        kind = members["type"]
        return _converter().structure({**members, "id": event_id}, EVENT_TYPES[members["type"]])
    except (ValueError, TypeError, KeyError, RecursionError, BaseValidationError) as error:
        expected = f"a body of one of {', '.join(EVENT_TYPES)}"
        raise ValidationError.of("the event", expected, quote_value(kind)) from error


def _parse_time(text: object, _kind: type[datetime]) -> datetime:
    time = datetime.fromisoformat(_require_type(text, str))
    if time.tzinfo is None:
        raise ValueError(f"expected a time with a UTC offset but received {text}")
    return time.astimezone(UTC)


def _require_type(value: object, kind: type[T]) -> T:
    """Return a value of exactly a type, where cattrs would convert another one, such as "false" to true."""
    if type(value) is not kind:
        raise TypeError(f"expected a value of the type {kind.__name__} but received {value!r}")
    if isinstance(value, str):
        value.encode()  # A lone surrogate, which JSON can express, is a UnicodeEncodeError.
    return value


@cache
def _converter() -> Converter:
    # Imported on first use: cattrs takes longer to import than the rest of the package.
    from cattrs import Converter
    from cattrs.gen import make_dict_unstructure_fn

    converter = Converter()
    converter.register_unstructure_hook(datetime, to_rfc3339)
    converter.register_structure_hook(datetime, _parse_time)
    for primitive in (str, int, bool):
        converter.register_structure_hook(primitive, _require_type)
    # Its base `str` has a hook.
    converter.register_structure_hook(Format, lambda value, _: Format(value))
    converter.register_unstructure_hook_factory(
        lambda kind: hasattr(kind, "__attrs_attrs__"), lambda kind: make_dict_unstructure_fn(kind, converter)
    )
    return converter


# JSON Schemas of event bodies, generated from the event classes.
#
# They are published in `docs/schemas`; a test compares the two.

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
    """Return the schema of a union; one of primitive types has `type` alone, which more programs support.

    A `format` applies to strings only, so that of one member is that of the union.
    """
    if all(schema.keys() <= {"type", "format"} for schema in schemas):
        formats: Schema = {
            key: value for schema in schemas for key, value in schema.items() if key == "format"
        }
        return {"type": [schema["type"] for schema in schemas], **formats}
    return {"anyOf": schemas}


def _object(properties: dict[str, Schema], kind: type[object]) -> Schema:
    description = (kind.__doc__ or "").split("\n", 1)[0]
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
    }
