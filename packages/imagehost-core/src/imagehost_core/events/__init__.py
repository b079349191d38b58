"""Events of the host: models, serialization and JSON schemas."""

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

__all__ = [
    "EVENT_TYPES",
    "AlbumCreated",
    "AlbumUpdated",
    "DeletedImage",
    "Event",
    "ImageDeleted",
    "ImageUploaded",
    "deserialize_event",
    "serialize_event",
]
