"""The rows of webhook destinations."""

from __future__ import annotations

from datetime import datetime

import attrs
from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer, text, timestamp
from imagehost_core.db.database import Database, Queryable, Row, Transaction
from imagehost_core.db.pagination import paginate
from imagehost_core.ids import AccountId, WebhookId
from imagehost_core.models import Page, Webhook
from imagehost_core.pagination import PageRequest

_SELECT = "SELECT * FROM webhooks AS item"
_CHANGEABLE = ("url", "events", "description", "is_active", "disabled_reason")


@frozen
class WebhookRepository:
    """Webhook destinations in the catalog."""

    catalog: Database

    def get(
        self, webhook_id: WebhookId, account_id: AccountId | None = None, reader: Queryable | None = None
    ) -> Webhook | None:
        """Return a destination, of one account if that is given, or `None`."""
        row = (reader or self.catalog).fetch_one(f"{_SELECT} WHERE id = :id", {"id": webhook_id})
        if row is None or (account_id is not None and integer(row, "account_id") != account_id):
            return None
        return to_webhook(row)

    def list_by_account(self, account_id: AccountId, request: PageRequest) -> Page[Webhook]:
        """Return the destinations of an account."""
        where = "item.account_id = :account"
        return paginate(self.catalog, "webhooks", where, {"account": account_id}, request, to_webhook)

    def ids_by_account(self, account_id: AccountId, transaction: Transaction) -> list[WebhookId]:
        """Return the ids of all destinations of an account."""
        rows = transaction.fetch_all("SELECT id FROM webhooks WHERE account_id = :id", {"id": account_id})
        return [WebhookId(text(row, "id")) for row in rows]

    def subscribed(self, transaction: Transaction, account_id: AccountId, kind: str) -> list[WebhookId]:
        """Return the destinations of an account that get events of a kind."""
        rows = transaction.fetch_all(
            "SELECT * FROM webhooks WHERE account_id = :account AND is_active = 1", {"account": account_id}
        )
        hooks = map(to_webhook, rows)
        return [hook.id for hook in hooks if not hook.events or kind in hook.events]

    def is_active(self, transaction: Transaction, webhook_id: WebhookId) -> bool:
        """Return whether events are sent to a destination."""
        sql = "SELECT id FROM webhooks WHERE id = :id AND is_active = 1"
        return transaction.fetch_one(sql, {"id": webhook_id}) is not None

    def insert(self, transaction: Transaction, webhook: Webhook, secret: str) -> None:
        """Record a destination."""
        transaction.insert("webhooks", {**_to_row(webhook), "secret": secret})

    def update(self, transaction: Transaction, webhook: Webhook) -> None:
        """Record what may change of a destination."""
        row = _to_row(webhook)
        sets = ", ".join(f"{name} = :{name}" for name in _CHANGEABLE)
        values = {name: row[name] for name in ("id", *_CHANGEABLE)}
        transaction.execute(f"UPDATE webhooks SET {sets} WHERE id = :id", values)  # noqa: S608

    def disable(self, transaction: Transaction, webhook_id: WebhookId, reason: str) -> None:
        """Send nothing more to a destination, and say why."""
        transaction.execute(
            "UPDATE webhooks SET is_active = 0, disabled_reason = :reason WHERE id = :id",
            {"id": webhook_id, "reason": reason},
        )

    def rotate_secret(
        self, transaction: Transaction, webhook_id: WebhookId, secret: str, old_until: datetime
    ) -> None:
        """Give a destination another secret; the one before signs beside it for a while."""
        transaction.execute(
            "UPDATE webhooks SET old_secret = secret, old_secret_until = :until, secret = :secret "
            "WHERE id = :id",
            {"id": webhook_id, "secret": secret, "until": to_micros(old_until)},
        )

    def delete(self, transaction: Transaction, webhook_id: WebhookId) -> None:
        """Remove a destination, and all that was still to be sent to it."""
        transaction.execute("DELETE FROM webhooks WHERE id = :id", {"id": webhook_id})


def to_webhook(row: Row) -> Webhook:
    """Return a row as a destination."""
    reason = row["disabled_reason"]
    return Webhook(
        id=WebhookId(text(row, "id")),
        account_id=AccountId(integer(row, "account_id")),
        url=text(row, "url"),
        events=tuple(text(row, "events").split()),
        description=text(row, "description"),
        is_active=bool(row["is_active"]),
        created_at=timestamp(row, "created_at"),
        disabled_reason=None if reason is None else str(reason),
    )


def to_secrets(row: Row, now: datetime) -> tuple[str, ...]:
    """Return what events to a destination are signed with, the newest secret first.

    There are two while one is being rotated out.
    """
    until = row["old_secret_until"]
    old = (text(row, "old_secret"),) if isinstance(until, int) and until > to_micros(now) else ()
    return (text(row, "secret"), *old)


def _to_row(webhook: Webhook) -> Row:
    return {
        **attrs.asdict(webhook),
        "events": " ".join(webhook.events),
        "is_active": int(webhook.is_active),
        "created_at": to_micros(webhook.created_at),
    }
