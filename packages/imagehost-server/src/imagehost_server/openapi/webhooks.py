"""The requests that webhook endpoints receive, in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from imagehost_core.events import event_schemas
from imagehost_core.services.webhooks import TEST_EVENT
from imagehost_server.openapi.components import Schema

HEADERS = {
    "webhook-id": "Id of the event, equal in every attempt: process each id once.",
    "webhook-timestamp": "Time of the attempt, as a Unix timestamp.",
    "webhook-signature": "`v1,` and a base64 HMAC-SHA256 of `id.timestamp.body`; two after a rotation.",
}
"""The headers of Standard Webhooks 1.0.0."""


TEST_SCHEMA: Schema = {
    "type": "object",
    "description": "A test of the webhook, which no change causes.",
    "properties": {
        "type": {"const": TEST_EVENT},
        "timestamp": {"type": "string", "format": "date-time"},
        "data": {
            "type": "object",
            "properties": {"webhook_id": {"type": "string"}},
            "required": ["webhook_id"],
        },
    },
    "required": ["type", "timestamp", "data"],
}
"""The JSON Schema of the body that `POST /webhooks/{id}/test` sends."""


def webhooks() -> dict[str, Schema]:
    """Return the description of each event's request, and of the test's, by event type."""
    schemas = {**event_schemas(), TEST_EVENT: TEST_SCHEMA}
    return {name: {"post": _webhook(name, schema)} for name, schema in schemas.items()}


def _webhook(name: str, schema: Mapping[str, object]) -> Schema:
    return {
        "operationId": name.replace(".", "_"),
        "summary": f"The event `{name}`.",
        "tags": ["events"],
        "security": [],
        "parameters": [
            {
                "name": header,
                "in": "header",
                "required": True,
                "description": text,
                "schema": {"type": "string"},
            }
            for header, text in HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "2XX": {"description": "The event is delivered."},
            "410": {"description": "The webhook is disabled."},
            "default": {"description": "The delivery is retried later."},
        },
    }
