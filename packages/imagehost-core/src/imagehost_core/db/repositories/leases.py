"""Leases on webhook deliveries: a sender takes due deliveries for a limited time.

Which of those that wait are taken is decided by `imagehost_core.webhooks`; of each account, the
webhooks with the fewest leases are found first, however long the queues are. A lease expires, so the
deliveries of a sender that died become due again; at once, if another sender takes over its slot. Whether one
has expired is decided by one clock: in PostgreSQL by the server's, as the clock of a host may be wrong.
Whether a delivery is due is decided by `now`, the host's reading of that clock: one that it has just recorded
is due at once.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.engines.database import (
    Queryable,
    SqlRow,
    SqlValue,
    Transaction,
    integer,
    text,
    timestamp,
)
from imagehost_core.db.repositories.outbox import to_delivery
from imagehost_core.db.repositories.webhooks import WITH_PENDING, to_secrets, to_webhook
from imagehost_core.ids import AccountId, DeliveryId, WebhookId
from imagehost_core.models import Webhook, WebhookDelivery
from imagehost_core.webhooks import MAX_IN_FLIGHT_PER_WEBHOOK, SenderLoad, WaitingDelivery, next_deliveries

_IS_DUE = """
state = 'pending' AND next_attempt_at <= :now AND (lease_expires_at IS NULL OR lease_expires_at <= {clock})
"""
_WEBHOOKS_WITH_DUE = f"""
WITH RECURSIVE {WITH_PENDING}, queues AS (
    SELECT webhooks.id AS id, webhooks.account_id AS account_id,
        (SELECT count(*) FROM webhook_deliveries
            WHERE webhook_id = pending.webhook_id AND lease_expires_at > {{clock}}) AS leased,
        (SELECT next_attempt_at FROM webhook_deliveries
            WHERE webhook_id = pending.webhook_id AND {_IS_DUE}
            ORDER BY next_attempt_at LIMIT 1) AS first_due
    FROM pending JOIN webhooks ON webhooks.id = pending.webhook_id
    JOIN accounts ON accounts.id = webhooks.account_id AND accounts.suspended_at IS NULL
), turns AS (
    SELECT id, account_id, leased, first_due,
        row_number() OVER (PARTITION BY account_id ORDER BY leased, first_due) AS turn
    FROM queues
    WHERE first_due IS NOT NULL AND leased < CASE WHEN id IN {{responsive}} THEN :max ELSE :max_of_others END
)
SELECT id, account_id, leased FROM turns ORDER BY turn, leased, first_due LIMIT :count
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
SELECT item.*, events.id AS event_id, events.type AS event, events.body AS body
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
        body: The request body; the same bytes at each attempt, unless the host's URLs have changed meanwhile.
        lease_expires_at: When the lease expires.
    """

    delivery: WebhookDelivery
    webhook: Webhook
    secrets: tuple[str, ...] = field(repr=False)
    body: bytes = field(repr=False)
    lease_expires_at: datetime


def is_any_due(queryable: Queryable, now: datetime, load: SenderLoad) -> bool:
    """Return whether a delivery can be leased; does not wait for the write lock."""
    return bool(_webhooks_with_due(queryable, now, load))


def lease_due(
    transaction: Transaction, now: datetime, duration: timedelta, load: SenderLoad, sender_slot: int | None
) -> list[LeasedDelivery]:
    """Lease due deliveries to one sender; no other sender gets them until the leases expire.

    Args:
        transaction: The transaction that stores the leases.
        now: The current time.
        duration: The time after which the leases expire.
        load: The attempts of the sender.
        sender_slot: The number of the sender's slot, if it has one.
    """
    now_micros, dialect = to_micros(now), transaction.dialect
    waiting: list[WaitingDelivery] = []
    due = _DUE_DELIVERIES.format(clock=dialect.now, lock=dialect.skip_locked)
    for queue in _webhooks_with_due(transaction, now, load):
        webhook_id = WebhookId(text(queue, "id"))
        leased = integer(queue, "leased")
        count = load.limit_of(webhook_id) - leased
        account_id = AccountId(integer(queue, "account_id"))
        rows = transaction.fetch_all(due, {"now": now_micros, "webhook": webhook_id, "count": count})
        waiting += [
            WaitingDelivery(
                leased + position, integer(row, "next_attempt_at"), DeliveryId(text(row, "id")), account_id
            )
            for position, row in enumerate(rows)
        ]
    delivery_ids = next_deliveries(waiting, load)
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


def _webhooks_with_due(queryable: Queryable, now: datetime, load: SenderLoad) -> list[SqlRow]:
    """Return the webhooks with due deliveries that a sender may attempt, those of each account in turn."""
    values: dict[str, SqlValue] = {
        "now": to_micros(now),
        "responsive": json.dumps(sorted(load.responsive or ())),
        "max": MAX_IN_FLIGHT_PER_WEBHOOK,
        "max_of_others": MAX_IN_FLIGHT_PER_WEBHOOK if load.responsive is None else 1,
        # Enough, although all accounts with attempts in progress may have to wait.
        "count": load.free + len(load.in_progress or ()),
    }
    dialect = queryable.dialect
    sql = _WEBHOOKS_WITH_DUE.format(clock=dialect.now, responsive=dialect.texts("responsive"))
    rows = queryable.fetch_all(sql, values)
    return [row for row in rows if load.may_start(AccountId(integer(row, "account_id")))]


def release_slot(transaction: Transaction, sender_slot: int) -> None:
    """Release all leases of a sender slot, whose previous sender has exited."""
    transaction.execute(
        "UPDATE webhook_deliveries SET lease_expires_at = NULL "
        "WHERE lease_expires_at IS NOT NULL AND leased_by = :slot",
        {"slot": sender_slot},
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
