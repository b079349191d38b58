"""The rows of events and of their deliveries: written with the change, sent later.

Contract 10: *the event is recorded in the same transaction as the change*. So is one delivery for
each destination that listens.
"""

from __future__ import annotations

from datetime import datetime

from attrs import field, frozen

from imagehost_core.catalog.database import Catalog, Reader, Row, Transaction, Value
from imagehost_core.catalog.paging import page_of
from imagehost_core.catalog.rows import integer, moment, optional_micros, optional_moment, text
from imagehost_core.catalog.webhooks import WebhookRows, to_webhook
from imagehost_core.clock import to_micros
from imagehost_core.events import Event, event_body
from imagehost_core.ids import AccountId, DeliveryId, EventId, Random, WebhookId, new_delivery_id
from imagehost_core.models import DeliveryState, Page, Webhook, WebhookDelivery
from imagehost_core.paging import PageRequest

_SELECT = "SELECT * FROM deliveries AS item"
_LEASABLE = """
WITH busy AS (
    SELECT webhook_id, count(*) AS leased FROM deliveries
    WHERE state = 'pending' AND leased_until > :now GROUP BY webhook_id
), due AS (
    SELECT id, due_at, webhook_id, row_number() OVER (PARTITION BY webhook_id ORDER BY due_at, id) AS place
    FROM deliveries
    WHERE state = 'pending' AND due_at <= :now AND (leased_until IS NULL OR leased_until <= :now)
)
SELECT id FROM due WHERE place + coalesce((SELECT leased FROM busy WHERE busy.webhook_id = due.webhook_id), 0)
    <= :each ORDER BY due_at, id LIMIT :count
"""


@frozen
class Due:
    """A delivery whose time has come, leased to one sender.

    Attributes:
        delivery: What is known of it.
        webhook: Where it goes.
        body: What is sent; the same bytes at each attempt.
    """

    delivery: WebhookDelivery
    webhook: Webhook
    body: bytes = field(repr=False)


@frozen
class OutboxRows:
    """Events and deliveries in the catalog."""

    catalog: Catalog
    webhooks: WebhookRows
    random: Random

    def record(self, transaction: Transaction, account_id: AccountId, event: Event) -> None:
        """Record an event, and a delivery for each destination that listens."""
        self.insert_event(transaction, account_id, event.id, event.type, event.timestamp, event_body(event))
        for webhook_id in self.webhooks.listening(transaction, account_id, event.type):
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

    def lease(self, now: datetime, until: datetime, count: int, each: int) -> list[Due]:
        """Take deliveries that are due; nobody else gets them before the lease ends.

        Args:
            now: The present moment.
            until: When the lease ends; what a sender that died had taken is due again then.
            count: How many at most.
            each: How many of one destination may be leased at a time, so that a slow one holds up no
                other.
        """
        values: dict[str, Value] = {"now": to_micros(now), "count": count, "each": each}
        with self.catalog.transaction() as transaction:
            taken = [text(row, "id") for row in transaction.all(_LEASABLE, values)]
            for delivery_id in taken:
                sql = "UPDATE deliveries SET leased_until = :until WHERE id = :id"
                transaction.run(sql, {"until": to_micros(until), "id": delivery_id})
            return [self._due(transaction, delivery_id) for delivery_id in taken]

    def attempted(
        self,
        transaction: Transaction,
        delivery: WebhookDelivery,
    ) -> None:
        """Record what came of an attempt, and give the lease back."""
        row: Row = {
            "id": delivery.id,
            "state": delivery.state.value,
            "attempts": delivery.attempts,
            "due_at": optional_micros(delivery.next_attempt_at),
            "last_attempt_at": optional_micros(delivery.last_attempt_at),
            "last_status": delivery.last_status,
            "last_duration_ms": delivery.last_duration_ms,
            "last_answer": delivery.last_answer,
        }
        sets = ", ".join(f"{name} = :{name}" for name in row if name != "id")
        transaction.run(f"UPDATE deliveries SET {sets}, leased_until = NULL WHERE id = :id", row)  # noqa: S608

    def release(self, transaction: Transaction, delivery_id: DeliveryId) -> None:
        """Give a lease back, as if it had not been taken."""
        transaction.run("UPDATE deliveries SET leased_until = NULL WHERE id = :id", {"id": delivery_id})

    def abandon(self, transaction: Transaction, webhook_id: WebhookId) -> None:
        """Give up all that was still to be sent to a destination."""
        transaction.run(
            "UPDATE deliveries SET state = 'failed', due_at = NULL, leased_until = NULL "
            "WHERE webhook_id = :webhook AND state = 'pending'",
            {"webhook": webhook_id},
        )

    def get(
        self, delivery_id: DeliveryId, webhook_id: WebhookId, reader: Reader | None = None
    ) -> WebhookDelivery | None:
        """Return a delivery to a destination, or `None`."""
        row = (reader or self.catalog).one(
            f"{_SELECT} WHERE id = :id AND webhook_id = :webhook", {"id": delivery_id, "webhook": webhook_id}
        )
        return None if row is None else to_delivery(row)

    def of_webhook(self, webhook_id: WebhookId, request: PageRequest) -> Page[WebhookDelivery]:
        """Return the deliveries to a destination, newest first."""
        where = "item.webhook_id = :webhook"
        return page_of(self.catalog, _SELECT, where, {"webhook": webhook_id}, request, to_delivery)

    def next_due(self) -> datetime | None:
        """Return when the next delivery is due, leased or not, or `None`."""
        row = self.catalog.one(
            "SELECT min(max(due_at, coalesce(leased_until, 0))) AS due "
            "FROM deliveries WHERE state = 'pending'",
            {},
        )
        return None if row is None else optional_moment(row, "due")

    def prune(self, transaction: Transaction, before: datetime) -> None:
        """Forget events that happened before a moment, with their deliveries, but for those under way."""
        transaction.run(
            "DELETE FROM events WHERE created_at < :before AND NOT EXISTS (SELECT 1 FROM deliveries "
            "WHERE deliveries.event_id = events.id AND deliveries.state = 'pending')",
            {"before": to_micros(before)},
        )

    def _due(self, transaction: Transaction, delivery_id: str) -> Due:
        values: dict[str, Value] = {"id": delivery_id}
        row = transaction.one(f"{_SELECT} WHERE id = :id", values)
        webhook = transaction.one(
            "SELECT webhooks.* FROM webhooks JOIN deliveries ON webhooks.id = webhook_id "
            "WHERE deliveries.id = :id",
            values,
        )
        event = transaction.one(
            "SELECT events.body FROM events JOIN deliveries ON events.id = event_id "
            "WHERE deliveries.id = :id",
            values,
        )
        # Both are there: a delivery goes with either of them (ON DELETE CASCADE).
        assert row is not None
        assert webhook is not None
        assert event is not None
        body = event["body"]
        assert isinstance(body, bytes)
        return Due(to_delivery(row), to_webhook(webhook), body)


def to_delivery(row: Row) -> WebhookDelivery:
    """Return a row as a delivery."""
    return WebhookDelivery(
        id=DeliveryId(text(row, "id")),
        webhook_id=WebhookId(text(row, "webhook_id")),
        event_id=EventId(text(row, "event_id")),
        type=text(row, "type"),
        state=DeliveryState(text(row, "state")),
        attempts=integer(row, "attempts"),
        next_attempt_at=optional_moment(row, "due_at"),
        created_at=moment(row, "created_at"),
        last_attempt_at=optional_moment(row, "last_attempt_at"),
        last_status=None if row["last_status"] is None else integer(row, "last_status"),
        last_duration_ms=None if row["last_duration_ms"] is None else integer(row, "last_duration_ms"),
        last_answer=text(row, "last_answer"),
    )
