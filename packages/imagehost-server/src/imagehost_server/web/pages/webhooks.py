"""The pages `/settings/webhooks` and `/settings/webhooks/{id}`: endpoints and their deliveries."""

from __future__ import annotations

from typing import Any, cast

from litestar import Response
from litestar.params import FromPath

from imagehost_core.errors import ImageHostError, ValidationError
from imagehost_core.events import EVENT_TYPES
from imagehost_core.models import EventName, WebhookWithSecret
from imagehost_core.uploads import BOOLEANS
from imagehost_server.routes.webhooks import delivery_record
from imagehost_server.web.forms import read_choice
from imagehost_server.web.page import page
from imagehost_server.web.redirects import see_other
from imagehost_server.web.request import WebRequest

MAX_LISTED = 100
"""The most webhooks of an account."""
DELIVERIES_PER_PAGE = 50
PATH = "/settings/webhooks"


@page(PATH, sign_in=True)
async def webhooks(request: WebRequest) -> Response[Any]:
    """Show the webhooks of the account."""
    return await _show_all(request)


@page(PATH, method="POST", sign_in=True)
async def create_webhook(request: WebRequest) -> Response[Any]:
    """Create a webhook, and show its secret once."""
    form = request.field_lists
    try:
        created = await request.executors.dns.run(
            lambda: request.host.webhooks.create(
                owner=request.account,
                url=form.get("url", [""])[0].strip(),
                events=cast("list[EventName]", form.get("events", [])),
                description=form.get("description", [""])[0],
            )
        )
    except ValidationError as error:
        return await _show_all(request, failure=error)
    return await _show(request, created.id, created=created)


@page(f"{PATH}/{{webhook_id:str}}", sign_in=True)
async def webhook(request: WebRequest, webhook_id: FromPath[str]) -> Response[Any]:
    """Show a webhook with its deliveries."""
    return await _show(request, webhook_id)


@page(f"{PATH}/{{webhook_id:str}}", method="POST", sign_in=True)
async def update_webhook(request: WebRequest, webhook_id: FromPath[str]) -> Response[Any]:
    """Change a webhook, and show it."""
    form = request.field_lists
    changes: dict[str, Any] = {"events": form.get("events", [])}
    changes |= {name: form[name][0].strip() for name in ("url", "description") if name in form}
    if "is_active" in form:
        changes["is_active"] = read_choice(request.fields, "is_active", BOOLEANS)
    try:
        await request.executors.dns.run(
            lambda: request.host.webhooks.update(webhook_id, owner=request.account, **changes)
        )
    except ValidationError as error:
        return await _show(request, webhook_id, failure=error)
    return see_other(request, f"{PATH}/{webhook_id}", "saved")


@page(f"{PATH}/{{webhook_id:str}}/test", method="POST", sign_in=True)
async def test_webhook(request: WebRequest, webhook_id: FromPath[str]) -> Response[Any]:
    """Send a webhook a test event."""
    await request.call(request.host.webhooks.test, webhook_id)
    return see_other(request, f"{PATH}/{webhook_id}", "event_sent")


@page(f"{PATH}/{{webhook_id:str}}/rotate-secret", method="POST", sign_in=True)
async def rotate_secret(request: WebRequest, webhook_id: FromPath[str]) -> Response[Any]:
    """Replace the secret of a webhook, and show the new one once."""
    created = await request.call(request.host.webhooks.rotate_secret, webhook_id)
    return await _show(request, webhook_id, created=created)


@page(f"{PATH}/{{webhook_id:str}}/delete", method="POST", sign_in=True)
async def delete_webhook(request: WebRequest, webhook_id: FromPath[str]) -> Response[Any]:
    """Delete a webhook with its deliveries."""
    await request.call(request.host.webhooks.delete, webhook_id)
    return see_other(request, PATH, "deleted")


@page(f"{PATH}/{{webhook_id:str}}/deliveries/{{delivery_id:str}}/retry", method="POST", sign_in=True)
async def retry_delivery(
    request: WebRequest, webhook_id: FromPath[str], delivery_id: FromPath[str]
) -> Response[Any]:
    """Make a delivery due now."""
    await request.call(request.host.webhooks.retry, webhook_id, delivery_id)
    return see_other(request, f"{PATH}/{webhook_id}", "event_sent")


async def _show_all(request: WebRequest, *, failure: ImageHostError | None = None) -> Response[Any]:
    listed = await request.call(request.host.webhooks.list, per_page=MAX_LISTED)
    return request.render(
        "webhooks.html",
        events=list(EVENT_TYPES),
        failure=failure,
        webhooks=listed.items,
    )


async def _show(
    request: WebRequest,
    webhook_id: str,
    *,
    failure: ImageHostError | None = None,
    created: WebhookWithSecret | None = None,
) -> Response[Any]:
    cursor = request.query_params.get("cursor")
    shown = await request.call(request.host.webhooks.get, webhook_id)
    deliveries = await request.call(
        request.host.webhooks.deliveries, shown, per_page=DELIVERIES_PER_PAGE, cursor=cursor
    )
    return request.render(
        "webhook.html",
        created=created,
        cursor=cursor,
        deliveries=[delivery_record(delivery) for delivery in deliveries],
        events=list(EVENT_TYPES),
        failure=failure,
        next_cursor=deliveries.next_cursor,
        webhook=shown,
    )
