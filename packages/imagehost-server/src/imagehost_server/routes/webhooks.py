"""Webhook destinations, and the deliveries to them."""

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
    """Answer a page of the caller's destinations."""
    found = await request.executors.database.run(
        request.host.webhooks.list, owner=request.account, page=request.page_request()
    )
    return ok(page_response("webhooks", found, webhook_record))


@operation(
    "POST /v1/webhooks", summary="Make a webhook.", body=NewWebhook, response=NewWebhookRecord, status=201
)
async def create_webhook(request: ApiRequest) -> Response[bytes]:
    """Answer 201 with the record and, this once, the secret."""
    wanted = await request.json_body(NewWebhook)
    made = await request.executors.dns.run(
        request.host.webhooks.create,
        owner=request.account,
        url=wanted.url,
        events=wanted.events,
        description=wanted.description,
    )
    location = f"{request.host.urls.base_url}/webhooks/{made.webhook.id}"
    return ok(new_webhook_record(made), 201, (("location", location),))


@operation("GET /v1/webhooks/{webhook_id}", summary="Show a webhook.", response=WebhookRecord)
async def get_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Answer the record, without the secret."""
    found = await request.executors.database.run(request.host.webhooks.get, webhook_id, owner=request.account)
    return ok(webhook_record(found))


@operation(
    "PATCH /v1/webhooks/{webhook_id}",
    summary="Change a webhook.",
    body=WebhookChanges,
    response=WebhookRecord,
)
async def update_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Answer the record as it is now. `is_active: true` sends again to one that was disabled."""
    changes = set_fields(await request.json_body(WebhookChanges))
    changed = await request.executors.dns.run(
        request.host.webhooks.update, webhook_id, owner=request.account, **changes
    )
    return ok(webhook_record(changed))


@operation("DELETE /v1/webhooks/{webhook_id}", summary="Delete a webhook.", response=Deleted)
async def delete_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Delete a destination, and all that was still to be sent to it."""
    await request.executors.database.run(request.host.webhooks.delete, webhook_id, owner=request.account)
    return ok(Deleted(id=webhook_id))


@operation(
    "POST /v1/webhooks/{webhook_id}/test", summary="Send a test event.", response=DeliveryRecord, status=201
)
async def test_webhook(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Answer 201 with the delivery of an event of the kind `webhook.test`."""
    made = await request.executors.database.run(request.host.webhooks.test, webhook_id, owner=request.account)
    return ok(delivery_record(made), 201)


@operation(
    "POST /v1/webhooks/{webhook_id}/rotate-secret",
    summary="Give a webhook a new secret.",
    response=NewWebhookRecord,
)
async def rotate_secret(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Answer the record and, this once, the new secret. For 24 hours the old one signs beside it."""
    made = await request.executors.database.run(
        request.host.webhooks.rotate_secret, webhook_id, owner=request.account
    )
    return ok(new_webhook_record(made))


@operation(
    "GET /v1/webhooks/{webhook_id}/deliveries",
    summary="List what was sent to a webhook, newest first.",
    query=PAGING,
    response={"deliveries": list[DeliveryRecord], "pagination": Pagination},
)
async def list_deliveries(request: ApiRequest, webhook_id: FromPath[str]) -> Response[bytes]:
    """Answer a page of deliveries."""
    found = await request.executors.database.run(
        request.host.webhooks.deliveries, webhook_id, owner=request.account, page=request.page_request()
    )
    return ok(page_response("deliveries", found, delivery_record))


@operation(
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry",
    summary="Send a delivery once more, now.",
    response=DeliveryRecord,
)
async def retry_delivery(
    request: ApiRequest, webhook_id: FromPath[str], delivery_id: FromPath[str]
) -> Response[bytes]:
    """Answer the delivery, which is due again."""
    again = await request.executors.database.run(
        request.host.webhooks.retry, webhook_id, delivery_id, owner=request.account
    )
    return ok(delivery_record(again))


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
