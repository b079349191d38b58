"""The rows of API keys. Of a token only its hash is here."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.accounts import to_account
from imagehost_core.db.columns import integer, optional_timestamp, text, timestamp, to_optional_micros
from imagehost_core.db.database import Database, Row, Transaction
from imagehost_core.db.pagination import paginate
from imagehost_core.ids import AccountId, KeyId
from imagehost_core.models import Account, ApiKey, Page, Scope
from imagehost_core.pagination import PageRequest

_SELECT = "SELECT * FROM keys AS item"


@frozen
class KeyRepository:
    """API keys in the catalog."""

    catalog: Database

    def get_by_token_hash(self, token_hash: str) -> tuple[ApiKey, Account] | None:
        """Return the key of a token and whose it is, or `None`."""
        row = self.catalog.fetch_one("SELECT * FROM keys WHERE token_hash = :hash", {"hash": token_hash})
        if row is None:
            return None
        account = self.catalog.fetch_one("SELECT * FROM accounts WHERE id = :id", {"id": row["account_id"]})
        return None if account is None else (to_key(row), to_account(account))

    def get(self, key_id: KeyId, account_id: AccountId) -> ApiKey | None:
        """Return a key of an account, or `None`."""
        row = self.catalog.fetch_one(
            f"{_SELECT} WHERE id = :id AND account_id = :account", {"id": key_id, "account": account_id}
        )
        return None if row is None else to_key(row)

    def list_by_account(self, account_id: AccountId, request: PageRequest) -> Page[ApiKey]:
        """Return the keys of an account, revoked ones too."""
        where = "item.account_id = :account"
        return paginate(self.catalog, "keys", where, {"account": account_id}, request, to_key)

    def insert(self, transaction: Transaction, key: ApiKey, token_hash: str) -> None:
        """Record a key."""
        transaction.insert(
            "keys",
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
        """Record what may change of a key: its name, scopes and end, and whether it is revoked."""
        transaction.execute(
            "UPDATE keys SET name = :name, scopes = :scopes, expires_at = :expires_at, "
            "revoked_at = :revoked_at WHERE id = :id",
            {
                "id": key.id,
                "name": key.name,
                "scopes": " ".join(sorted(key.scopes)),
                "expires_at": to_optional_micros(key.expires_at),
                "revoked_at": to_optional_micros(key.revoked_at),
            },
        )

    def revoke_all(self, transaction: Transaction, account_id: AccountId, now: datetime) -> None:
        """Revoke all keys of an account."""
        transaction.execute(
            "UPDATE keys SET revoked_at = :now WHERE account_id = :account AND revoked_at IS NULL",
            {"account": account_id, "now": to_micros(now)},
        )

    def set_last_used(self, transaction: Transaction, key_id: KeyId, now: datetime) -> None:
        """Note that a key was used."""
        sql = "UPDATE keys SET last_used_at = :now WHERE id = :id"
        transaction.execute(sql, {"id": key_id, "now": to_micros(now)})


def to_key(row: Row) -> ApiKey:
    """Return a row as a key."""
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
