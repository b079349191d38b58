"""The OpenAPI document describes the events."""

from __future__ import annotations

import json

import httpx2
import jsonschema
from tests.open_host import open_host

from imagehost_core.events import EVENT_TYPES, event_schemas
from imagehost_core.services.webhooks import TEST_EVENT
from imagehost_core.testing import FrozenClock
from imagehost_server.openapi.document import document
from imagehost_server.routes import ROUTES


def test_the_document_has_every_event_with_its_schema(anonymous: httpx2.Client) -> None:
    tree = anonymous.get("/v1/openapi.json").json()
    assert tree["openapi"].startswith("3.1.")
    assert tree["webhooks"].keys() == {*EVENT_TYPES, TEST_EVENT}
    for name, schema in event_schemas().items():
        operation = tree["webhooks"][name]["post"]
        assert operation["requestBody"]["content"]["application/json"]["schema"] == schema
        headers = [parameter["name"] for parameter in operation["parameters"]]
        assert headers == ["webhook-id", "webhook-timestamp", "webhook-signature"]


def test_the_document_has_the_body_of_a_test(api: httpx2.Client) -> None:
    with open_host(clock=FrozenClock()) as host:
        hook = host.webhooks.create(owner="admin", url="https://192.0.43.8/")
        host.webhooks.test(hook, owner="admin")
        (leased,) = host.webhooks.lease(1)
    tree = api.get("/v1/openapi.json").json()
    schema = tree["webhooks"][TEST_EVENT]["post"]["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.validate(json.loads(leased.body), schema)


def test_events_have_the_members_of_the_api_records() -> None:
    """Two generators of schemas, one for responses and one for events, yield the same members."""
    tree = json.loads(json.dumps(document(ROUTES, "https://img.example/v1", "https://img.example/img")))
    for name, record in (("image.uploaded", "ImageRecord"), ("album.created", "AlbumRecord")):
        data = event_schemas()[name]["properties"]["data"]  # type: ignore[index]
        schema = tree["components"]["schemas"][record]
        assert set(schema["properties"]) == set(data["properties"])
        jsonschema.Draft202012Validator.check_schema(schema)
