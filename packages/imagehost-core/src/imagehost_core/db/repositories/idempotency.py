"""Idempotency keys: the stored response of each request, and the records that it created.

The id of a created record is stored in the transaction that creates the record. A request that is
repeated after a crash finds the results of the first attempt and does only the rest.
"""

from __future__ import annotations

from datetime import datetime

from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.engines.database import Database, Transaction, integer, text
from imagehost_core.ids import AccountId


@frozen
class StoredResponse:
    """A response that was sent: its HTTP status and its body."""

    status: int
    body: bytes = field(repr=False)


@frozen
class IdempotencyRecord:
    """A row of `idempotency_keys`.

    Attributes:
        fingerprint: A hash that differs for another request with the same key.
        created_at: When the request was first received, in microseconds since 1970.
        response: The response, or `None` if the request never completed.
    """

    fingerprint: str
    created_at: int
    response: StoredResponse | None


@frozen
class IdempotencyRepository:
    """Idempotency keys and results in the database."""

    database: Database

    def get(self, account_id: AccountId, key: str) -> IdempotencyRecord | None:
        """Return the record of an account's key, or `None`."""
        row = self.database.fetch_one(
            "SELECT * FROM idempotency_keys WHERE account_id = :account AND key = :key",
            {"account": account_id, "key": key},
        )
        if row is None:
            return None
        body = row["response_body"]
        response = StoredResponse(integer(row, "response_status"), body) if isinstance(body, bytes) else None
        return IdempotencyRecord(text(row, "request_fingerprint"), integer(row, "created_at"), response)

    def insert(
        self, transaction: Transaction, account_id: AccountId, key: str, fingerprint: str, now: datetime
    ) -> None:
        """Insert the record of a request that is starting."""
        transaction.insert(
            "idempotency_keys",
            {
                "account_id": account_id,
                "key": key,
                "request_fingerprint": fingerprint,
                "created_at": to_micros(now),
            },
        )

    def set_response(
        self, transaction: Transaction, account_id: AccountId, key: str, response: StoredResponse
    ) -> None:
        """Store the response of a request."""
        transaction.execute(
            "UPDATE idempotency_keys SET response_status = :status, response_body = :body "
            "WHERE account_id = :account AND key = :key",
            {"account": account_id, "key": key, "status": response.status, "body": response.body},
        )

    def count_before(self, before: datetime) -> int:
        """Return the number of requests that were first received before a time."""
        sql = "SELECT count(*) AS requests FROM idempotency_keys WHERE created_at < :before"
        row = self.database.fetch_one(sql, {"before": to_micros(before)})
        return 0 if row is None else integer(row, "requests")

    def delete_before(self, transaction: Transaction, before: datetime) -> int:
        """Delete the records of all requests that were first received before a time; return how many."""
        return transaction.execute(
            "DELETE FROM idempotency_keys WHERE created_at < :before", {"before": to_micros(before)}
        )

    def get_result(self, account_id: AccountId, key: str, sub_operation: int) -> str | None:
        """Return the id of the record that a sub-operation created, or `None`."""
        row = self.database.fetch_one(
            "SELECT result_id FROM idempotency_results "
            "WHERE account_id = :account AND key = :key AND sub_operation = :sub_operation",
            {"account": account_id, "key": key, "sub_operation": sub_operation},
        )
        return None if row is None else text(row, "result_id")

    def put_result(
        self, transaction: Transaction, account_id: AccountId, key: str, sub_operation: int, result_id: str
    ) -> None:
        """Store the id of the record that a sub-operation created, replacing an earlier one."""
        transaction.execute(
            "INSERT INTO idempotency_results (account_id, key, sub_operation, result_id) "
            "VALUES (:account, :key, :sub_operation, :result_id) "
            "ON CONFLICT (account_id, key, sub_operation) DO UPDATE SET result_id = excluded.result_id",
            {"account": account_id, "key": key, "sub_operation": sub_operation, "result_id": result_id},
        )
