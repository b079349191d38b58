"""The imports table: what an import has created, so that it can be resumed."""

from __future__ import annotations

from attrs import frozen

from imagehost_core.db.columns import text
from imagehost_core.db.database import Database, Transaction
from imagehost_core.ids import AccountId


@frozen
class ImportRepository:
    """Results of imports in the database."""

    database: Database

    def get(self, account_id: AccountId, source: str) -> str | None:
        """Return the id of what was created from a source, or `None`."""
        row = self.database.fetch_one(
            "SELECT result_id FROM imports WHERE account_id = :account AND source = :source",
            {"account": account_id, "source": source},
        )
        return None if row is None else text(row, "result_id")

    def put(self, transaction: Transaction, account_id: AccountId, source: str, result_id: str) -> None:
        """Record what was created from a source, in the transaction that creates it."""
        transaction.execute(
            "INSERT INTO imports (account_id, source, result_id) VALUES (:account, :source, :result) "
            "ON CONFLICT (account_id, source) DO UPDATE SET result_id = excluded.result_id",
            {"account": account_id, "source": source, "result": result_id},
        )
