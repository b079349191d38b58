"""The api_keys table. Tokens are stored as hashes."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.counters import count_key
from imagehost_core.db.engines.database import (
    Database,
    Queryable,
    SqlRow,
    Transaction,
    integer,
    optional_timestamp,
    text,
    timestamp,
    to_optional_micros,
)
from imagehost_core.db.lists.pages import ItemList, list_id, paginate
from imagehost_core.db.repositories.accounts import to_account
from imagehost_core.ids import AccountId, KeyId
from imagehost_core.lists import PageRequest
from imagehost_core.models import Account, ApiKey, Page, Scope

_SELECT = "SELECT * FROM api_keys AS item"


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
        return paginate(self.database, keys, request, self._count(account_id))

    def _count(self, account_id: AccountId) -> int:
        row = self.database.fetch_one(
            "SELECT key_count FROM accounts WHERE id = :account", {"account": account_id}
        )
        return 0 if row is None else integer(row, "key_count")

    def is_any(self, account_id: AccountId, transaction: Transaction) -> bool:
        """Return whether an account has a key, a revoked one included."""
        sql = "SELECT id FROM api_keys WHERE account_id = :account LIMIT 1"
        return transaction.fetch_one(sql, {"account": account_id}) is not None

    def insert(self, transaction: Transaction, key: ApiKey, token_hash: str) -> None:
        """Insert a key."""
        count_key(transaction, key.account_id)
        transaction.insert(
            "api_keys",
            {
                "id": key.id,
                "account_id": key.account_id,
                "name": key.name,
                "prefix": key.prefix,
                "token_hash": token_hash,
                "scopes": " ".join(sorted(key.scopes)),
                "expires_at": to_optional_micros(key.expires_at),
                "created_at": to_micros(key.created_at),
            },
        )

    def update(self, transaction: Transaction, key: ApiKey) -> None:
        """Update a key's name, scopes, expiry and revocation."""
        transaction.execute(
            "UPDATE api_keys SET name = :name, scopes = :scopes, expires_at = :expires_at, "
            "revoked_at = :revoked_at WHERE id = :id",
            {
                "id": key.id,
                "name": key.name,
                "scopes": " ".join(sorted(key.scopes)),
                "expires_at": to_optional_micros(key.expires_at),
                "revoked_at": to_optional_micros(key.revoked_at),
            },
        )

    def set_last_used(self, transaction: Transaction, key_id: KeyId, now: datetime) -> None:
        """Update the time at which a key was last used."""
        sql = "UPDATE api_keys SET last_used_at = :now WHERE id = :id"
        transaction.execute(sql, {"id": key_id, "now": to_micros(now)})


def to_key(row: SqlRow) -> ApiKey:
    """Convert a row of `api_keys`."""
    return ApiKey(
        id=KeyId(text(row, "id")),
        account_id=AccountId(integer(row, "account_id")),
        name=text(row, "name"),
        prefix=text(row, "prefix"),
        scopes=frozenset(map(Scope, text(row, "scopes").split())),
        expires_at=optional_timestamp(row, "expires_at"),
        last_used_at=optional_timestamp(row, "last_used_at"),
        created_at=timestamp(row, "created_at"),
        revoked_at=optional_timestamp(row, "revoked_at"),
    )
