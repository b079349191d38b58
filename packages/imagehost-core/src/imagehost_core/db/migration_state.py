"""What a PostgreSQL database records of migrations to it and from it.

Both records are tables that exist only then. A host that was migrated refuses changes by triggers, so that
also processes that were connected before cannot change it; they are dropped to use the host again.
"""

from __future__ import annotations

from imagehost_core.db.columns import text
from imagehost_core.db.database import Queryable, Transaction
from imagehost_core.db.table_copy import COPIED

SIGNING_SECRET = "signing"  # noqa: S105 - a name
"""The name of the key of signed URLs, which hosts that share a database have in common."""
_EXISTS = "SELECT 1 AS found WHERE to_regclass(:table) IS NOT NULL"
_UNFINISHED, _MIGRATED = "unfinished_migration", "migrated_to"

# The error is that of a standby (https://www.postgresql.org/docs/current/errcodes-appendix.html).
_REFUSE = """
CREATE OR REPLACE FUNCTION refuse_migrated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this host was migrated to another' USING ERRCODE = 'read_only_sql_transaction';
END $$
"""
_TRIGGER = """
CREATE OR REPLACE TRIGGER refuse_migrated BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {}
FOR EACH STATEMENT EXECUTE FUNCTION refuse_migrated()
"""


def lock_tables(transaction: Transaction) -> None:
    """Wait for all other transactions that write, and let none begin until this one ends.

    Raises:
        UnavailableError: One did not end in time.
    """
    transaction.execute(f"LOCK TABLE {', '.join(COPIED)} IN SHARE ROW EXCLUSIVE MODE", {})


def stored_secret(queryable: Queryable) -> bytes | None:
    """Return the key of signed URLs that the hosts of the database share, or `None`."""
    row = queryable.fetch_one("SELECT value FROM secrets WHERE name = :name", {"name": SIGNING_SECRET})
    value = None if row is None else row["value"]
    return value if isinstance(value, bytes) else None


def is_empty(queryable: Queryable) -> bool:
    """Return whether no host has used the database."""
    sql = "SELECT 1 AS found WHERE NOT EXISTS (SELECT 1 FROM accounts) AND NOT EXISTS (SELECT 1 FROM images)"
    return queryable.fetch_one(sql, {}) is not None


def unfinished_migration(queryable: Queryable) -> tuple[str, str] | None:
    """Return the source and the storage of a migration to the database that is not complete."""
    if queryable.fetch_one(_EXISTS, {"table": _UNFINISHED}) is None:
        return None
    row = queryable.fetch_one("SELECT source, storage FROM unfinished_migration", {})
    return None if row is None else (text(row, "source"), text(row, "storage"))


def begin_migration(transaction: Transaction, source: str, storage: str) -> None:
    """Record that a migration to the database is in progress."""
    transaction.execute("CREATE TABLE unfinished_migration (source TEXT NOT NULL, storage TEXT NOT NULL)", {})
    transaction.insert(_UNFINISHED, {"source": source, "storage": storage})


def finish_migration(transaction: Transaction) -> None:
    """Record that the migration to the database is complete."""
    transaction.execute("DROP TABLE IF EXISTS unfinished_migration", {})


def migrated_to(queryable: Queryable) -> str | None:
    """Return the location to which the host was migrated, or `None`."""
    if queryable.fetch_one(_EXISTS, {"table": _MIGRATED}) is None:
        return None
    row = queryable.fetch_one("SELECT location FROM migrated_to", {})
    return None if row is None else text(row, "location")


def refuse_changes(transaction: Transaction, location: str) -> None:
    """Record where the host was migrated to, and refuse changes of its tables from then on."""
    transaction.execute("CREATE TABLE IF NOT EXISTS migrated_to (location TEXT NOT NULL)", {})
    transaction.execute("DELETE FROM migrated_to", {})
    transaction.insert(_MIGRATED, {"location": location})
    transaction.execute(_REFUSE, {})
    for table in COPIED:
        transaction.execute(_TRIGGER.format(table), {})
