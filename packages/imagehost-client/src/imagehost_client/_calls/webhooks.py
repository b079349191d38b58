"""The operations on webhooks: the destinations of events, and deliveries to them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from imagehost_client._calls._call import (
    UNSET,
    Call,
    Unset,
    drop_none,
    drop_unset,
    paged,
    path_segment,
    query_pairs,
    single,
    string_list,
)
from imagehost_client._calls._refs import DeliveryRef, WebhookRef, id_of
from imagehost_client.models import Deleted, NewWebhook, Page, Webhook, WebhookDelivery


def list_webhooks(*, page: int | None = None, per_page: int | None = None) -> Call[Page[Webhook]]:
    """List the destinations of events.

    Args:
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    return paged("/webhooks", "webhooks", Webhook, query_pairs(page=page, per_page=per_page))


def create_webhook(
    url: str,
    *,
    events: Sequence[str] | None = None,
    description: str | None = None,
) -> Call[NewWebhook]:
    """Add a destination of events; its signing secret is in this answer and never shown again.

    Args:
        url: An https address that takes POST requests.
        events: The kinds of events, such as `image.uploaded`; all by default.
        description: What the destination is.
    """
    body = {"url": url, **drop_none(events=string_list(events), description=description)}
    return evolve(single("POST", NewWebhook, "webhooks", body=body), idempotent=False)


def get_webhook(webhook: WebhookRef) -> Call[Webhook]:
    """Return one destination, without its secret.

    Args:
        webhook: The destination, or its id.
    """
    return single("GET", Webhook, "webhooks", id_of(webhook))


def update_webhook(
    webhook: WebhookRef,
    *,
    url: str | Unset = UNSET,
    events: Sequence[str] | Unset = UNSET,
    description: str | Unset = UNSET,
    is_active: bool | Unset = UNSET,
) -> Call[Webhook]:
    """Change a destination; what is left out stays as it is.

    Args:
        webhook: The destination, or its id.
        url: An https address that takes POST requests.
        events: The kinds of events; none stand for all.
        description: What the destination is.
        is_active: Whether events are sent there; `True` takes up again one that the host disabled.
    """
    chosen = events if events is UNSET else string_list(events)
    body = drop_unset(url=url, events=chosen, description=description, is_active=is_active)
    return single("PATCH", Webhook, "webhooks", id_of(webhook), body=body)


def delete_webhook(webhook: WebhookRef) -> Call[Deleted]:
    """Remove a destination; nothing is sent there any more.

    Args:
        webhook: The destination, or its id.
    """
    number = id_of(webhook)
    return evolve(single("DELETE", Deleted, "webhooks", number), on_not_found=Deleted(id=number))


def test_webhook(webhook: WebhookRef) -> Call[WebhookDelivery]:
    """Send a test event to a destination; what came of it is among its deliveries a moment later.

    Args:
        webhook: The destination, or its id.
    """
    return evolve(single("POST", WebhookDelivery, "webhooks", id_of(webhook), "test"), idempotent=False)


def rotate_webhook_secret(webhook: WebhookRef) -> Call[NewWebhook]:
    """Give a destination a new signing secret, which is in this answer and never shown again.

    For 24 hours the host signs with the old one as well.

    Args:
        webhook: The destination, or its id.
    """
    return evolve(single("POST", NewWebhook, "webhooks", id_of(webhook), "rotate-secret"), idempotent=False)


def list_deliveries(
    webhook: WebhookRef, *, page: int | None = None, per_page: int | None = None
) -> Call[Page[WebhookDelivery]]:
    """List what was sent, or is to be sent, to a destination; newest first.

    Args:
        webhook: The destination, or its id.
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    path = f"/webhooks/{path_segment(id_of(webhook))}/deliveries"
    return paged(path, "deliveries", WebhookDelivery, query_pairs(page=page, per_page=per_page))


def retry_delivery(webhook: WebhookRef, delivery: DeliveryRef) -> Call[WebhookDelivery]:
    """Send a delivery again, now, whatever came of it before.

    Args:
        webhook: The destination, or its id.
        delivery: The delivery, or its id.
    """
    call = single("POST", WebhookDelivery, "webhooks", id_of(webhook), "deliveries", id_of(delivery), "retry")
    return evolve(call, idempotent=False)
