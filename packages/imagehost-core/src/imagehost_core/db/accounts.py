"""The accounts table, with each account's limits and used bytes."""

from __future__ import annotations

import json
from datetime import datetime

from attrs import asdict, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer, optional_timestamp, text, timestamp, to_optional_micros
from imagehost_core.db.database import Database, Queryable, SqlRow, Transaction
from imagehost_core.ids import AccountId
from imagehost_core.limits import require_quota
from imagehost_core.models import Account, AccountUsage, LimitOverrides

_OWNED_TABLES = ("sessions", "api_keys", "idempotency_keys", "webhooks", "events", "albums")
"""The tables whose rows are deleted with their account."""


@frozen
class AccountRepository:
    """Accounts in the database."""

    database: Database

    def get_by_name(self, name: str, queryable: Queryable | None = None) -> Account | None:
        """Return the account with a name, or `None`."""
        row = (queryable or self.database).fetch_one(
            "SELECT * FROM accounts WHERE name = :name", {"name": name}
        )
        return None if row is None else to_account(row)

    def list_all(self) -> tuple[Account, ...]:
        """Return all accounts, sorted by name."""
        return tuple(map(to_account, self.database.fetch_all("SELECT * FROM accounts ORDER BY name", {})))

    def insert(self, transaction: Transaction, name: str, password_hash: str | None, now: datetime) -> None:
        """Insert an account; no account may have the name yet."""
        row = {"name": name, "password_hash": password_hash, "created_at": to_micros(now)}
        transaction.insert("accounts", row)

    def set_limits(self, transaction: Transaction, account_id: AccountId, limits: LimitOverrides) -> None:
        """Replace an account's overrides of the host's limits."""
        overrides = asdict(limits, filter=lambda _, value: value is not None)
        sql = "UPDATE accounts SET limits = :limits WHERE id = :id"
        transaction.execute(sql, {"id": account_id, "limits": json.dumps(overrides)})

    def set_suspended(
        self, transaction: Transaction, account_id: AccountId, suspended_at: datetime | None
    ) -> None:
        """Suspend an account, or lift its suspension with `None`."""
        sql = "UPDATE accounts SET suspended_at = :suspended_at WHERE id = :id"
        transaction.execute(sql, {"id": account_id, "suspended_at": to_optional_micros(suspended_at)})

    def usage(self, account_id: AccountId) -> AccountUsage:
        """Return an account's numbers of images, albums and bytes; zeros for an unknown account."""
        row = self.database.fetch_one(
            "SELECT used_bytes, (SELECT count(*) FROM images WHERE account_id = accounts.id) AS images, "
            "(SELECT count(*) FROM albums WHERE account_id = accounts.id) AS albums "
            "FROM accounts WHERE id = :id",
            {"id": account_id},
        )
        if row is None:
            return AccountUsage(images=0, albums=0, bytes=0)
        return AccountUsage(*(integer(row, name) for name in ("images", "albums", "used_bytes")))

    def delete(self, transaction: Transaction, account_id: AccountId) -> None:
        """Delete an account that has no images any more, with all its other rows."""
        for table in _OWNED_TABLES:
            # Table names are constants, never input.
            sql = f"DELETE FROM {table} WHERE account_id = :id"  # noqa: S608
            transaction.execute(sql, {"id": account_id})
        transaction.execute("DELETE FROM accounts WHERE id = :id", {"id": account_id})

    def set_password_hash(self, transaction: Transaction, account_id: AccountId, password_hash: str) -> None:
        """Replace the hash of an account's password."""
        transaction.execute(
            "UPDATE accounts SET password_hash = :hash WHERE id = :id",
            {"id": account_id, "hash": password_hash},
        )

    def password_hash(self, account_id: AccountId, queryable: Queryable | None = None) -> str | None:
        """Return the hash of an account's password, or `None`."""
        sql = "SELECT password_hash FROM accounts WHERE id = :id"
        row = (queryable or self.database).fetch_one(sql, {"id": account_id})
        return None if row is None or row["password_hash"] is None else text(row, "password_hash")

    def used_bytes(self, account_id: AccountId, queryable: Queryable | None = None) -> int:
        """Return the bytes of an account's masters; 0 for an unknown account."""
        sql = "SELECT used_bytes FROM accounts WHERE id = :id"
        row = (queryable or self.database).fetch_one(sql, {"id": account_id})
        return 0 if row is None else integer(row, "used_bytes")

    def add_usage(self, transaction: Transaction, account_id: AccountId, more: int, quota: int) -> None:
        """Add to an account's used bytes.

        The transaction is the only writer, so the value that it reads cannot change before it writes.

        Args:
            transaction: The transaction that inserts or deletes the image.
            account_id: The account that owns the image.
            more: Bytes; negative when an image is deleted.
            quota: The account's quota in bytes; 0 = no limit.

        Raises:
            InsufficientStorageError: The account would exceed its quota.
        """
        if more > 0:
            require_quota(self.used_bytes(account_id, transaction), more, quota)
        transaction.execute(
            "UPDATE accounts SET used_bytes = used_bytes + :more WHERE id = :id",
            {"id": account_id, "more": more},
        )


def to_account(row: SqlRow) -> Account:
    """Convert a row of `accounts`."""
    return Account(
        id=AccountId(integer(row, "id")),
        name=text(row, "name"),
        created_at=timestamp(row, "created_at"),
        suspended_at=optional_timestamp(row, "suspended_at"),
        limits=LimitOverrides(**json.loads(text(row, "limits"))),
    )
