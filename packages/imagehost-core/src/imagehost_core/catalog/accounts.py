"""The rows of accounts, and what each has stored."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from imagehost_core.catalog.database import Catalog, Reader, Row, Transaction
from imagehost_core.catalog.rows import integer, moment, optional_moment, text
from imagehost_core.clock import to_micros
from imagehost_core.ids import AccountId
from imagehost_core.limits import check_quota
from imagehost_core.models import Account


@frozen
class AccountRows:
    """Accounts in the catalog."""

    catalog: Catalog

    def by_name(self, name: str, reader: Reader | None = None) -> Account | None:
        """Return the account of that name, or `None`."""
        row = (reader or self.catalog).one("SELECT * FROM accounts WHERE name = :name", {"name": name})
        return None if row is None else to_account(row)

    def by_id(self, account_id: AccountId) -> Account | None:
        """Return the account of that number, or `None`."""
        row = self.catalog.one("SELECT * FROM accounts WHERE id = :id", {"id": account_id})
        return None if row is None else to_account(row)

    def all(self) -> tuple[Account, ...]:
        """Return all accounts, by name."""
        return tuple(map(to_account, self.catalog.all("SELECT * FROM accounts ORDER BY name", {})))

    def insert(self, transaction: Transaction, name: str, password_hash: str | None, now: datetime) -> None:
        """Make an account; its name is free."""
        row = {"name": name, "password_hash": password_hash, "created_at": to_micros(now)}
        transaction.insert("accounts", row)

    def set_password_hash(self, transaction: Transaction, account_id: AccountId, password_hash: str) -> None:
        """Give an account another password."""
        transaction.run(
            "UPDATE accounts SET password_hash = :hash WHERE id = :id",
            {"id": account_id, "hash": password_hash},
        )

    def password_hash(self, account_id: AccountId) -> str | None:
        """Return the hash of an account's password, or `None`."""
        row = self.catalog.one("SELECT password_hash FROM accounts WHERE id = :id", {"id": account_id})
        return None if row is None or row["password_hash"] is None else text(row, "password_hash")

    def used_bytes(self, account_id: AccountId, reader: Reader | None = None) -> int:
        """Return the bytes of an account's masters; 0 where there is no such account."""
        sql = "SELECT used_bytes FROM accounts WHERE id = :id"
        row = (reader or self.catalog).one(sql, {"id": account_id})
        return 0 if row is None else integer(row, "used_bytes")

    def charge(self, transaction: Transaction, account_id: AccountId, more: int, quota: int) -> None:
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
            check_quota(self.used_bytes(account_id, transaction), more, quota)
        transaction.run(
            "UPDATE accounts SET used_bytes = used_bytes + :more WHERE id = :id",
            {"id": account_id, "more": more},
        )


def to_account(row: Row) -> Account:
    """Return a row as an account."""
    return Account(
        id=AccountId(integer(row, "id")),
        name=text(row, "name"),
        created_at=moment(row, "created_at"),
        suspended_at=optional_moment(row, "suspended_at"),
    )
