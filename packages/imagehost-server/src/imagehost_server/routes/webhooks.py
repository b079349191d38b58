"""Webhook routes: endpoints, their secrets, and deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, cast

import msgspec
from attrs import field, frozen
from litestar import Response
from litestar.params import JSONBody, PathParameter
from msgspec import UNSET, UnsetType

from imagehost_core.endpoints import MAX_URL
from imagehost_core.events import EVENT_TYPES
from imagehost_core.models import (
    Deleted,
    EventName,
    Scope,
    Webhook,
    WebhookDelivery,
    WebhookWithSecret,
)
from imagehost_server.http.responses import Success, ok, record_of
from imagehost_server.routes.body import Description, JsonBody, member, set_fields
from imagehost_server.routes.handler import ApiRequest, operation
from imagehost_server.routes.lists import Cursor, Page, Pagination, PerPage, pagination

WebhookIdPath = Annotated[str, PathParameter(description="The webhook's id.")]

DeliveryIdPath = Annotated[str, PathParameter(description="The delivery's id.")]

WebhookUrl = Annotated[str, member("An https URL at a public IP address.", format="uri", maxLength=MAX_URL)]

EventTypes = Annotated[
    list[str],
    member(
        "The events to receive; an empty list means all.",
        items={"type": "string", "enum": sorted(EVENT_TYPES)},
    ),
]


class NewWebhook(JsonBody, kw_only=True):
    """The body of `POST /webhooks`; without `events` it receives all."""

    url: WebhookUrl
    events: EventTypes = msgspec.field(default_factory=list)
    description: Description = ""


class WebhookChanges(JsonBody, kw_only=True):
    """The body of `PATCH /webhooks/{id}`; omitted members keep their values."""

    url: WebhookUrl | UnsetType = UNSET
    events: EventTypes | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    is_active: Annotated[bool, member("True enables a disabled webhook again.")] | UnsetType = UNSET


@frozen(kw_only=True)
class WebhookRecord:
    """A webhook endpoint; an empty list of events means all events.

    Attributes:
        id: Identifier.
        url: The URL that receives the events.
        events: The types of the events that are sent; an empty list means all.
        description: Up to 2,000 characters.
        is_active: Whether events are delivered.
        created_at: When it was created.
        disabled_reason: Why deliveries stopped; null while the webhook is active.
    """

    id: str
    url: str
    events: list[str]
    description: str
    is_active: bool
    created_at: datetime
    disabled_reason: str | None


@frozen(kw_only=True)
class CreatedWebhookRecord(WebhookRecord):
    """A webhook endpoint with its new secret, which is returned only once.

    Attributes:
        secret: The secret of the signatures. Returned only here.
    """

    secret: str = field(repr=False)


@frozen(kw_only=True)
class DeliveryRecord:
    """The delivery of one event to one webhook endpoint, with the result of its last attempt.

    `response_excerpt` has the first bytes of the response; `error` is the reason if there was none.

    Attributes:
        id: Identifier.
        webhook_id: The webhook.
        event_id: The id of the event, as in `webhook-id`.
        event: The type of the event.
        status: The result.
        attempts: How often the delivery was attempted.
        next_attempt_at: When the delivery is attempted next; null if it is not.
        created_at: When it was created.
        last_attempt_at: When the delivery was last attempted.
        response_status: The status of the response to the last attempt.
        response_excerpt: The first bytes of the response to the last attempt.
        duration_ms: The duration of the last attempt, in milliseconds.
        error: The reason why there was no response.
    """

    id: str
    webhook_id: str
    event_id: str
    event: str
    status: str
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    last_attempt_at: datetime | None
    response_status: int | None
    response_excerpt: str
    duration_ms: int | None
    error: str | None


def webhook_record(webhook: Webhook) -> WebhookRecord:
    """Return the record of a webhook endpoint."""
    return record_of(WebhookRecord, webhook)


def new_webhook_record(created: WebhookWithSecret) -> CreatedWebhookRecord:
    """Return the record of a webhook endpoint, with its new secret."""
    return record_of(CreatedWebhookRecord, created)


def delivery_record(delivery: WebhookDelivery) -> DeliveryRecord:
    """Return the record of a webhook delivery."""
    return record_of(DeliveryRecord, delivery)


@frozen(kw_only=True)
class WebhookList:
    """A page of an account's webhooks.

    Attributes:
        webhooks: The webhooks of the page.
        pagination: The position of the page.
    """

    webhooks: list[WebhookRecord]
    pagination: Pagination


@frozen(kw_only=True)
class DeliveryList:
    """A page of a webhook's deliveries.

    Attributes:
        deliveries: The deliveries of the page.
        pagination: The position of the page.
    """

    deliveries: list[DeliveryRecord]
    pagination: Pagination


@operation("GET /v1/webhooks", Scope.WEBHOOKS_MANAGE, summary="List your webhooks, newest first.")
async def list_webhooks(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[WebhookList]]:
    """Respond with a page of the caller's webhook endpoints."""
    webhooks = await request.call(request.host.webhooks.list, page=page, per_page=per_page, cursor=cursor)
    return ok(WebhookList(webhooks=list(map(webhook_record, webhooks)), pagination=pagination(webhooks)))


@operation("POST /v1/webhooks", Scope.WEBHOOKS_MANAGE, summary="Create a webhook.", status=201)
async def create_webhook(
    request: ApiRequest, data: JSONBody[NewWebhook]
) -> Response[Success[CreatedWebhookRecord]]:
    """Respond with 201, the record and the secret, which is returned only here and on rotation."""
    created = await request.executors.dns.run(
        request.host.webhooks.create,
        owner=request.account,
        url=data.url,
        events=cast("list[EventName]", data.events),
        description=data.description,
    )
    location = f"{request.host.urls.base_url}/webhooks/{created.id}"
    return ok(new_webhook_record(created), 201, (("location", location),))


@operation("GET /v1/webhooks/{webhook_id}", Scope.WEBHOOKS_MANAGE, summary="Get a webhook.")
async def get_webhook(request: ApiRequest, webhook_id: WebhookIdPath) -> Response[Success[WebhookRecord]]:
    """Respond with the record, without the secret."""
    webhook = await request.call(request.host.webhooks.get, webhook_id)
    return ok(webhook_record(webhook))


@operation(
    "PATCH /v1/webhooks/{webhook_id}",
    Scope.WEBHOOKS_MANAGE,
    summary="Update a webhook; omitted members keep their values.",
)
async def update_webhook(
    request: ApiRequest, webhook_id: WebhookIdPath, data: JSONBody[WebhookChanges]
) -> Response[Success[WebhookRecord]]:
    """Respond with the updated record. `is_active: true` enables a disabled endpoint again."""
    changes = set_fields(data)
    webhook = await request.executors.dns.run(
        request.host.webhooks.update,
        webhook_id,
        owner=request.account,
        **changes,  # type: ignore[arg-type]
    )
    return ok(webhook_record(webhook))


@operation("DELETE /v1/webhooks/{webhook_id}", Scope.WEBHOOKS_MANAGE, summary="Delete a webhook.")
async def delete_webhook(request: ApiRequest, webhook_id: WebhookIdPath) -> Response[Success[Deleted]]:
    """Delete an endpoint and cancel its pending deliveries."""
    return ok(await request.call(request.host.webhooks.delete, webhook_id))


@operation(
    "POST /v1/webhooks/{webhook_id}/test", Scope.WEBHOOKS_MANAGE, summary="Send a test event.", status=201
)
async def test_webhook(request: ApiRequest, webhook_id: WebhookIdPath) -> Response[Success[DeliveryRecord]]:
    """Respond with 201 and the delivery of an event of type `webhook.test`."""
    delivery = await request.call(request.host.webhooks.test, webhook_id)
    return ok(delivery_record(delivery), 201)


@operation(
    "POST /v1/webhooks/{webhook_id}/rotate-secret",
    Scope.WEBHOOKS_MANAGE,
    summary="Rotate a webhook's secret.",
)
async def rotate_secret(
    request: ApiRequest, webhook_id: WebhookIdPath
) -> Response[Success[CreatedWebhookRecord]]:
    """Respond with the record and the new secret. For 24 hours deliveries are signed with both secrets."""
    rotated = await request.call(request.host.webhooks.rotate_secret, webhook_id)
    return ok(new_webhook_record(rotated))


@operation(
    "GET /v1/webhooks/{webhook_id}/deliveries",
    Scope.WEBHOOKS_MANAGE,
    summary="List the deliveries of a webhook, newest first.",
)
async def list_deliveries(
    request: ApiRequest,
    webhook_id: WebhookIdPath,
    page: Page = None,
    per_page: PerPage = None,
    cursor: Cursor = None,
) -> Response[Success[DeliveryList]]:
    """Respond with a page of deliveries."""
    deliveries = await request.call(
        request.host.webhooks.deliveries, webhook_id, page=page, per_page=per_page, cursor=cursor
    )
    records = list(map(delivery_record, deliveries))
    return ok(DeliveryList(deliveries=records, pagination=pagination(deliveries)))


@operation(
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry",
    Scope.WEBHOOKS_MANAGE,
    summary="Retry a delivery now.",
)
async def retry_delivery(
    request: ApiRequest, webhook_id: WebhookIdPath, delivery_id: DeliveryIdPath
) -> Response[Success[DeliveryRecord]]:
    """Respond with the delivery, which is due now."""
    delivery = await request.call(request.host.webhooks.retry, webhook_id, delivery_id)
    return ok(delivery_record(delivery))
