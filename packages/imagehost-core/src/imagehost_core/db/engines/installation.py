"""The record of the installation in a database: one row of a table that is created with it.

The table belongs to no migration, because the record is read before the first one.
"""

from __future__ import annotations

from imagehost_core.db.engines.database import Database, Queryable, Transaction, text
from imagehost_core.db.engines.dialect import SQLITE
from imagehost_core.installation import InstallationRecord, parse_record

TABLE = "installation"
EXISTS_IN_SQLITE = "SELECT 1 AS found FROM sqlite_master WHERE type = 'table' AND name = 'installation'"
EXISTS_IN_POSTGRES = (
    "SELECT 1 AS found FROM pg_tables "
    "WHERE tablename = 'installation' AND schemaname = ANY (current_schemas(false))"
)
"""Not `to_regclass`: it reads a cache of the session, which a lock that was waited for does not refresh."""
SELECT = "SELECT record FROM installation"
_NAME = "the database"
_CREATE = "CREATE TABLE installation (number INTEGER PRIMARY KEY, record TEXT NOT NULL)"
_IS_USED = "SELECT 1 AS found WHERE EXISTS (SELECT 1 FROM accounts) OR EXISTS (SELECT 1 FROM images)"


def read_record(queryable: Queryable) -> InstallationRecord | None:
    """Return the record of the installation, or `None`."""
    if queryable.fetch_one(_exists(queryable), {}) is None:
        return None
    row = queryable.fetch_one(SELECT, {})
    return None if row is None else parse_record(text(row, "record"), _NAME)


def write_record(transaction: Transaction, record: InstallationRecord) -> None:
    """Write the record of the installation, in place of another."""
    if transaction.fetch_one(_exists(transaction), {}) is None:
        # Not otherwise: a role of PostgreSQL that may not create tables can serve the database.
        transaction.execute(_CREATE, {})
    transaction.execute("DELETE FROM installation", {})
    transaction.insert(TABLE, {"number": 1, "record": record.to_json()})


def share_record(database: Database, candidate: InstallationRecord) -> InstallationRecord:
    """Return the record of the installation; write a candidate first if the database has none."""
    with database.transaction() as transaction:
        found = read_record(transaction)
        if found is None:
            write_record(transaction, candidate)
        return found or candidate


def is_used(queryable: Queryable) -> bool:
    """Return whether there are accounts or images."""
    return queryable.fetch_one(_IS_USED, {}) is not None


def _exists(queryable: Queryable) -> str:
    return EXISTS_IN_SQLITE if queryable.dialect is SQLITE else EXISTS_IN_POSTGRES


def share_secret(database: Database, name: str, candidate: bytes) -> bytes:
    """Return the secret of a name; store a candidate first if the database has none.

    Args:
        database: A database that several hosts share.
        name: The purpose of the secret.
        candidate: The secret of this host.
    """
    with database.transaction(blind=True) as transaction:
        transaction.execute(
            "INSERT INTO secrets (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING",
            {"name": name, "value": candidate},
        )
    row = database.fetch_one("SELECT value FROM secrets WHERE name = :name", {"name": name})
    assert row is not None, name
    value = row["value"]
    assert isinstance(value, bytes), name
    return value


def replace_secret(transaction: Transaction, name: str, value: bytes) -> None:
    """Store the secret of a name in place of another, as a restore does."""
    transaction.execute("DELETE FROM secrets WHERE name = :name", {"name": name})
    transaction.insert("secrets", {"name": name, "value": value})
