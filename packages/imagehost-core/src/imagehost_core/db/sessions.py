"""The sessions table. Tokens are stored as hashes."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.accounts import to_account
from imagehost_core.db.database import Database, Transaction
from imagehost_core.ids import AccountId
from imagehost_core.models import Account


@frozen
class SessionRepository:
    """Sessions in the database."""

    database: Database

    def get_account(self, token_hash: str, now: datetime) -> Account | None:
        """Return the account of an unexpired session, or `None`."""
        row = self.database.fetch_one(
            "SELECT accounts.* FROM sessions JOIN accounts ON accounts.id = sessions.account_id "
            "WHERE sessions.token_hash = :hash AND sessions.expires_at > :now",
            {"hash": token_hash, "now": to_micros(now)},
        )
        return None if row is None else to_account(row)

    def insert(
        self,
        transaction: Transaction,
        account_id: AccountId,
        token_hash: str,
        now: datetime,
        expires_at: datetime,
    ) -> None:
        """Insert a session, and delete the expired ones."""
        transaction.execute("DELETE FROM sessions WHERE expires_at <= :now", {"now": to_micros(now)})
        transaction.insert(
            "sessions",
            {
                "token_hash": token_hash,
                "account_id": account_id,
                "created_at": to_micros(now),
                "expires_at": to_micros(expires_at),
            },
        )

    def delete(self, transaction: Transaction, token_hash: str) -> None:
        """Delete a session."""
        transaction.execute("DELETE FROM sessions WHERE token_hash = :hash", {"hash": token_hash})

    def delete_all(self, transaction: Transaction, account_id: AccountId) -> None:
        """Delete all sessions of an account."""
        transaction.execute("DELETE FROM sessions WHERE account_id = :account", {"account": account_id})
