"""Serialization of events and their JSON Schemas."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import get_args

import attrs
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import ValidationError
from imagehost_core.events import (
    EVENT_TYPES,
    AlbumCreated,
    AlbumUpdated,
    DeletedImage,
    Event,
    ImageDeleted,
    ImageUploaded,
    deserialize_event,
    event_schemas,
    schema_of,
    serialize_event,
)
from imagehost_core.formats import Format
from imagehost_core.ids import AlbumId, EventId
from imagehost_core.models import Album, EventName, Image, UrlBuilder
from imagehost_core.resources import AlbumRecord, ImageRecord

URLS = UrlBuilder("https://img.example/v1", "https://cdn.example/i")
ID = EventId("msg_" + "0" * 24)
TIME = datetime(2026, 11, 21, 7, 26, 5, tzinfo=UTC)


def uploaded(image: Image) -> ImageUploaded:
    return ImageUploaded(id=ID, timestamp=TIME, data=ImageRecord.of(attrs.evolve(image, urls=URLS)))


def test_there_are_four_event_types() -> None:
    assert set(EVENT_TYPES) == {"image.uploaded", "image.deleted", "album.created", "album.updated"}
    assert set(EVENT_TYPES) == set(get_args(EventName))


def test_image_uploaded_contains_the_image_record(image: Image) -> None:
    body = json.loads(serialize_event(uploaded(image)))
    assert list(body) == ["type", "timestamp", "data"]
    assert (body["type"], body["timestamp"]) == ("image.uploaded", "2026-11-21T07:26:05.000000Z")
    assert list(body["data"]) == [attribute.name for attribute in attrs.fields(ImageRecord)]
    assert body["data"]["created_at"] == "2026-11-21T07:26:03.120000Z"
    assert body["data"]["format"] == "webp"
    assert body["data"]["album_id"] == 7
    assert body["data"]["links"]["bbcode"] == "[img]https://cdn.example/i/4fTq0ZrXb81KcVnE.webp[/img]"


@pytest.mark.parametrize("kind", [AlbumCreated, AlbumUpdated])
def test_album_events_contain_the_album_record(kind: type[AlbumCreated | AlbumUpdated], album: Album) -> None:
    body = json.loads(serialize_event(kind(id=ID, timestamp=TIME, data=AlbumRecord.of(album))))
    assert body["type"] == kind.type
    assert list(body["data"]) == [attribute.name for attribute in attrs.fields(AlbumRecord)]
    assert body["data"]["updated_at"] == "2026-11-21T00:00:00.000000Z"


@pytest.mark.parametrize("in_album", [True, False])
def test_image_deleted_contains_id_album_and_time(image: Image, in_album: bool) -> None:
    deleted = DeletedImage(id=image.id, album_id=image.album_id if in_album else None, deleted_at=TIME)
    assert json.loads(serialize_event(ImageDeleted(id=ID, timestamp=TIME, data=deleted))) == {
        "type": "image.deleted",
        "timestamp": "2026-11-21T07:26:05.000000Z",
        "data": {
            "id": "4fTq0ZrXb81KcVnE",
            "album_id": 7 if in_album else None,
            "deleted_at": "2026-11-21T07:26:05.000000Z",
        },
    }


def test_every_time_is_in_utc_and_ends_in_z(image: Image, album: Album) -> None:
    times = re.findall(rb'_at":"([^"]*)"|timestamp":"([^"]*)"', serialize_event(uploaded(image)))
    assert len(times) == 3
    assert all(re.fullmatch(rb"[0-9T:.-]{26}Z", one or other) for one, other in times)


def test_the_id_of_an_event_is_not_in_its_body(image: Image) -> None:
    assert ID.encode() not in serialize_event(uploaded(image))


@given(st.text())
def test_any_description_is_serialized_as_utf_8(image: Image, text: str) -> None:
    body = serialize_event(uploaded(attrs.evolve(image, description=text)))
    assert json.loads(body.decode("utf-8"))["data"]["description"] == text


def test_non_ascii_characters_are_not_escaped(image: Image) -> None:
    assert "描述 é 😀".encode() in serialize_event(uploaded(attrs.evolve(image, description="描述 é 😀")))


def test_serialization_is_deterministic_and_compact(image: Image) -> None:
    assert serialize_event(uploaded(image)) == serialize_event(uploaded(attrs.evolve(image)))
    assert serialize_event(uploaded(image)).startswith(
        b'{"type":"image.uploaded","timestamp":"2026-11-21T07:26:05.000000Z","data":{"id":'
    )


@pytest.fixture
def events(image: Image, album: Album) -> list[Event]:
    """Return an event of each type, and another whose optional fields are null."""
    events: list[Event] = []
    for photo, group in (
        (image, album),
        (attrs.evolve(image, album_id=None), attrs.evolve(album, cover=None, image_count=0)),
    ):
        deleted = DeletedImage(id=photo.id, album_id=photo.album_id, deleted_at=TIME)
        events += [
            uploaded(photo),
            ImageDeleted(id=ID, timestamp=TIME, data=deleted),
            AlbumCreated(id=ID, timestamp=TIME, data=AlbumRecord.of(group)),
            AlbumUpdated(id=ID, timestamp=TIME, data=AlbumRecord.of(group)),
        ]
    return events


def test_deserialization_returns_the_serialized_event(events: list[Event]) -> None:
    assert [deserialize_event(event.id, serialize_event(event)) for event in events] == events


@given(
    st.text(max_size=50),
    st.sampled_from(Format),
    st.one_of(st.none(), st.integers(1, 2**53).map(AlbumId)),
    st.datetimes(timezones=st.just(UTC)),
)
def test_any_uploaded_image_survives_serialization_and_matches_the_schema(
    image: Image, text: str, fmt: Format, album_id: AlbumId | None, time: datetime
) -> None:
    changed = attrs.evolve(image, description=text, format=fmt, album_id=album_id, created_at=time)
    event = uploaded(changed)
    assert deserialize_event(ID, serialize_event(event)) == event
    jsonschema.validate(json.loads(serialize_event(event)), event_schemas()["image.uploaded"])


def deleted_event(**members: str) -> bytes:
    """Return the body of an event with some members of its data in JSON."""
    data = {"id": '"x"', "album_id": "null", "deleted_at": '"2026-11-21T07:26:05Z"', **members}
    text = ",".join(f'"{name}": {value}' for name, value in data.items())
    return f'{{"type": "image.deleted", "timestamp": "2026-11-21T07:26:05Z", "data": {{{text}}}}}'.encode()


def test_the_event_of_a_deleted_image_is_read() -> None:
    assert deserialize_event(ID, deleted_event()).data.id == "x"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b"5",
        b"{}",
        b'{"type": "image.uploaded"}',
        b'{"type": "image.exploded", "timestamp": "2026-11-21T07:26:05Z", "data": {}}',
        b'{"type": ["image.deleted"], "timestamp": "2026-11-21T07:26:05Z", "data": {}}',
        b'{"type": "image.deleted", "timestamp": "2026-11-21T07:26:05Z", "data": {}}',
        b'{"type": "image.deleted", "timestamp": "soon", "data": {"id": "x", "deleted_at": "soon"}}',
        deleted_event(id='"\\ud800"'),
        deleted_event(id="5"),
        deleted_event(album_id='"7"'),
        deleted_event(album_id="true"),
        deleted_event(deleted_at='"0001-01-01T00:00:00+01:00"'),
        deleted_event(deleted_at="[" * 2_000),
    ],
)
def test_a_body_that_is_not_an_event_is_rejected(body: bytes) -> None:
    with pytest.raises(ValidationError, match="body of one of"):
        deserialize_event(ID, body)


def test_a_time_without_a_utc_offset_is_rejected() -> None:
    data = b'{"id": "x", "album_id": null, "deleted_at": "2026-11-21T07:26:05"}'
    with pytest.raises(ValidationError):
        deserialize_event(
            ID, b'{"type": "image.deleted", "timestamp": "2026-11-21T07:26:05Z", "data": ' + data + b"}"
        )


def test_every_event_type_has_a_valid_schema() -> None:
    assert event_schemas().keys() == EVENT_TYPES.keys()
    for schema in event_schemas().values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_a_schema_accepts_its_own_event_type_only(events: list[Event]) -> None:
    for name, schema in event_schemas().items():
        validator = jsonschema.Draft202012Validator(schema)
        accepted = {event.type for event in events if validator.is_valid(json.loads(serialize_event(event)))}
        assert accepted == {name}


def test_a_schema_requires_every_serialized_property(events: list[Event]) -> None:
    for event in events:
        schema, body = event_schemas()[event.type], json.loads(serialize_event(event))
        for path in [(name,) for name in body] + [("data", name) for name in body["data"]]:
            incomplete = json.loads(serialize_event(event))
            del (incomplete if len(path) == 1 else incomplete["data"])[path[-1]]
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(incomplete, schema)


def test_an_unsupported_type_has_no_schema() -> None:
    with pytest.raises(TypeError, match="the type of a record's field"):
        schema_of(bytes)
