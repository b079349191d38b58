"""Leases: which deliveries are due, and which sender has which of them.

Of each destination a few are under way at a time, however many wait, and those with the fewest come
first: one that is slow, or has a long queue, holds up no other. A lease ends by itself, so what a sender
that died had taken is due again then; sooner, where another sender takes its seat.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer, text
from imagehost_core.db.database import Queryable, Row, Transaction, Value
from imagehost_core.db.outbox import to_delivery
from imagehost_core.db.webhooks import to_secrets, to_webhook
from imagehost_core.models import Webhook, WebhookDelivery

_FREE = "state = 'pending' AND due_at <= :now AND (leased_until IS NULL OR leased_until <= :now)"
_WAITING = f"""
WITH RECURSIVE destinations (id) AS (
    SELECT min(webhook_id) FROM deliveries WHERE state = 'pending'
    UNION ALL
    SELECT (SELECT min(webhook_id) FROM deliveries WHERE state = 'pending' AND webhook_id > destinations.id)
    FROM destinations WHERE destinations.id IS NOT NULL
), queues AS (
    SELECT id,
        (SELECT count(*) FROM deliveries WHERE webhook_id = destinations.id AND leased_until > :now) AS busy,
        (SELECT due_at FROM deliveries WHERE webhook_id = destinations.id AND {_FREE}
            ORDER BY due_at LIMIT 1) AS first
    FROM destinations WHERE id IS NOT NULL
)
SELECT id, busy FROM queues WHERE first IS NOT NULL AND busy < :each ORDER BY busy, first LIMIT :count
"""  # noqa: S608 - all of it is ours
"""The destinations that something can be sent to. The first part leaps from one to the next in the index,
so the length of their queues costs nothing."""
_DUE = f"""
SELECT id, due_at FROM deliveries WHERE webhook_id = :webhook AND {_FREE} ORDER BY due_at, id LIMIT :free
"""  # noqa: S608 - all of it is ours
_WHOLE = """
SELECT item.*, events.body AS body FROM deliveries AS item JOIN events ON events.id = item.event_id
WHERE item.id = :id
"""


@frozen
class LeasedDelivery:
    """A delivery whose time has come, leased to one sender.

    Attributes:
        delivery: What is known of it.
        webhook: Where it goes.
        secrets: What it is signed with, the newest secret first.
        body: What is sent; the same bytes at each attempt.
        until: When the lease ends.
    """

    delivery: WebhookDelivery
    webhook: Webhook
    secrets: tuple[str, ...] = field(repr=False)
    body: bytes = field(repr=False)
    until: datetime


def is_any_due(reader: Queryable, now: datetime, max_per_endpoint: int) -> bool:
    """Return whether there is anything to take; asks without waiting for those who write."""
    return bool(reader.fetch_all(_WAITING, {"now": to_micros(now), "each": max_per_endpoint, "count": 1}))


def lease_due(
    transaction: Transaction,
    now: datetime,
    until: datetime,
    count: int,
    max_per_endpoint: int,
    sender_slot: int | None,
) -> list[LeasedDelivery]:
    """Take deliveries that are due; nobody else gets them before the lease ends.

    Args:
        transaction: In which the leases are recorded.
        now: The present moment.
        until: When the leases end.
        count: How many at most.
        max_per_endpoint: How many of one destination may be leased at a time.
        sender_slot: That of the sender, if it has one.
    """
    at = to_micros(now)
    turns: list[tuple[int, int, str]] = []
    for queue in transaction.fetch_all(_WAITING, {"now": at, "each": max_per_endpoint, "count": count}):
        busy = integer(queue, "busy")
        rows = transaction.fetch_all(
            _DUE, {"now": at, "webhook": queue["id"], "free": max_per_endpoint - busy}
        )
        turns += [(busy + place, integer(row, "due_at"), text(row, "id")) for place, row in enumerate(rows)]
    taken, destinations = [id_ for _, _, id_ in sorted(turns)[:count]], dict[str, Row]()
    for id_ in taken:
        sql = "UPDATE deliveries SET leased_until = :until, leased_by = :seat WHERE id = :id"
        transaction.execute(sql, {"id": id_, "until": to_micros(until), "seat": sender_slot})
    return [_read(transaction, id_, now, until, destinations) for id_ in taken]


def release_all_of(transaction: Transaction, sender_slot: int) -> None:
    """Give back all that is leased to a seat, whose last holder is gone."""
    sql = "UPDATE deliveries SET leased_until = NULL WHERE leased_until IS NOT NULL AND leased_by = :seat"
    transaction.execute(sql, {"seat": sender_slot})


def is_held(transaction: Transaction, due: LeasedDelivery) -> bool:
    """Return whether a lease still stands: it has not ended, and nobody has made an end of it."""
    return (
        transaction.fetch_one("SELECT id FROM deliveries WHERE id = :id AND leased_until = :until", _key(due))
        is not None
    )


def release(transaction: Transaction, dues: Iterable[LeasedDelivery]) -> None:
    """Give leases back, as if they had not been taken; those that stand no more are left alone."""
    for due in dues:
        sql = "UPDATE deliveries SET leased_until = NULL WHERE id = :id AND leased_until = :until"
        transaction.execute(sql, _key(due))


def _read(
    transaction: Transaction, delivery_id: str, now: datetime, until: datetime, destinations: dict[str, Row]
) -> LeasedDelivery:
    row = transaction.fetch_one(_WHOLE, {"id": delivery_id})
    # It goes with its event, and with its destination (ON DELETE CASCADE).
    assert row is not None
    webhook_id, body = text(row, "webhook_id"), row["body"]
    assert isinstance(body, bytes)
    if webhook_id not in destinations:
        found = transaction.fetch_one("SELECT * FROM webhooks WHERE id = :id", {"id": webhook_id})
        assert found is not None
        destinations[webhook_id] = found
    webhook = destinations[webhook_id]
    return LeasedDelivery(to_delivery(row), to_webhook(webhook), to_secrets(webhook, now), body, until)


def _key(due: LeasedDelivery) -> dict[str, Value]:
    return {"id": due.delivery.id, "until": to_micros(due.until)}
