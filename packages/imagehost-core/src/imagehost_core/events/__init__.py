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

from imagehost_core.events.models import (
    EVENT_TYPES,
    AlbumCreated,
    AlbumUpdated,
    DeletedImage,
    Event,
    ImageDeleted,
    ImageUploaded,
    deserialize_event,
    serialize_event,
)
from imagehost_core.events.schemas import Schema, event_schemas, schema_of

__all__ = [
    "EVENT_TYPES",
    "AlbumCreated",
    "AlbumUpdated",
    "DeletedImage",
    "Event",
    "ImageDeleted",
    "ImageUploaded",
    "Schema",
    "deserialize_event",
    "event_schemas",
    "schema_of",
    "serialize_event",
]
