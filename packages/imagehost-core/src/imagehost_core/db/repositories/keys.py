"""The api_keys table. Tokens are stored as hashes."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.counters import add_to_counter
from imagehost_core.db.engines.database import Database, Queryable, SqlRow, Transaction, text
from imagehost_core.db.lists.pages import ItemList, list_id, paginate
from imagehost_core.db.repositories.accounts import to_account
from imagehost_core.db.rows import read_column, to_record, to_row, update_row
from imagehost_core.ids import AccountId, KeyId
from imagehost_core.lists import PageRequest
from imagehost_core.models import Account, ApiKey, Page

_SELECT = "SELECT * FROM api_keys AS item"
_UPDATABLE = ("name", "scopes", "expires_at", "revoked_at")


@frozen
class KeyRepository:
    """API keys in the database."""

    database: Database

    def get_by_token_hash(self, token_hash: str) -> tuple[ApiKey, Account] | None:
        """Return the key with a token hash and the account that owns it, or `None`."""
        row = self.database.fetch_one("SELECT * FROM api_keys WHERE token_hash = :hash", {"hash": token_hash})
        if row is None:
            return None
        account = self.database.fetch_one("SELECT * FROM accounts WHERE id = :id", {"id": row["account_id"]})
        return None if account is None else (to_key(row), to_account(account))

    def get(
        self, key_id: KeyId, account_id: AccountId, queryable: Queryable | None = None, *, lock: str = ""
    ) -> ApiKey | None:
        """Return a key of an account, or `None`; arguments as for `AccountRepository.get`."""
        row = (queryable or self.database).fetch_one(
            f"{_SELECT} WHERE id = :id AND account_id = :account {lock}",
            {"id": key_id, "account": account_id},
        )
        return None if row is None else to_key(row)

    def list_by_account(self, account_id: AccountId, request: PageRequest) -> Page[ApiKey]:
        """Return one page of an account's keys, including revoked ones."""
        keys = ItemList(
            id=list_id("keys", account_id),
            table="api_keys",
            where="item.account_id = :account",
            values={"account": account_id},
            to_item=to_key,
        )
        count = int(read_column(self.database, "accounts", "key_count", account_id) or 0)
        return paginate(self.database, keys, request, count)

    def is_any(self, account_id: AccountId, transaction: Transaction) -> bool:
        """Return whether an account has a key, a revoked one included."""
        sql = "SELECT id FROM api_keys WHERE account_id = :account LIMIT 1"
        return transaction.fetch_one(sql, {"account": account_id}) is not None

    def insert(self, transaction: Transaction, key: ApiKey, token_hash: str) -> None:
        """Insert a key."""
        add_to_counter(transaction, "accounts", "key_count", key.account_id)
        transaction.insert("api_keys", {**_to_row(key), "token_hash": token_hash})

    def update(self, transaction: Transaction, key: ApiKey) -> None:
        """Update a key's name, scopes, expiry and revocation."""
        row = _to_row(key)
        update_row(transaction, "api_keys", {name: row[name] for name in ("id", *_UPDATABLE)})

    def set_last_used(self, transaction: Transaction, key_id: KeyId, now: datetime) -> None:
        """Update the time at which a key was last used."""
        update_row(transaction, "api_keys", {"id": key_id, "last_used_at": to_micros(now)})


def to_key(row: SqlRow) -> ApiKey:
    """Convert a row of `api_keys`."""
    return to_record(ApiKey, {**row, "scopes": text(row, "scopes").split()})


def _to_row(key: ApiKey) -> SqlRow:
    return to_row(key) | {"scopes": " ".join(sorted(key.scopes))}
