"""Bodies of events: rejected by the documented errors of core and client, or equal after they are written."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from imagehost_client.errors import WebhookVerificationError
from imagehost_client.webhooks import sign, unwrap
from imagehost_core.errors import ValidationError
from imagehost_core.events import deserialize_event, serialize_event

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
ID = "msg_000000000000000000000000"
NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
DICTIONARY = (
    *(b'"type":', b'"timestamp":', b'"data":', b'"album.created"', b'"image.deleted"', b'"image.uploaded"'),
    *(
        b"null",
        b"true",
        b"1e999",
        b"NaN",
        b"-1",
        b"[",
        b"{",
        b"[[[[[[[[" * 8,
        b'{"a":' * 16,
        b"\\ud800",
        b"\xff",
    ),
    *(
        b"2026-01-31T09:30:00Z",
        b"9999-12-31T23:59:59-01:00",
        b"0001-01-01T00:00:00+01:00",
        b'"id":',
        b"9" * 5_000,
    ),
)
FINDINGS = (
    b'{"type":"image.deleted","timestamp":"2026-01-31T09:30:00Z",'
    b'"data":{"id":"4fTq0ZrXb8\\ud800","album_id":7,"deleted_at":"2026-01-31T09:30:00Z"}}',
    b'{"type":"image.deleted","timestamp":"2026-01-31T09:30:00Z",'
    b'"data":{"id":"4fTq0ZrXb81KcVnE","album_id":"7","deleted_at":"2026-01-31T09:30:00Z"}}',
    b'{"type":"image.deleted","timestamp":"0001-01-01T00:00:00+01:00",'
    b'"data":{"id":"4fTq0ZrXb81KcVnE","album_id":7,"deleted_at":"2026-01-31T09:30:00Z"}}',
    b'{"type":' + b"[" * 2_000,
)
"""A lone surrogate, text for a number, a time before year 1 in UTC, and nesting without an end."""
TEXTS = (
    '{"type":"image.deleted","timestamp":"2026-01-31T09:30:00Z",'
    '"data":{"id":"4fTq0ZrXb81KcVnE","album_id":7,"deleted_at":"2026-01-31T09:30:00Z"}}',
    '{"type":"album.created","timestamp":"2026-01-31T09:30:00.5Z","data":{"id":7,"name":"Cats",'
    '"description":"","is_public":true,"image_count":1,"cover_image_id":null,"cover_url":null,'
    '"created_at":"2026-01-31T09:30:00Z","updated_at":"2026-01-31T09:30:00Z"}}',
    '{"type":"future","timestamp":"2026-01-31T09:30:00Z","data":{}}',
)


def seeds() -> list[bytes]:
    return [text.encode() for text in TEXTS]


def check(data: bytes) -> None:
    timestamp = str(int(NOW.timestamp()))
    signature = sign(f"{ID}.{timestamp}.".encode() + data, SECRET)
    headers = {"webhook-id": ID, "webhook-timestamp": timestamp, "webhook-signature": signature}
    with suppress(WebhookVerificationError):
        assert unwrap(data, headers, SECRET, now=NOW).id == ID
    try:
        event = deserialize_event(ID, data)
    except ValidationError:
        return
    assert deserialize_event(ID, serialize_event(event)) == event
