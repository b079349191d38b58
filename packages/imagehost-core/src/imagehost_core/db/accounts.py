"""The rows of accounts, and what each has stored."""

from __future__ import annotations

import json
from datetime import datetime

from attrs import asdict, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer, optional_timestamp, text, timestamp, to_optional_micros
from imagehost_core.db.database import Database, Queryable, Row, Transaction
from imagehost_core.ids import AccountId
from imagehost_core.limits import require_quota
from imagehost_core.models import Account, AccountUsage, LimitOverrides


@frozen
class AccountRepository:
    """Accounts in the catalog."""

    catalog: Database

    def get_by_name(self, name: str, reader: Queryable | None = None) -> Account | None:
        """Return the account of that name, or `None`."""
        row = (reader or self.catalog).fetch_one("SELECT * FROM accounts WHERE name = :name", {"name": name})
        return None if row is None else to_account(row)

    def get_by_id(self, account_id: AccountId) -> Account | None:
        """Return the account of that number, or `None`."""
        row = self.catalog.fetch_one("SELECT * FROM accounts WHERE id = :id", {"id": account_id})
        return None if row is None else to_account(row)

    def list_all(self) -> tuple[Account, ...]:
        """Return all accounts, by name."""
        return tuple(map(to_account, self.catalog.fetch_all("SELECT * FROM accounts ORDER BY name", {})))

    def insert(self, transaction: Transaction, name: str, password_hash: str | None, now: datetime) -> None:
        """Make an account; its name is free."""
        row = {"name": name, "password_hash": password_hash, "created_at": to_micros(now)}
        transaction.insert("accounts", row)

    def set_limits(self, transaction: Transaction, account_id: AccountId, limits: LimitOverrides) -> None:
        """Give an account limits of its own."""
        given = asdict(limits, filter=lambda _, value: value is not None)
        sql = "UPDATE accounts SET limits = :limits WHERE id = :id"
        transaction.execute(sql, {"id": account_id, "limits": json.dumps(given)})

    def set_suspended(self, transaction: Transaction, account_id: AccountId, since: datetime | None) -> None:
        """Refuse the tokens of an account, or take them again."""
        sql = "UPDATE accounts SET suspended_at = :since WHERE id = :id"
        transaction.execute(sql, {"id": account_id, "since": to_optional_micros(since)})

    def usage(self, account_id: AccountId) -> AccountUsage:
        """Return what an account has stored."""
        row = self.catalog.fetch_one(
            "SELECT used_bytes, (SELECT count(*) FROM images WHERE account_id = accounts.id) AS images, "
            "(SELECT count(*) FROM albums WHERE account_id = accounts.id) AS albums "
            "FROM accounts WHERE id = :id",
            {"id": account_id},
        )
        if row is None:
            return AccountUsage(images=0, albums=0, bytes=0)
        return AccountUsage(*(integer(row, name) for name in ("images", "albums", "used_bytes")))

    def delete(self, transaction: Transaction, account_id: AccountId) -> None:
        """Remove an account that has no image any more, with all else that it has."""
        for table in ("sessions", "keys", "answers", "webhooks", "events", "albums"):
            # Names are our own tables, never input.
            sql = f"DELETE FROM {table} WHERE account_id = :id"  # noqa: S608
            transaction.execute(sql, {"id": account_id})
        transaction.execute("DELETE FROM accounts WHERE id = :id", {"id": account_id})

    def set_password_hash(self, transaction: Transaction, account_id: AccountId, password_hash: str) -> None:
        """Give an account another password."""
        transaction.execute(
            "UPDATE accounts SET password_hash = :hash WHERE id = :id",
            {"id": account_id, "hash": password_hash},
        )

    def password_hash(self, account_id: AccountId) -> str | None:
        """Return the hash of an account's password, or `None`."""
        row = self.catalog.fetch_one("SELECT password_hash FROM accounts WHERE id = :id", {"id": account_id})
        return None if row is None or row["password_hash"] is None else text(row, "password_hash")

    def used_bytes(self, account_id: AccountId, reader: Queryable | None = None) -> int:
        """Return the bytes of an account's masters; 0 where there is no such account."""
        sql = "SELECT used_bytes FROM accounts WHERE id = :id"
        row = (reader or self.catalog).fetch_one(sql, {"id": account_id})
        return 0 if row is None else integer(row, "used_bytes")

    def add_usage(self, transaction: Transaction, account_id: AccountId, more: int, quota: int) -> None:
        """Add to what an account has stored.

        The transaction is the only writer, so that what it reads is still true when it writes.

        Args:
            transaction: In which the image is recorded.
            account_id: Whose quota.
            more: Bytes; negative when an image goes.
            quota: The most that it may have; 0 = no limit.

        Raises:
            InsufficientStorageError: It would have more than its quota.
        """
        if more > 0:
            require_quota(self.used_bytes(account_id, transaction), more, quota)
        transaction.execute(
            "UPDATE accounts SET used_bytes = used_bytes + :more WHERE id = :id",
            {"id": account_id, "more": more},
        )


def to_account(row: Row) -> Account:
    """Return a row as an account."""
    return Account(
        id=AccountId(integer(row, "id")),
        name=text(row, "name"),
        created_at=timestamp(row, "created_at"),
        suspended_at=optional_timestamp(row, "suspended_at"),
        limits=LimitOverrides(**json.loads(text(row, "limits"))),
    )
