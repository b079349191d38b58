"""The description of the interface tells of the events that are sent."""

from __future__ import annotations

import json

import httpx2
import jsonschema

from imagehost_core.events import EVENT_TYPES
from imagehost_core.events.schemas import event_schemas
from imagehost_server.app import operations
from imagehost_server.openapi.document import document


def test_every_event_stands_in_the_webhooks_of_the_document_with_its_schema(anybody: httpx2.Client) -> None:
    tree = anybody.get("/v1/openapi.json").json()
    assert tree["openapi"].startswith("3.1.")
    assert tree["webhooks"].keys() == EVENT_TYPES.keys()
    for name, schema in event_schemas().items():
        told = tree["webhooks"][name]["post"]
        assert told["requestBody"]["content"]["application/json"]["schema"] == schema
        headers = [parameter["name"] for parameter in told["parameters"]]
        assert headers == ["webhook-id", "webhook-timestamp", "webhook-signature"]


def test_the_schemas_of_events_are_those_of_the_records_that_the_interface_answers() -> None:
    """Two makers of schemas, one for answers and one for events, tell the same members."""
    tree = json.loads(json.dumps(document(operations(), "https://img.example/v1", "https://img.example/img")))
    for name, record in (("image.uploaded", "ImageRecord"), ("album.created", "AlbumRecord")):
        data = event_schemas()[name]["properties"]["data"]  # type: ignore[index]
        answered = tree["components"]["schemas"][record]
        assert set(answered["properties"]) == set(data["properties"])
        jsonschema.Draft202012Validator.check_schema(answered)
