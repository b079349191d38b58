"""The operations on webhooks: the destinations of events, and deliveries to them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from imagehost_client._calls._call import (
    UNSET,
    Call,
    Unset,
    given,
    listing,
    one,
    query_pairs,
    segment,
    sent,
    texts,
)
from imagehost_client._calls._refs import DeliveryRef, WebhookRef, record_id
from imagehost_client.models import Deleted, Delivery, NewWebhook, Page, Webhook


def list_webhooks(*, page: int | None = None, per_page: int | None = None) -> Call[Page[Webhook]]:
    """List the destinations of events.

    Args:
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    return listing("/webhooks", "webhooks", Webhook, query_pairs(page=page, per_page=per_page))


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
    body = {"url": url, **sent(events=texts(events), description=description)}
    return evolve(one("POST", NewWebhook, "webhooks", body=body), repeatable=False)


def get_webhook(webhook: WebhookRef) -> Call[Webhook]:
    """Return one destination, without its secret.

    Args:
        webhook: The destination, or its id.
    """
    return one("GET", Webhook, "webhooks", record_id(webhook))


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
    chosen = events if events is UNSET else texts(events)
    body = given(url=url, events=chosen, description=description, is_active=is_active)
    return one("PATCH", Webhook, "webhooks", record_id(webhook), body=body)


def delete_webhook(webhook: WebhookRef) -> Call[Deleted]:
    """Remove a destination; nothing is sent there any more.

    Args:
        webhook: The destination, or its id.
    """
    number = record_id(webhook)
    return evolve(one("DELETE", Deleted, "webhooks", number), gone=Deleted(id=number))


def test_webhook(webhook: WebhookRef) -> Call[Delivery]:
    """Send a test event to a destination; what came of it is among its deliveries a moment later.

    Args:
        webhook: The destination, or its id.
    """
    return evolve(one("POST", Delivery, "webhooks", record_id(webhook), "test"), repeatable=False)


def rotate_webhook_secret(webhook: WebhookRef) -> Call[NewWebhook]:
    """Give a destination a new signing secret, which is in this answer and never shown again.

    For 24 hours the host signs with the old one as well.

    Args:
        webhook: The destination, or its id.
    """
    return evolve(one("POST", NewWebhook, "webhooks", record_id(webhook), "rotate-secret"), repeatable=False)


def list_deliveries(
    webhook: WebhookRef, *, page: int | None = None, per_page: int | None = None
) -> Call[Page[Delivery]]:
    """List what was sent, or is to be sent, to a destination; newest first.

    Args:
        webhook: The destination, or its id.
        page: The page to begin at, from 1.
        per_page: Records a request, 1–100; 20 by default.
    """
    path = f"/webhooks/{segment(record_id(webhook))}/deliveries"
    return listing(path, "deliveries", Delivery, query_pairs(page=page, per_page=per_page))


def retry_delivery(webhook: WebhookRef, delivery: DeliveryRef) -> Call[Delivery]:
    """Send a delivery again, now, whatever came of it before.

    Args:
        webhook: The destination, or its id.
        delivery: The delivery, or its id.
    """
    call = one("POST", Delivery, "webhooks", record_id(webhook), "deliveries", record_id(delivery), "retry")
    return evolve(call, repeatable=False)
