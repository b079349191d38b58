"""Webhook routes: endpoints, their secrets, and deliveries."""

from __future__ import annotations

from litestar import Response
from litestar.params import FromPath

from imagehost_server.api.operation import PAGING, operation
from imagehost_server.api.pagination import Pagination, page_response
from imagehost_server.api.representations import (
    Deleted,
    DeliveryRecord,
    NewWebhookRecord,
    WebhookRecord,
    delivery_record,
    new_webhook_record,
    webhook_record,
)
from imagehost_server.api.request import ApiRequest, ok
from imagehost_server.api.schemas import NewWebhook, WebhookChanges, set_fields


@operation(
    "GET /v1/webhooks",
    summary="List your webhooks, newest first.",
    query=PAGING,
    response={"webhooks": list[WebhookRecord], "pagination": Pagination},
)
async def list_webhooks(request: ApiRequest) -> Response[bytes]:
    """Respond with a page of the caller's webhook endpoints."""
    page = await request.executors.database.run(
        request.host.webhooks.list, owner=request.account, page=request.page_request()
    )
    return ok(page_response("webhooks", page, webhook_record))


@operation(
    "POST /v1/webhooks", summary="Create a webhook.", body=NewWebhook, response=NewWebhookRecord, status=201
)
async def create_webhook(request: ApiRequest) -> Response[bytes]:
    """Respond with 201, the record and the secret, which is returned only here and on rotation."""
    body = await request.json_body(NewWebhook)
    created = await request.executors.dns.run(
        request.host.webhooks.create,
        owner=request.account,
        url=body.url,
        events=body.events,
        description=body.description,
    )
    location = f"{request.host.urls.base_url}/webhooks/{created.webhook.id}"
    return ok(new_webhook_record(created), 201, (("location", location),))


@operation("GET /v1/webhooks/{webhook_id}", summary="Get a webhook.", response=WebhookRecord)
async def get_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Respond with the record, without the secret."""
    webhook = await request.executors.database.run(
        request.host.webhooks.get, webhook_id, owner=request.account
    )
    return ok(webhook_record(webhook))


@operation(
    "PATCH /v1/webhooks/{webhook_id}",
    summary="Update a webhook; omitted members keep their values.",
    body=WebhookChanges,
    response=WebhookRecord,
)
async def update_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Respond with the updated record. `is_active: true` enables a disabled endpoint again."""
    changes = set_fields(await request.json_body(WebhookChanges))
    webhook = await request.executors.dns.run(
        request.host.webhooks.update, webhook_id, owner=request.account, **changes
    )
    return ok(webhook_record(webhook))


@operation("DELETE /v1/webhooks/{webhook_id}", summary="Delete a webhook.", response=Deleted)
async def delete_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Delete an endpoint and cancel its pending deliveries."""
    await request.executors.database.run(request.host.webhooks.delete, webhook_id, owner=request.account)
    return ok(Deleted(id=webhook_id))


@operation(
    "POST /v1/webhooks/{webhook_id}/test", summary="Send a test event.", response=DeliveryRecord, status=201
)
async def test_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Respond with 201 and the delivery of an event of type `webhook.test`."""
    delivery = await request.executors.database.run(
        request.host.webhooks.test, webhook_id, owner=request.account
    )
    return ok(delivery_record(delivery), 201)


@operation(
    "POST /v1/webhooks/{webhook_id}/rotate-secret",
    summary="Rotate a webhook's secret.",
    response=NewWebhookRecord,
)
async def rotate_secret(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Respond with the record and the new secret. For 24 hours deliveries are signed with both secrets."""
    rotated = await request.executors.database.run(
        request.host.webhooks.rotate_secret, webhook_id, owner=request.account
    )
    return ok(new_webhook_record(rotated))


@operation(
    "GET /v1/webhooks/{webhook_id}/deliveries",
    summary="List the deliveries of a webhook, newest first.",
    query=PAGING,
    response={"deliveries": list[DeliveryRecord], "pagination": Pagination},
)
async def list_deliveries(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Respond with a page of deliveries."""
    page = await request.executors.database.run(
        request.host.webhooks.deliveries, webhook_id, owner=request.account, page=request.page_request()
    )
    return ok(page_response("deliveries", page, delivery_record))


@operation(
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry",
    summary="Retry a delivery now.",
    response=DeliveryRecord,
)
async def retry_delivery(
    request: ApiRequest, webhook_id: FromPath[str], delivery_id: FromPath[str]
) -> Response[bytes]:
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
