"""The sessions table. Tokens are stored as hashes."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.engines.database import Database, Queryable, Transaction, integer, text
from imagehost_core.db.lists.pages import ItemList, count_items, list_id, paginate
from imagehost_core.db.repositories.accounts import to_account
from imagehost_core.db.rows import to_record, to_row, update_row
from imagehost_core.ids import AccountId, SessionId
from imagehost_core.lists import PageRequest
from imagehost_core.models import Account, Page, Session

_SELECT = "SELECT * FROM sessions"


@frozen
class SessionRepository:
    """Sessions in the database."""

    database: Database

    def get_by_token_hash(self, token_hash: str, now: datetime) -> tuple[Session, Account] | None:
        """Return the unexpired session with a token hash and its account, or `None`."""
        row = self.database.fetch_one(
            "SELECT * FROM sessions WHERE token_hash = :hash AND expires_at > :now",
            {"hash": token_hash, "now": to_micros(now)},
        )
        if row is None:
            return None
        account = self.database.fetch_one("SELECT * FROM accounts WHERE id = :id", {"id": row["account_id"]})
        return None if account is None else (to_record(Session, row), to_account(account))

    def get(
        self,
        session_id: SessionId,
        account_id: AccountId,
        now: datetime,
        queryable: Queryable | None = None,
        *,
        lock: str = "",
    ) -> Session | None:
        """Return an unexpired session of an account, or `None`; arguments as for `AccountRepository.get`."""
        row = (queryable or self.database).fetch_one(
            f"{_SELECT} WHERE id = :id AND account_id = :account AND expires_at > :now {lock}",
            {"id": session_id, "account": account_id, "now": to_micros(now)},
        )
        return None if row is None else to_record(Session, row)

    def list_by_account(self, account_id: AccountId, now: datetime, request: PageRequest) -> Page[Session]:
        """Return one page of an account's unexpired sessions."""
        sessions = _unexpired(account_id, now)
        return paginate(self.database, sessions, request, count_items(self.database, sessions))

    def count(self, account_id: AccountId, now: datetime) -> int:
        """Return the number of an account's unexpired sessions."""
        return count_items(self.database, _unexpired(account_id, now))

    def ip_addresses(self, account_id: AccountId, now: datetime) -> list[str]:
        """Return the distinct IP addresses at which an account's unexpired sessions began."""
        rows = self.database.fetch_all(
            "SELECT DISTINCT ip_address FROM sessions WHERE account_id = :account AND expires_at > :now",
            {"account": account_id, "now": to_micros(now)},
        )
        return [text(row, "ip_address") for row in rows]

    def insert(self, transaction: Transaction, session: Session, token_hash: str) -> None:
        """Insert a session, and delete the expired ones."""
        self.delete_expired(transaction, session.created_at)
        transaction.insert("sessions", {**to_row(session), "token_hash": token_hash})

    def count_expired(self, now: datetime) -> int:
        """Return the number of expired sessions."""
        sql = "SELECT count(*) AS sessions FROM sessions WHERE expires_at <= :now"
        row = self.database.fetch_one(sql, {"now": to_micros(now)})
        return 0 if row is None else integer(row, "sessions")

    def delete_expired(self, transaction: Transaction, now: datetime) -> int:
        """Delete the expired sessions, and return how many there were."""
        sql = "DELETE FROM sessions WHERE expires_at <= :now"
        return transaction.execute(sql, {"now": to_micros(now)})

    def set_last_used(self, transaction: Transaction, session_id: SessionId, now: datetime) -> None:
        """Update the time at which a session was last used."""
        update_row(transaction, "sessions", {"id": session_id, "last_used_at": to_micros(now)})

    def delete(self, transaction: Transaction, session_id: SessionId) -> None:
        """Delete a session."""
        transaction.execute("DELETE FROM sessions WHERE id = :id", {"id": session_id})

    def delete_oldest(self, transaction: Transaction, account_id: AccountId, *, keep: int) -> None:
        """Delete the sessions of an account, except for a number of the newest."""
        transaction.execute(
            "DELETE FROM sessions WHERE account_id = :account AND id NOT IN (SELECT id FROM sessions "
            "WHERE account_id = :account ORDER BY created_at DESC, id DESC LIMIT :keep)",
            {"account": account_id, "keep": keep},
        )

    def delete_all(
        self, transaction: Transaction, account_id: AccountId, *, keep: SessionId | None = None
    ) -> None:
        """Delete all sessions of an account but one."""
        transaction.execute(
            "DELETE FROM sessions WHERE account_id = :account AND id IS DISTINCT FROM :keep",
            {"account": account_id, "keep": keep},
        )


def _unexpired(account_id: AccountId, now: datetime) -> ItemList[Session]:
    return ItemList(
        id=list_id("sessions", account_id),
        table="sessions",
        where="item.account_id = :account AND item.expires_at > :now",
        values={"account": account_id, "now": to_micros(now)},
        to_item=partial(to_record, Session),
    )
