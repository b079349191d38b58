"""Operations on webhooks and their deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Unpack

from imagehost_client._calls.arguments import checked, id_of
from imagehost_client._calls.call import (
    Call,
    drop_none,
    drop_unset,
    paged,
    path_segment,
    single,
    string_list,
)
from imagehost_client._types import UNSET, DeliveryRef, PageOptions, Unset, WebhookRef
from imagehost_client.errors import BadRequestError
from imagehost_client.models import (
    Deleted,
    EventKind,
    EventName,
    Page,
    Webhook,
    WebhookDelivery,
    WebhookWithSecret,
)


@partial(checked, error=BadRequestError)
def list_webhooks(**paging: Unpack[PageOptions]) -> Call[Page[Webhook]]:
    """List your webhooks, newest first.

    Args:
        **paging: `page` (the first page, from 1), `per_page` (1–100; 20 by default), and `cursor` (the
            `next_cursor` of a page, to continue after it; not together with `page`).
    """
    return paged("/webhooks", "webhooks", Webhook, **paging)


@checked
def create_webhook(
    url: str,
    *,
    events: Sequence[EventKind | EventName] | None = None,
    description: str | None = None,
) -> Call[WebhookWithSecret]:
    """Create a webhook; only this result contains its signing secret.

    Args:
        url: The endpoint: an https URL that accepts POST requests.
        events: The kinds of events, such as `image.uploaded`; all by default.
        description: At most 2,000 characters.
    """
    body = {"url": url, **drop_none(events=string_list(events), description=description)}
    return single("POST", WebhookWithSecret, "webhooks", body=body, idempotent=False)


@checked
def get_webhook(webhook: WebhookRef) -> Call[Webhook]:
    """Return a webhook, without its secret.

    Args:
        webhook: The webhook, or its id.
    """
    return single("GET", Webhook, "webhooks", id_of(webhook))


@checked
def update_webhook(
    webhook: WebhookRef,
    *,
    url: str | Unset = UNSET,
    events: Sequence[EventKind | EventName] | Unset = UNSET,
    description: str | Unset = UNSET,
    is_active: bool | Unset = UNSET,
) -> Call[Webhook]:
    """Change a webhook; omitted arguments leave their values unchanged.

    Args:
        webhook: The webhook, or its id.
        url: The endpoint: an https URL that accepts POST requests.
        events: The kinds of events; an empty list means all.
        description: At most 2,000 characters.
        is_active: Whether to send events; `True` also re-enables a webhook that the host has disabled.
    """
    kinds = events if events is UNSET else string_list(events)
    body = drop_unset(url=url, events=kinds, description=description, is_active=is_active)
    return single("PATCH", Webhook, "webhooks", id_of(webhook), body=body)


@checked
def delete_webhook(webhook: WebhookRef) -> Call[Deleted]:
    """Delete a webhook with its deliveries.

    Args:
        webhook: The webhook, or its id.
    """
    webhook_id = id_of(webhook)
    return single("DELETE", Deleted, "webhooks", webhook_id, on_not_found=Deleted(id=webhook_id))


@checked
def test_webhook(webhook: WebhookRef) -> Call[WebhookDelivery]:
    """Send a test event to a webhook; the outcome appears in its deliveries.

    Args:
        webhook: The webhook, or its id.
    """
    return single("POST", WebhookDelivery, "webhooks", id_of(webhook), "test", idempotent=False)


@checked
def rotate_webhook_secret(webhook: WebhookRef) -> Call[WebhookWithSecret]:
    """Replace a webhook's signing secret; only this result contains the new one.

    For 24 hours the host also signs with the previous secret.

    Args:
        webhook: The webhook, or its id.
    """
    path = ("webhooks", id_of(webhook), "rotate-secret")
    return single("POST", WebhookWithSecret, *path, idempotent=False)


@partial(checked, error=BadRequestError)
def list_deliveries(webhook: WebhookRef, **paging: Unpack[PageOptions]) -> Call[Page[WebhookDelivery]]:
    """List the deliveries of a webhook, newest first.

    Args:
        webhook: The webhook, or its id.
        **paging: `page` (the first page, from 1), `per_page` (1–100; 20 by default), and `cursor` (the
            `next_cursor` of a page, to continue after it; not together with `page`).
    """
    path = f"/webhooks/{path_segment(id_of(webhook))}/deliveries"
    return paged(path, "deliveries", WebhookDelivery, **paging)


@checked
def retry_delivery(webhook: WebhookRef, delivery: DeliveryRef) -> Call[WebhookDelivery]:
    """Send a delivery again at once, whatever its status.

    Args:
        webhook: The webhook, or its id.
        delivery: The delivery, or its id.
    """
    path = ("webhooks", id_of(webhook), "deliveries", id_of(delivery), "retry")
    return single("POST", WebhookDelivery, *path, idempotent=False)
