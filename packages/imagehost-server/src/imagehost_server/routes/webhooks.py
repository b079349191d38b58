"""Webhook routes: endpoints, their secrets, and deliveries."""

from __future__ import annotations

from litestar import Response
from litestar.params import JSONBody

from imagehost_core.errors import ErrorCollector
from imagehost_core.lists import parse_page_request
from imagehost_server.api.body import set_fields
from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.pagination import DeliveryList, WebhookList, pagination
from imagehost_server.api.parameters import Cursor, DeliveryIdPath, Page, PerPage, WebhookIdPath
from imagehost_server.api.representations import (
    Deleted,
    DeliveryRecord,
    NewWebhookRecord,
    WebhookRecord,
    delivery_record,
    new_webhook_record,
    webhook_record,
)
from imagehost_server.api.request import ApiRequest
from imagehost_server.api.schemas import NewWebhook, WebhookChanges


@operation("GET /v1/webhooks", summary="List your webhooks, newest first.")
async def list_webhooks(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[WebhookList]]:
    """Respond with a page of the caller's webhook endpoints."""
    webhooks = await request.executors.database.run(
        request.host.webhooks.list, owner=request.account, page=parse_page_request(page, per_page, cursor)
    )
    return ok(WebhookList(webhooks=list(map(webhook_record, webhooks)), pagination=pagination(webhooks)))


@operation("POST /v1/webhooks", summary="Create a webhook.", status=201)
async def create_webhook(
    request: ApiRequest, data: JSONBody[NewWebhook]
) -> Response[Success[NewWebhookRecord]]:
    """Respond with 201, the record and the secret, which is returned only here and on rotation."""
    created = await request.executors.dns.run(
        request.host.webhooks.create,
        owner=request.account,
        url=data.url,
        events=data.events,
        description=data.description,
    )
    location = f"{request.host.urls.base_url}/webhooks/{created.webhook.id}"
    return ok(new_webhook_record(created), 201, (("location", location),))


@operation("GET /v1/webhooks/{webhook_id}", summary="Get a webhook.")
async def get_webhook(request: ApiRequest, webhook_id: WebhookIdPath) -> Response[Success[WebhookRecord]]:
    """Respond with the record, without the secret."""
    webhook = await request.executors.database.run(
        request.host.webhooks.get, webhook_id, owner=request.account
    )
    return ok(webhook_record(webhook))


@operation(
    "PATCH /v1/webhooks/{webhook_id}",
    summary="Update a webhook; omitted members keep their values.",
)
async def update_webhook(
    request: ApiRequest, webhook_id: WebhookIdPath, data: JSONBody[WebhookChanges]
) -> Response[Success[WebhookRecord]]:
    """Respond with the updated record. `is_active: true` enables a disabled endpoint again."""
    changes = set_fields(data)
    webhook = await request.executors.dns.run(
        request.host.webhooks.update, webhook_id, owner=request.account, **changes
    )
    return ok(webhook_record(webhook))


@operation("DELETE /v1/webhooks/{webhook_id}", summary="Delete a webhook.")
async def delete_webhook(request: ApiRequest, webhook_id: WebhookIdPath) -> Response[Success[Deleted]]:
    """Delete an endpoint and cancel its pending deliveries."""
    await request.executors.database.run(request.host.webhooks.delete, webhook_id, owner=request.account)
    return ok(Deleted(id=webhook_id, deleted=True))


@operation("POST /v1/webhooks/{webhook_id}/test", summary="Send a test event.", status=201)
async def test_webhook(request: ApiRequest, webhook_id: WebhookIdPath) -> Response[Success[DeliveryRecord]]:
    """Respond with 201 and the delivery of an event of type `webhook.test`."""
    delivery = await request.executors.database.run(
        request.host.webhooks.test, webhook_id, owner=request.account
    )
    return ok(delivery_record(delivery), 201)


@operation("POST /v1/webhooks/{webhook_id}/rotate-secret", summary="Rotate a webhook's secret.")
async def rotate_secret(
    request: ApiRequest, webhook_id: WebhookIdPath
) -> Response[Success[NewWebhookRecord]]:
    """Respond with the record and the new secret. For 24 hours deliveries are signed with both secrets."""
    rotated = await request.executors.database.run(
        request.host.webhooks.rotate_secret, webhook_id, owner=request.account
    )
    return ok(new_webhook_record(rotated))


@operation(
    "GET /v1/webhooks/{webhook_id}/deliveries",
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
    errors = ErrorCollector()
    with errors.catch():
        page_request = parse_page_request(page, per_page, cursor)
    with errors.catch():
        await request.executors.database.run(request.host.webhooks.get, webhook_id, owner=request.account)
    errors.raise_if_any()
    deliveries = await request.executors.database.run(
        request.host.webhooks.deliveries, webhook_id, owner=request.account, page=page_request
    )
    records = list(map(delivery_record, deliveries))
    return ok(DeliveryList(deliveries=records, pagination=pagination(deliveries)))


@operation("POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry", summary="Retry a delivery now.")
async def retry_delivery(
    request: ApiRequest, webhook_id: WebhookIdPath, delivery_id: DeliveryIdPath
) -> Response[Success[DeliveryRecord]]:
    """Respond with the delivery, which is due now."""
    delivery = await request.executors.database.run(
        request.host.webhooks.retry, webhook_id, delivery_id, owner=request.account
    )
    return ok(delivery_record(delivery))


ROUTES = (
    list_webhooks,
    create_webhook,
    get_webhook,
    update_webhook,
    delete_webhook,
    test_webhook,
    rotate_secret,
    list_deliveries,
    retry_delivery,
)
