"""The webhooks table: endpoints and their signing secrets."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.engines.database import Database, Queryable, SqlRow, SqlValue, Transaction, text
from imagehost_core.db.lists.pages import ItemList, count_items, list_id, paginate
from imagehost_core.db.rows import read_column, to_record, to_row, update_row
from imagehost_core.ids import AccountId, WebhookId
from imagehost_core.lists import PageRequest
from imagehost_core.models import Page, Webhook

IS_SENDING = """EXISTS (
    SELECT 1 FROM webhooks JOIN accounts ON accounts.id = webhooks.account_id
    WHERE webhooks.id = pending.webhook_id AND accounts.suspended_at IS NULL
)"""
"""The condition that the webhook of a row with the alias `pending` is not paused, as by a suspension."""
WITH_PENDING = """pending (webhook_id) AS (
    SELECT min(webhook_id) FROM webhook_deliveries WHERE state = 'pending'
    UNION ALL
    SELECT (
        SELECT min(webhook_id) FROM webhook_deliveries
        WHERE state = 'pending' AND webhook_id > pending.webhook_id
    )
    FROM pending WHERE pending.webhook_id IS NOT NULL
)"""
"""The recursive table of the webhooks with pending deliveries. It seeks from one webhook to the next in the
index (a skip scan), so the length of the queues costs nothing."""
_SELECT = "SELECT * FROM webhooks AS item"
_UPDATABLE = ("url", "events", "description", "is_active", "disabled_reason")


@frozen
class WebhookRepository:
    """Webhooks in the database."""

    database: Database

    def get(
        self, webhook_id: WebhookId, account_id: AccountId, queryable: Queryable | None = None
    ) -> Webhook | None:
        """Return a webhook of an account, or `None`."""
        row = (queryable or self.database).fetch_one(
            f"{_SELECT} WHERE id = :id AND account_id = :account", {"id": webhook_id, "account": account_id}
        )
        return None if row is None else to_webhook(row)

    def list_by_account(self, account_id: AccountId, request: PageRequest) -> Page[Webhook]:
        """Return one page of an account's webhooks."""
        webhooks = ItemList(
            id=list_id("webhooks", account_id),
            table="webhooks",
            where="item.account_id = :account",
            values={"account": account_id},
            to_item=to_webhook,
        )
        return paginate(self.database, webhooks, request, count_items(self.database, webhooks))

    def list_disabled(self, count: int) -> tuple[Webhook, ...]:
        """Return at most `count` webhooks that were disabled because they failed, newest first."""
        query = f"{_SELECT} WHERE disabled_reason IS NOT NULL ORDER BY created_at DESC, id LIMIT :count"
        return tuple(to_webhook(row) for row in self.database.fetch_all(query, {"count": count}))

    def ids_by_account(self, account_id: AccountId, queryable: Queryable) -> list[WebhookId]:
        """Return the ids of all webhooks of an account."""
        rows = queryable.fetch_all("SELECT id FROM webhooks WHERE account_id = :id", {"id": account_id})
        return [WebhookId(text(row, "id")) for row in rows]

    def subscribed(self, transaction: Transaction, account_id: AccountId, event_type: str) -> list[WebhookId]:
        """Return the ids of an account's active webhooks that subscribe to an event type."""
        rows = transaction.fetch_all(
            "SELECT * FROM webhooks WHERE account_id = :account AND is_active = 1", {"account": account_id}
        )
        webhooks = map(to_webhook, rows)
        return [webhook.id for webhook in webhooks if not webhook.events or event_type in webhook.events]

    def is_active(self, transaction: Transaction, webhook_id: WebhookId) -> bool:
        """Return whether a webhook exists and is active."""
        sql = "SELECT id FROM webhooks WHERE id = :id AND is_active = 1"
        return transaction.fetch_one(sql, {"id": webhook_id}) is not None

    def delivery_count(self, webhook_id: WebhookId) -> int:
        """Return the number of deliveries to a webhook; 0 for an unknown webhook."""
        return int(read_column(self.database, "webhooks", "delivery_count", webhook_id) or 0)

    def insert(self, transaction: Transaction, webhook: Webhook, secret: str) -> None:
        """Insert a webhook with its signing secret."""
        transaction.insert("webhooks", {**_to_row(webhook), "secret": secret})

    def update(self, transaction: Transaction, webhook: Webhook) -> None:
        """Update the columns of a webhook that may change."""
        row = _to_row(webhook)
        update_row(transaction, "webhooks", {name: row[name] for name in ("id", *_UPDATABLE)})

    def disable(self, transaction: Transaction, webhook_id: WebhookId, reason: str) -> None:
        """Deactivate a webhook and store the reason."""
        update_row(transaction, "webhooks", {"id": webhook_id, "is_active": 0, "disabled_reason": reason})

    def rotate_secret(
        self,
        transaction: Transaction,
        webhook_id: WebhookId,
        secret: str,
        previous_expires_at: datetime,
    ) -> None:
        """Replace a webhook's secret; the previous secret signs as well until it expires."""
        transaction.execute(
            "UPDATE webhooks SET previous_secret = secret, previous_secret_expires_at = :expires_at, "
            "secret = :secret WHERE id = :id",
            {"id": webhook_id, "secret": secret, "expires_at": to_micros(previous_expires_at)},
        )

    def delete(self, transaction: Transaction, webhook_id: WebhookId) -> None:
        """Delete a webhook with its deliveries, and the events that were delivered to no other one."""
        delete_webhooks(transaction, "id", webhook_id)


def delete_webhooks(transaction: Transaction, column: str, value: SqlValue) -> None:
    """Delete the webhooks with a value in a column, as `WebhookRepository.delete` does."""
    # Column names are constants, never input; deliveries are deleted by ON DELETE CASCADE.
    deleted = f"SELECT id FROM webhooks WHERE {column} = :value"  # noqa: S608
    transaction.execute(
        "DELETE FROM events WHERE number IN ("  # noqa: S608
        f"SELECT event_number FROM webhook_deliveries WHERE webhook_id IN ({deleted})"
        ") AND NOT EXISTS (SELECT 1 FROM webhook_deliveries AS other "
        f"WHERE other.event_number = events.number AND other.webhook_id NOT IN ({deleted}))",
        {"value": value},
    )
    transaction.execute(f"DELETE FROM webhooks WHERE {column} = :value", {"value": value})  # noqa: S608


def to_webhook(row: SqlRow) -> Webhook:
    """Convert a row of `webhooks`."""
    return to_record(Webhook, {**row, "events": text(row, "events").split()})


def to_secrets(row: SqlRow, now: datetime) -> tuple[str, ...]:
    """Return a webhook's signing secrets, newest first: two until the previous secret expires."""
    expires_at = row["previous_secret_expires_at"]
    is_rotating = isinstance(expires_at, int) and expires_at > to_micros(now)
    previous = (text(row, "previous_secret"),) if is_rotating else ()
    return (text(row, "secret"), *previous)


def _to_row(webhook: Webhook) -> SqlRow:
    return to_row(webhook) | {"events": " ".join(webhook.events)}
