"""Webhooks, their events and deliveries."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from attrs import field, frozen

from imagehost_client.models.results import Result


class EventKind(StrEnum):
    """The kind of a webhook event."""

    IMAGE_UPLOADED = "image.uploaded"
    IMAGE_DELETED = "image.deleted"
    ALBUM_CREATED = "album.created"
    ALBUM_UPDATED = "album.updated"


EventName = EventKind | Literal["image.uploaded", "image.deleted", "album.created", "album.updated"]
"""The kind of a webhook event, or its text."""


@frozen(kw_only=True)
class Webhook(Result):
    """A webhook: an endpoint that receives events."""

    id: str
    url: str
    events: tuple[EventKind | str, ...]
    description: str = ""
    is_active: bool
    created_at: datetime
    disabled_reason: str | None = None


@frozen(kw_only=True)
class WebhookWithSecret(Webhook):
    """A webhook with its signing secret, returned only on creation and rotation; `repr` hides it."""

    secret: str = field(repr=False)


@frozen(kw_only=True)
class WebhookDelivery(Result):
    """The delivery of one event to one webhook.

    Attributes:
        event_id: The `webhook-id` header of every attempt.
        event: The kind of the event; `webhook.test` for a test event.
        status: `pending`, `delivered` or `failed`; newer hosts may return other values.
        attempts: The number of attempts so far.
        next_attempt_at: The time of the next attempt; `None` if no attempt is scheduled.
        response_status: The HTTP status of the response to the last attempt.
        response_excerpt: The beginning of that response's body.
        duration_ms: The duration of the last attempt, in milliseconds.
        error: The reason why the last attempt got no response.
    """

    id: str
    webhook_id: str
    event_id: str
    event: EventKind | str
    status: str
    attempts: int
    next_attempt_at: datetime | None = None
    created_at: datetime
    last_attempt_at: datetime | None = None
    response_status: int | None = None
    response_excerpt: str = ""
    duration_ms: int | None = None
    error: str | None = None
