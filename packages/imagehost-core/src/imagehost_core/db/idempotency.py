"""The rows of answers that may have to be given again, and of what was made for each.

What was made for a request is noted in the transaction that made it. So a request that comes again
after a crash in the middle finds what is there already, and makes only the rest.
"""

from __future__ import annotations

from datetime import datetime

from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer, text
from imagehost_core.db.database import Database, Queryable, Transaction
from imagehost_core.ids import AccountId


@frozen
class StoredResponse:
    """An answer that was given: its HTTP status and its body."""

    status: int
    body: bytes = field(repr=False)


@frozen
class IdempotencyRecord:
    """What is kept of a request.

    Attributes:
        request: What tells it from others under the same key.
        created_at: When it came first, in microseconds.
        answer: What was answered, or `None` where it never came to that.
    """

    request: str
    created_at: int
    response: StoredResponse | None


@frozen
class IdempotencyRepository:
    """Answers in the catalog."""

    catalog: Database

    def get(self, account_id: AccountId, key: str) -> IdempotencyRecord | None:
        """Return what is kept under a key of an account, or `None`."""
        row = self.catalog.fetch_one(
            "SELECT * FROM answers WHERE account_id = :account AND key = :key",
            {"account": account_id, "key": key},
        )
        if row is None:
            return None
        body = row["body"]
        answer = StoredResponse(integer(row, "status"), body) if isinstance(body, bytes) else None
        return IdempotencyRecord(text(row, "request"), integer(row, "created_at"), answer)

    def insert(
        self, transaction: Transaction, account_id: AccountId, key: str, request: str, now: datetime
    ) -> None:
        """Note that a request is under way."""
        transaction.insert(
            "answers",
            {"account_id": account_id, "key": key, "request": request, "created_at": to_micros(now)},
        )

    def set_response(
        self, transaction: Transaction, account_id: AccountId, key: str, answer: StoredResponse
    ) -> None:
        """Note what was answered."""
        transaction.execute(
            "UPDATE answers SET status = :status, body = :body WHERE account_id = :account AND key = :key",
            {"account": account_id, "key": key, "status": answer.status, "body": answer.body},
        )

    def delete(self, transaction: Transaction, account_id: AccountId, key: str) -> None:
        """Forget a request; what it has made stays."""
        transaction.execute(
            "DELETE FROM answers WHERE account_id = :account AND key = :key",
            {"account": account_id, "key": key},
        )

    def delete_before(self, transaction: Transaction, moment: datetime) -> None:
        """Forget all requests that came before a moment."""
        transaction.execute("DELETE FROM answers WHERE created_at < :moment", {"moment": to_micros(moment)})

    def get_result(
        self, account_id: AccountId, key: str, part: int, reader: Queryable | None = None
    ) -> str | None:
        """Return the id of what was made for a part of a request, or `None`."""
        row = (reader or self.catalog).fetch_one(
            "SELECT made FROM effects WHERE account_id = :account AND key = :key AND part = :part",
            {"account": account_id, "key": key, "part": part},
        )
        return None if row is None else text(row, "made")

    def put_result(
        self, transaction: Transaction, account_id: AccountId, key: str, part: int, made: str
    ) -> None:
        """Note what was made for a part of a request, in place of what was there before."""
        transaction.execute(
            "INSERT INTO effects (account_id, key, part, made) VALUES (:account, :key, :part, :made) "
            "ON CONFLICT (account_id, key, part) DO UPDATE SET made = excluded.made",
            {"account": account_id, "key": key, "part": part, "made": made},
        )
