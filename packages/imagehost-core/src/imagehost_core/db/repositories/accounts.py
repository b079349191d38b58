"""The accounts table, with each account's limits and used bytes."""

from __future__ import annotations

import json
from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.counters import ACCOUNTS, add_to_counter, add_to_total, total
from imagehost_core.db.engines.database import Database, Queryable, SqlRow, Transaction, integer, text
from imagehost_core.db.lists.gallery import GalleryScope, refresh_gallery
from imagehost_core.db.lists.pages import ItemList, list_id, paginate
from imagehost_core.db.repositories.webhooks import delete_webhooks
from imagehost_core.db.rows import read_column, to_record, to_row, update_row
from imagehost_core.ids import AccountId
from imagehost_core.limits import require_quota
from imagehost_core.lists import PageRequest
from imagehost_core.models import Account, AccountUsage, Page, own_limits

_SELECT = "SELECT * FROM accounts"
_UPDATABLE = ("role", "limits", "suspended_at")
_OWNED_TABLES = ("sessions", "api_keys", "idempotency_keys", "albums")
"""The tables whose rows are deleted with their account."""


@frozen
class AccountRepository:
    """Accounts in the database."""

    database: Database

    def get(self, account_id: int, queryable: Queryable | None = None, *, lock: str = "") -> Account | None:
        """Return the account with an id, or `None`.

        Args:
            account_id: The id.
            queryable: An open transaction; by default the database.
            lock: How the transaction locks the row, such as `Dialect.for_share`.
        """
        row = (queryable or self.database).fetch_one(f"{_SELECT} WHERE id = :id {lock}", {"id": account_id})
        return None if row is None else to_account(row)

    def get_by_name(self, name: str, queryable: Queryable | None = None) -> Account | None:
        """Return the account with a name in any case, or `None`."""
        sql = f"{_SELECT} WHERE lower(name) = lower(:name)"
        row = (queryable or self.database).fetch_one(sql, {"name": name})
        return None if row is None else to_account(row)

    def list(self, request: PageRequest) -> Page[Account]:
        """Return one page of all accounts, newest first."""
        accounts = ItemList(id=list_id("accounts"), table="accounts", has_numbers=True, to_item=to_account)
        return paginate(self.database, accounts, request, total(self.database, ACCOUNTS))

    def list_largest(self, count: int) -> tuple[Account, ...]:
        """Return the accounts that store the most bytes, the largest first."""
        sql = f"{_SELECT} ORDER BY used_bytes DESC, id LIMIT :count"
        return tuple(map(to_account, self.database.fetch_all(sql, {"count": count})))

    def is_any(self, queryable: Queryable | None = None) -> bool:
        """Return whether there is an account."""
        return (queryable or self.database).fetch_one("SELECT id FROM accounts LIMIT 1", {}) is not None

    def is_any_other_operator(self, transaction: Transaction, account_id: AccountId) -> bool:
        """Return whether an account other than the given one is an operator and not suspended."""
        sql = "SELECT id FROM accounts WHERE role = 'operator' AND suspended_at IS NULL AND id != :id LIMIT 1"
        return transaction.fetch_one(sql, {"id": account_id}) is not None

    def insert(
        self,
        transaction: Transaction,
        name: str,
        password_hash: str | None,
        signing_secret: bytes,
        now: datetime,
    ) -> None:
        """Insert an account of role `user`; no account may have the name yet."""
        row: SqlRow = {"name": name, "password_hash": password_hash, "signing_secret": signing_secret}
        transaction.insert("accounts", {**row, "created_at": to_micros(now)})
        add_to_total(transaction, ACCOUNTS, 1)

    def update(self, transaction: Transaction, account: Account) -> None:
        """Update an account's role, limits and suspension."""
        before = self.get(account.id, transaction)
        overrides = {name: limit for name, limit in own_limits(account).items() if limit is not None}
        row = to_row(account) | {"limits": json.dumps(overrides)}
        update_row(transaction, "accounts", {name: row[name] for name in ("id", *_UPDATABLE)})
        if before is not None and (before.suspended_at is None) != (account.suspended_at is None):
            refresh_gallery(transaction, GalleryScope.ACCOUNT, account.id)

    def usage(self, account_id: AccountId) -> AccountUsage:
        """Return an account's numbers of images, albums and bytes; zeros for an unknown account."""
        row = self.database.fetch_one(
            "SELECT image_count, album_count, used_bytes FROM accounts WHERE id = :id", {"id": account_id}
        )
        if row is None:
            return AccountUsage(images=0, albums=0, bytes=0)
        return AccountUsage(*(integer(row, name) for name in ("image_count", "album_count", "used_bytes")))

    def delete(self, transaction: Transaction, account_id: AccountId) -> dict[str, int]:
        """Delete an account that has no images any more; return the number of its other rows, by table."""
        delete_webhooks(transaction, "account_id", account_id)
        counts = {}
        for table in _OWNED_TABLES:
            # Table names are constants, never input.
            sql = f"DELETE FROM {table} WHERE account_id = :id"  # noqa: S608
            counts[table] = transaction.execute(sql, {"id": account_id})
        deleted = transaction.execute("DELETE FROM accounts WHERE id = :id", {"id": account_id})
        add_to_total(transaction, ACCOUNTS, -deleted)
        return counts

    def set_password_hash(self, transaction: Transaction, account_id: AccountId, password_hash: str) -> None:
        """Replace the hash of an account's password."""
        update_row(transaction, "accounts", {"id": account_id, "password_hash": password_hash})

    def password_hash(self, account_id: AccountId, queryable: Queryable | None = None) -> str | None:
        """Return the hash of an account's password, or `None`."""
        value = read_column(queryable or self.database, "accounts", "password_hash", account_id)
        return None if value is None else str(value)

    def set_signing_secret(self, transaction: Transaction, account_id: AccountId, secret: bytes) -> None:
        """Replace the secret of an account's signed URLs."""
        update_row(transaction, "accounts", {"id": account_id, "signing_secret": secret})

    def signing_secret(self, account_id: AccountId, queryable: Queryable | None = None) -> bytes | None:
        """Return the secret of an account's signed URLs, or `None` for an unknown account."""
        value = read_column(queryable or self.database, "accounts", "signing_secret", account_id)
        return value if isinstance(value, bytes) else None

    def used_bytes(self, account_id: AccountId, queryable: Queryable | None = None) -> int:
        """Return the bytes of an account's masters; 0 for an unknown account."""
        return int(read_column(queryable or self.database, "accounts", "used_bytes", account_id) or 0)

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
        add_to_counter(transaction, "accounts", "used_bytes", account_id, more)


def to_account(row: SqlRow) -> Account:
    """Convert a row of `accounts`."""
    limits = json.loads(text(row, "limits"))
    return to_record(Account, {**row, "quota_bytes": limits.pop("quota_bytes", None), "limits": limits})
