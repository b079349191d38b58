"""The transactional outbox: events and their webhook deliveries, recorded with the change, sent later.

An event and one delivery for each subscribed webhook are inserted in the transaction of the change. An event
that no webhook is subscribed to is not inserted, and one is deleted with its last delivery.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.counters import add_to_counter
from imagehost_core.db.engines.database import (
    Database,
    SqlRow,
    SqlValue,
    Transaction,
    integer,
    optional_timestamp,
)
from imagehost_core.db.lists.pages import ItemList, list_id, paginate
from imagehost_core.db.repositories.webhooks import IS_SENDING, WebhookRepository
from imagehost_core.db.rows import to_record, to_row, update_row
from imagehost_core.events import Event, serialize_event
from imagehost_core.ids import AccountId, DeliveryId, EventId, Random, WebhookId, new_id
from imagehost_core.lists import PageRequest
from imagehost_core.models import DeliveryStatus, Page, WebhookDelivery

_SELECT = """
SELECT item.*, events.id AS event_id, events.type AS event
FROM webhook_deliveries AS item JOIN events ON events.number = item.event_number
"""
_NEXT_DUE = f"""
SELECT min(
    CASE WHEN lease_expires_at > next_attempt_at THEN lease_expires_at ELSE next_attempt_at END
) AS next_due
FROM webhook_deliveries AS pending
WHERE state = 'pending' AND {IS_SENDING}
"""  # noqa: S608 - constants only
_OUTCOME = ("status", "attempts", "next_attempt_at", "last_attempt_at", "response_status", "duration_ms")
"""The attributes of a delivery that an attempt changes, besides the response."""
_COLUMNS = {"status": "state", "response_status": "last_status", "duration_ms": "last_duration_ms"}
"""The columns that have other names than their attributes."""
_IS_EXPIRED = """
events.created_at < :before AND NOT EXISTS (
    SELECT 1 FROM webhook_deliveries AS pending
    WHERE pending.event_number = events.number AND pending.state = 'pending'
)
"""


@frozen
class OutboxRepository:
    """Events and webhook deliveries in the database."""

    database: Database
    webhooks: WebhookRepository
    random: Random

    def record(self, transaction: Transaction, account_id: AccountId, event: Event) -> bool:
        """Insert an event with a delivery for each subscribed webhook; return whether there is one."""
        webhook_ids = self.webhooks.subscribed(transaction, account_id, event.type)
        if webhook_ids:
            body = serialize_event(event)
            self.insert(transaction, event.id, event.type, event.timestamp, body, webhook_ids)
        return bool(webhook_ids)

    def insert(
        self,
        transaction: Transaction,
        event_id: EventId,
        event_type: str,
        now: datetime,
        body: bytes,
        webhook_ids: Iterable[WebhookId],
    ) -> tuple[DeliveryId, ...]:
        """Insert an event with a delivery to each of some webhooks, due now, and return their ids."""
        created_at = to_micros(now)
        event: SqlRow = {"id": event_id, "type": event_type, "created_at": created_at}
        number = transaction.insert_numbered("events", {**event, "body": zlib.compress(body)}, "number")
        deliveries = {new_id(DeliveryId, self.random): webhook_id for webhook_id in webhook_ids}
        for delivery_id, webhook_id in deliveries.items():
            transaction.insert(
                "webhook_deliveries",
                {
                    "id": delivery_id,
                    "webhook_id": webhook_id,
                    "event_number": number,
                    "state": DeliveryStatus.PENDING.value,
                    "next_attempt_at": created_at,
                    "created_at": created_at,
                },
            )
            add_to_counter(transaction, "webhooks", "delivery_count", webhook_id)
        return tuple(deliveries)

    def record_attempt(self, transaction: Transaction, delivery: WebhookDelivery) -> None:
        """Store the outcome of an attempt, and release the lease."""
        row = to_row(delivery)
        outcome = {_COLUMNS.get(name, name): row[name] for name in ("id", *_OUTCOME)}
        outcome["last_response"] = delivery.error or delivery.response_excerpt
        update_row(transaction, "webhook_deliveries", {**outcome, "lease_expires_at": None})

    def requeue(self, transaction: Transaction, delivery_id: DeliveryId, now: datetime) -> None:
        """Make a delivery pending and due now, in any state."""
        row: SqlRow = {"id": delivery_id, "state": "pending", "next_attempt_at": to_micros(now)}
        update_row(transaction, "webhook_deliveries", {**row, "lease_expires_at": None})

    def make_due_now(self, transaction: Transaction, now: datetime) -> int:
        """Make all pending deliveries due now, and return how many were scheduled for later."""
        return transaction.execute(
            "UPDATE webhook_deliveries SET next_attempt_at = :now "
            "WHERE state = 'pending' AND next_attempt_at > :now",
            {"now": to_micros(now)},
        )

    def make_future_due(self, transaction: Transaction, now: datetime) -> int:
        """Make pending deliveries due that were recorded or attempted after `now`; return how many."""
        return transaction.execute(
            "UPDATE webhook_deliveries SET next_attempt_at = :now WHERE state = 'pending' "
            "AND next_attempt_at > :now AND coalesce(last_attempt_at, created_at) > :now",
            {"now": to_micros(now)},
        )

    def cancel_pending(self, transaction: Transaction, webhook_id: WebhookId) -> None:
        """Mark all pending deliveries to a webhook as failed."""
        transaction.execute(
            "UPDATE webhook_deliveries SET state = 'failed', next_attempt_at = NULL, "
            "lease_expires_at = NULL WHERE webhook_id = :webhook AND state = 'pending'",
            {"webhook": webhook_id},
        )

    def get(
        self, delivery_id: DeliveryId, webhook_id: WebhookId, transaction: Transaction | None = None
    ) -> WebhookDelivery | None:
        """Return a delivery to a webhook, or `None`; in a transaction, with a lock on its row."""
        lock = "" if transaction is None else transaction.dialect.for_update
        row = (transaction or self.database).fetch_one(
            f"{_SELECT} WHERE item.id = :id AND item.webhook_id = :webhook {lock}",
            {"id": delivery_id, "webhook": webhook_id},
        )
        return None if row is None else to_delivery(row)

    def list_by_webhook(self, webhook_id: WebhookId, request: PageRequest) -> Page[WebhookDelivery]:
        """Return one page of the deliveries to a webhook, newest first."""
        deliveries = ItemList(
            id=list_id("deliveries", webhook_id),
            table="webhook_deliveries",
            where="item.webhook_id = :webhook",
            values={"webhook": webhook_id},
            to_item=to_delivery,
            select=_SELECT,
        )
        return paginate(self.database, deliveries, request, self.webhooks.delivery_count(webhook_id))

    def next_due(self) -> datetime | None:
        """Return when the next pending delivery is due and not leased, or `None` if none is pending."""
        row = self.database.fetch_one(_NEXT_DUE, {})
        return None if row is None else optional_timestamp(row, "next_due")

    def count_before(self, before: datetime) -> int:
        """Return the number of events that `delete_before` deletes."""
        sql = f"SELECT count(*) AS events FROM events WHERE {_IS_EXPIRED}"  # noqa: S608 - a constant
        row = self.database.fetch_one(sql, {"before": to_micros(before)})
        return 0 if row is None else integer(row, "events")

    def delete_before(self, transaction: Transaction, before: datetime) -> int:
        """Delete events older than a time with their deliveries, unless a delivery is pending.

        Returns:
            The number of events.
        """
        values: dict[str, SqlValue] = {"before": to_micros(before)}
        transaction.execute(
            "UPDATE webhooks SET delivery_count = delivery_count - expired.deliveries FROM ("  # noqa: S608
            "SELECT item.webhook_id AS webhook_id, count(*) AS deliveries "
            # CROSS JOIN keeps SQLite from reading all deliveries, in the order of the groups.
            "FROM events CROSS JOIN webhook_deliveries AS item "
            f"WHERE item.event_number = events.number AND {_IS_EXPIRED} GROUP BY item.webhook_id"
            ") AS expired WHERE webhooks.id = expired.webhook_id",
            values,
        )
        sql = f"DELETE FROM events WHERE {_IS_EXPIRED}"  # noqa: S608 - a constant
        return transaction.execute(sql, values)


def to_delivery(row: SqlRow) -> WebhookDelivery:
    """Convert a row of `webhook_deliveries` with the id and the type of its event."""
    values = {**row, **{name: row[column] for name, column in _COLUMNS.items()}}
    # One column has the start of the response, or why there was none.
    response, has_response = row["last_response"], row["last_status"] is not None
    values["response_excerpt"] = response if has_response else ""
    values["error"] = None if has_response else response or None
    return to_record(WebhookDelivery, values)
