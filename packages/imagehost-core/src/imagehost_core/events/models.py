"""What happened: one value for each event, in the shape in which it is sent.

Contract 10: *body `{"type", "timestamp", "data"}`; one event per image; `data` is the record (for
image.deleted: `id, album_id, deleted_at`)*. The union `Event` is closed (SPEC 6). One converter writes
and reads them, so that a program may pass events on through a queue of its own.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import ClassVar

from attrs import frozen
from cattrs import BaseValidationError, Converter
from cattrs.gen import make_dict_unstructure_fn

from imagehost_core._util.clock import to_rfc3339
from imagehost_core.errors import FieldError, ValidationError, quote_value
from imagehost_core.ids import AlbumId, EventId, ImageId
from imagehost_core.resources import AlbumRecord, ImageRecord


@frozen(kw_only=True)
class DeletedImage:
    """What is left to say of an image that is gone."""

    id: ImageId
    album_id: AlbumId | None
    deleted_at: datetime


@frozen(kw_only=True)
class ImageUploaded:
    """An image was stored."""

    type: ClassVar[str] = "image.uploaded"
    id: EventId
    timestamp: datetime
    data: ImageRecord


@frozen(kw_only=True)
class ImageDeleted:
    """An image and all its variants are gone."""

    type: ClassVar[str] = "image.deleted"
    id: EventId
    timestamp: datetime
    data: DeletedImage


@frozen(kw_only=True)
class AlbumCreated:
    """An album was made."""

    type: ClassVar[str] = "album.created"
    id: EventId
    timestamp: datetime
    data: AlbumRecord


@frozen(kw_only=True)
class AlbumUpdated:
    """An album's record or its membership was changed (contract 6: not by uploads)."""

    type: ClassVar[str] = "album.updated"
    id: EventId
    timestamp: datetime
    data: AlbumRecord


Event = ImageUploaded | ImageDeleted | AlbumCreated | AlbumUpdated
"""Everything that can happen."""

EVENT_TYPES: dict[str, type[Event]] = {
    kind.type: kind for kind in (ImageUploaded, ImageDeleted, AlbumCreated, AlbumUpdated)
}
"""The kinds of events, by the names of SPEC 6."""


def serialize_event(event: Event) -> bytes:
    """Return the JSON body under which an event is sent; the same bytes each time."""
    body = {"type": event.type, "timestamp": event.timestamp, "data": event.data}
    return json.dumps(_converter.unstructure(body), ensure_ascii=False, separators=(",", ":")).encode()


def deserialize_event(event_id: str, body: bytes) -> Event:
    """Return the event that a body tells of: the way back of `event_body`.

    Args:
        event_id: The event's id, which is not in its body: the value of `webhook-id`.
        body: As it was sent.

    Raises:
        ValidationError: It is not the body of an event.
    """
    kind: object = None
    try:
        members = json.loads(body)
        kind = members["type"]
        return _converter.structure({**members, "id": event_id}, EVENT_TYPES[members["type"]])
    except (ValueError, TypeError, KeyError, BaseValidationError) as error:
        fault = FieldError("the event", f"a body of one of {', '.join(EVENT_TYPES)}", quote_value(kind))
        raise ValidationError(errors=[fault]) from error


def _moment(text: object, _kind: type[datetime]) -> datetime:
    moment = datetime.fromisoformat(str(text))
    if moment.tzinfo is None:
        raise ValueError(f"expected a time with its zone but received {text}")
    return moment


_converter = Converter()
_converter.register_unstructure_hook(datetime, to_rfc3339)
_converter.register_structure_hook(datetime, _moment)
_converter.register_unstructure_hook_factory(
    lambda kind: hasattr(kind, "__attrs_attrs__"), lambda kind: make_dict_unstructure_fn(kind, _converter)
)
