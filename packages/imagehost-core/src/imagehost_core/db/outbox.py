"""The rows of events and of their deliveries: written with the change, sent later.

Contract 10: *the event is recorded in the same transaction as the change*. So is one delivery for
each destination that listens.
"""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer, optional_timestamp, text, timestamp, to_optional_micros
from imagehost_core.db.database import Database, Queryable, Row, Transaction
from imagehost_core.db.pagination import paginate
from imagehost_core.db.webhooks import WebhookRepository
from imagehost_core.events import Event, serialize_event
from imagehost_core.ids import AccountId, DeliveryId, EventId, Random, WebhookId, new_delivery_id
from imagehost_core.models import DeliveryState, Page, WebhookDelivery
from imagehost_core.pagination import PageRequest

_SELECT = "SELECT * FROM deliveries AS item"


@frozen
class OutboxRepository:
    """Events and deliveries in the catalog."""

    catalog: Database
    webhooks: WebhookRepository
    random: Random

    def record(self, transaction: Transaction, account_id: AccountId, event: Event) -> None:
        """Record an event, and a delivery for each destination that listens."""
        self.insert_event(
            transaction, account_id, event.id, event.type, event.timestamp, serialize_event(event)
        )
        for webhook_id in self.webhooks.subscribed(transaction, account_id, event.type):
            self.insert_delivery(transaction, webhook_id, event.id, event.type, event.timestamp)

    def insert_event(
        self,
        transaction: Transaction,
        account_id: AccountId,
        event_id: EventId,
        kind: str,
        moment: datetime,
        body: bytes,
    ) -> None:
        """Record an event by its fields."""
        at = to_micros(moment)
        row: Row = {"id": event_id, "account_id": account_id, "type": kind, "created_at": at, "body": body}
        transaction.insert("events", row)

    def insert_delivery(
        self, transaction: Transaction, webhook_id: WebhookId, event_id: EventId, kind: str, now: datetime
    ) -> DeliveryId:
        """Record that an event is to go to a destination, at once."""
        delivery_id = new_delivery_id(self.random)
        transaction.insert(
            "deliveries",
            {
                "id": delivery_id,
                "webhook_id": webhook_id,
                "event_id": event_id,
                "type": kind,
                "state": DeliveryState.PENDING.value,
                "due_at": to_micros(now),
                "created_at": to_micros(now),
            },
        )
        return delivery_id

    def record_attempt(self, transaction: Transaction, delivery: WebhookDelivery) -> None:
        """Record what came of an attempt, and give the lease back."""
        row: Row = {
            "id": delivery.id,
            "state": delivery.state.value,
            "attempts": delivery.attempts,
            "due_at": to_optional_micros(delivery.next_attempt_at),
            "last_attempt_at": to_optional_micros(delivery.last_attempt_at),
            "last_status": delivery.last_status,
            "last_duration_ms": delivery.last_duration_ms,
            "last_answer": delivery.last_response,
        }
        sets = ", ".join(f"{name} = :{name}" for name in row if name != "id")
        transaction.execute(f"UPDATE deliveries SET {sets}, leased_until = NULL WHERE id = :id", row)  # noqa: S608

    def requeue(self, transaction: Transaction, delivery_id: DeliveryId, now: datetime) -> None:
        """Make a delivery due at once, whatever came of it before."""
        transaction.execute(
            "UPDATE deliveries SET state = 'pending', due_at = :now, leased_until = NULL WHERE id = :id",
            {"id": delivery_id, "now": to_micros(now)},
        )

    def make_due_now(self, transaction: Transaction, now: datetime) -> int:
        """Make all deliveries that wait for their next attempt due at once; return how many."""
        return transaction.execute(
            "UPDATE deliveries SET due_at = :now WHERE state = 'pending' AND due_at > :now",
            {"now": to_micros(now)},
        )

    def cancel_pending(self, transaction: Transaction, webhook_id: WebhookId) -> None:
        """Give up all that was still to be sent to a destination."""
        transaction.execute(
            "UPDATE deliveries SET state = 'failed', due_at = NULL, leased_until = NULL "
            "WHERE webhook_id = :webhook AND state = 'pending'",
            {"webhook": webhook_id},
        )

    def get(
        self, delivery_id: DeliveryId, webhook_id: WebhookId, reader: Queryable | None = None
    ) -> WebhookDelivery | None:
        """Return a delivery to a destination, or `None`."""
        row = (reader or self.catalog).fetch_one(
            f"{_SELECT} WHERE id = :id AND webhook_id = :webhook", {"id": delivery_id, "webhook": webhook_id}
        )
        return None if row is None else to_delivery(row)

    def list_by_webhook(self, webhook_id: WebhookId, request: PageRequest) -> Page[WebhookDelivery]:
        """Return the deliveries to a destination, newest first."""
        where = "item.webhook_id = :webhook"
        return paginate(self.catalog, "deliveries", where, {"webhook": webhook_id}, request, to_delivery)

    def next_due(self) -> datetime | None:
        """Return when the next delivery is due, leased or not, or `None`."""
        row = self.catalog.fetch_one(
            "SELECT min(max(due_at, coalesce(leased_until, 0))) AS due "
            "FROM deliveries WHERE state = 'pending'",
            {},
        )
        return None if row is None else optional_timestamp(row, "due")

    def delete_before(self, transaction: Transaction, before: datetime) -> None:
        """Forget events that happened before a moment, with their deliveries, but for those under way."""
        transaction.execute(
            "DELETE FROM events WHERE created_at < :before AND NOT EXISTS (SELECT 1 FROM deliveries "
            "WHERE deliveries.event_id = events.id AND deliveries.state = 'pending')",
            {"before": to_micros(before)},
        )


def to_delivery(row: Row) -> WebhookDelivery:
    """Return a row as a delivery."""
    return WebhookDelivery(
        id=DeliveryId(text(row, "id")),
        webhook_id=WebhookId(text(row, "webhook_id")),
        event_id=EventId(text(row, "event_id")),
        type=text(row, "type"),
        state=DeliveryState(text(row, "state")),
        attempts=integer(row, "attempts"),
        next_attempt_at=optional_timestamp(row, "due_at"),
        created_at=timestamp(row, "created_at"),
        last_attempt_at=optional_timestamp(row, "last_attempt_at"),
        last_status=None if row["last_status"] is None else integer(row, "last_status"),
        last_duration_ms=None if row["last_duration_ms"] is None else integer(row, "last_duration_ms"),
        last_response=text(row, "last_answer"),
    )
