"""Leases on webhook deliveries: a sender takes due deliveries for a limited time.

At most a few deliveries to one webhook are leased at a time, and webhooks with the fewest leases come
first, so a slow endpoint or a long queue delays no other webhook. A lease expires, so the deliveries of a
sender that died become due again; at once, if another sender takes over its slot. Whether one has expired is
decided by one clock: in PostgreSQL by the server's, as the clock of a host may be wrong. Whether a delivery
is due is decided by `now`, the host's reading of that clock: one that it has just recorded is due at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer, text, timestamp
from imagehost_core.db.database import Queryable, SqlRow, SqlValue, Transaction
from imagehost_core.db.outbox import to_delivery
from imagehost_core.db.webhooks import IS_SENDING, WITH_PENDING, to_secrets, to_webhook
from imagehost_core.models import Webhook, WebhookDelivery

_IS_DUE = """
state = 'pending' AND next_attempt_at <= :now AND (lease_expires_at IS NULL OR lease_expires_at <= {clock})
"""
_WEBHOOKS_WITH_DUE = f"""
WITH RECURSIVE {WITH_PENDING}, queues AS (
    SELECT pending.webhook_id AS id,
        (SELECT count(*) FROM webhook_deliveries
            WHERE webhook_id = pending.webhook_id AND lease_expires_at > {{clock}}) AS leased,
        (SELECT next_attempt_at FROM webhook_deliveries
            WHERE webhook_id = pending.webhook_id AND {_IS_DUE}
            ORDER BY next_attempt_at LIMIT 1) AS first_due
    FROM pending WHERE pending.webhook_id IS NOT NULL AND {IS_SENDING}
)
SELECT id, leased FROM queues WHERE first_due IS NOT NULL AND leased < :max_per_webhook
ORDER BY leased, first_due LIMIT :count
"""  # noqa: S608 - constants only
_DUE_DELIVERIES = f"""
SELECT id, next_attempt_at FROM webhook_deliveries AS item WHERE webhook_id = :webhook AND {_IS_DUE}
ORDER BY next_attempt_at, id LIMIT :count {{lock}}
"""  # noqa: S608 - constants only
_LEASE = """
UPDATE webhook_deliveries SET lease_expires_at = {clock} + :duration, leased_by = :slot WHERE id = :id
RETURNING lease_expires_at
"""
_DELIVERY_WITH_BODY = """
SELECT item.*, events.id AS event_id, events.type AS type, events.body AS body
FROM webhook_deliveries AS item JOIN events ON events.number = item.event_number
WHERE item.id = :id
"""


@frozen
class LeasedDelivery:
    """A due delivery, leased to one sender.

    Attributes:
        delivery: The delivery before this attempt.
        webhook: The webhook that it is sent to.
        secrets: The signing secrets, newest first.
        body: The request body; the same bytes at each attempt.
        lease_expires_at: When the lease expires.
    """

    delivery: WebhookDelivery
    webhook: Webhook
    secrets: tuple[str, ...] = field(repr=False)
    body: bytes = field(repr=False)
    lease_expires_at: datetime


def is_any_due(queryable: Queryable, now: datetime, max_per_webhook: int) -> bool:
    """Return whether a delivery can be leased; does not wait for the write lock."""
    values: dict[str, SqlValue] = {"now": to_micros(now), "max_per_webhook": max_per_webhook, "count": 1}
    return bool(queryable.fetch_all(_WEBHOOKS_WITH_DUE.format(clock=queryable.dialect.now), values))


def lease_due(
    transaction: Transaction,
    now: datetime,
    duration: timedelta,
    count: int,
    max_per_webhook: int,
    sender_slot: int | None,
) -> list[LeasedDelivery]:
    """Lease due deliveries to one sender; no other sender gets them until the leases expire.

    Args:
        transaction: The transaction that stores the leases.
        now: The current time.
        duration: The time after which the leases expire.
        count: The most deliveries to lease.
        max_per_webhook: The most deliveries to one webhook that are leased at a time.
        sender_slot: The number of the sender's slot, if it has one.
    """
    now_micros, dialect = to_micros(now), transaction.dialect
    # Round robin: (position in its webhook's queue with leased ones counted, due time, id).
    candidates: list[tuple[int, int, str]] = []
    queues = transaction.fetch_all(
        _WEBHOOKS_WITH_DUE.format(clock=dialect.now),
        {"now": now_micros, "max_per_webhook": max_per_webhook, "count": count},
    )
    due = _DUE_DELIVERIES.format(clock=dialect.now, lock=dialect.skip_locked)
    for queue in queues:
        leased = integer(queue, "leased")
        rows = transaction.fetch_all(
            due, {"now": now_micros, "webhook": queue["id"], "count": max_per_webhook - leased}
        )
        candidates += [
            (leased + position, integer(row, "next_attempt_at"), text(row, "id"))
            for position, row in enumerate(rows)
        ]
    delivery_ids = [delivery_id for _, _, delivery_id in sorted(candidates)[:count]]
    lease: dict[str, SqlValue] = {
        "now": now_micros,
        "duration": duration // timedelta(microseconds=1),
        "slot": sender_slot,
    }
    webhooks: dict[str, SqlRow] = {}
    leased_deliveries = []
    for delivery_id in delivery_ids:
        row = transaction.fetch_one(_LEASE.format(clock=dialect.now), {**lease, "id": delivery_id})
        assert row is not None
        expires_at = timestamp(row, "lease_expires_at")
        leased_deliveries.append(_read(transaction, delivery_id, now, expires_at, webhooks))
    return leased_deliveries


def release_slot(transaction: Transaction, sender_slot: int) -> None:
    """Release all leases of a sender slot, whose previous sender has exited."""
    transaction.execute(
        "UPDATE webhook_deliveries SET lease_expires_at = NULL "
        "WHERE lease_expires_at IS NOT NULL AND leased_by = :slot",
        {"slot": sender_slot},
    )


def detach_leases(transaction: Transaction) -> None:
    """Take all leases from the slots of senders that may still be sending, so that each ends when it expires.

    On a host whose slots are others, the next sender in a slot would release those of the slot's number.
    """
    transaction.execute(
        "UPDATE webhook_deliveries SET leased_by = NULL WHERE lease_expires_at IS NOT NULL", {}
    )


def is_held(transaction: Transaction, leased: LeasedDelivery) -> bool:
    """Return whether a lease is still the delivery's current one: neither released nor replaced."""
    sql = "SELECT id FROM webhook_deliveries WHERE id = :id AND lease_expires_at = :expires_at"
    return transaction.fetch_one(sql, _lease_key(leased)) is not None


def release(transaction: Transaction, deliveries: Iterable[LeasedDelivery]) -> None:
    """Release leases without an attempt; those that are not held any more are ignored."""
    for leased in deliveries:
        transaction.execute(
            "UPDATE webhook_deliveries SET lease_expires_at = NULL "
            "WHERE id = :id AND lease_expires_at = :expires_at",
            _lease_key(leased),
        )


def _read(
    transaction: Transaction,
    delivery_id: str,
    now: datetime,
    lease_expires_at: datetime,
    webhooks: dict[str, SqlRow],
) -> LeasedDelivery:
    row = transaction.fetch_one(_DELIVERY_WITH_BODY, {"id": delivery_id})
    # A delivery is deleted with its event and with its webhook (ON DELETE CASCADE).
    assert row is not None
    webhook_id, body = text(row, "webhook_id"), row["body"]
    assert isinstance(body, bytes)
    if webhook_id not in webhooks:
        webhook_row = transaction.fetch_one("SELECT * FROM webhooks WHERE id = :id", {"id": webhook_id})
        assert webhook_row is not None
        webhooks[webhook_id] = webhook_row
    webhook = webhooks[webhook_id]
    return LeasedDelivery(
        to_delivery(row),
        to_webhook(webhook),
        to_secrets(webhook, now),
        zlib.decompress(body),
        lease_expires_at,
    )


def _lease_key(leased: LeasedDelivery) -> dict[str, SqlValue]:
    return {"id": leased.delivery.id, "expires_at": to_micros(leased.lease_expires_at)}
