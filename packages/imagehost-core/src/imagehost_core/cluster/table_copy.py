"""Copies of all tables from one database into another, whichever engines the two have.

Rows are read in batches in the order of their keys, and inserted in an order in which the rows that foreign
keys refer to come first. Afterwards the number of rows of each table and a checksum over them are compared
with what was read. Everything stays as it is: ids, timestamps, secrets, sessions, and leases, which expire.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import define, frozen

from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Queryable, SqlValue, Transaction, integer
from imagehost_core.db.engines.dialect import SQLITE
from imagehost_core.db.engines.sqlite_database import SqliteDatabase, migrate
from imagehost_core.errors import InternalError

_NEVER_REUSED = {"accounts": "id", "albums": "id"}
"""The tables whose ids are never reused, with the column of the id."""
_NUMBERED = {"events": "number"}
"""The tables whose rows are numbered by the database, with the column of the number."""

# https://sqlite.org/autoinc.html
_LAST_OF_SQLITE = "SELECT coalesce(max(seq), 0) AS id FROM sqlite_sequence WHERE name = :table"
_SEQUENCE = "pg_get_serial_sequence(:table, :column)"
# https://www.postgresql.org/docs/current/functions-sequence.html
_LAST_OF_POSTGRES = f"SELECT coalesce(pg_sequence_last_value(CAST({_SEQUENCE} AS regclass)), 0) AS id"
_SET_SEQUENCE = f"SELECT setval({_SEQUENCE}, greatest(:last, 1), :last > 0)"


def last_ids(queryable: Queryable) -> dict[str, int]:
    """Return the last assigned id of each table whose ids are never reused; 0 if there was none."""
    sql = _LAST_OF_SQLITE if queryable.dialect is SQLITE else _LAST_OF_POSTGRES
    found = {}
    for table, column in _NEVER_REUSED.items():
        values = {"table": table} if queryable.dialect is SQLITE else {"table": table, "column": column}
        row = queryable.fetch_one(sql, values)
        found[table] = 0 if row is None else integer(row, "id")
    return found


def set_last_ids(transaction: Transaction, ids: Mapping[str, int]) -> None:
    """Let the database assign ids after given ones, and numbers after those of all rows."""
    if transaction.dialect is SQLITE:
        for table, last in ids.items():
            transaction.execute("DELETE FROM sqlite_sequence WHERE name = :table", {"table": table})
            transaction.insert("sqlite_sequence", {"name": table, "seq": last})
        return
    for table, column in _NEVER_REUSED.items():
        transaction.fetch_one(_SET_SEQUENCE, {"table": table, "column": column, "last": ids[table]})
    for table, column in _NUMBERED.items():
        sql = f"SELECT coalesce(max({column}), 0) AS id FROM {table}"  # noqa: S608 - constants only
        row = transaction.fetch_one(sql, {})
        last = 0 if row is None else integer(row, "id")
        transaction.fetch_one(_SET_SEQUENCE, {"table": table, "column": column, "last": last})


BATCH = 1_000
"""Rows that one query reads."""
COPIED = (
    "accounts",
    "api_keys",
    "sessions",
    "albums",
    "album_shares",
    "images",
    "image_words",
    "gallery_images",
    "counters",
    "tombstones",
    "idempotency_keys",
    "idempotency_results",
    "events",
    "webhooks",
    "webhook_deliveries",
    "cache_purges",
    "imports",
)
"""The tables that are copied. A row is inserted after those that it refers to, so parents come first."""
NOT_COPIED = frozenset({"invalidations", "members", "rate_limits", "secrets"})
"""The tables that are not copied: they have the state of running hosts, or are stored otherwise in SQLite."""
_DIGEST_BYTES = 16
_MODULUS = 2 ** (8 * _DIGEST_BYTES)


@frozen
class Table:
    """A table that is copied.

    Attributes:
        name: Its name.
        key: The columns of its primary key.
        columns: All columns.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]

    def batches(self, queryable: Queryable) -> Iterator[list[tuple[SqlValue, ...]]]:
        """Yield the values of all rows in the order of their keys."""
        key = ", ".join(self.key)
        after = ", ".join(f":{name}" for name in self.key)
        select = f"SELECT {', '.join(self.columns)} FROM {self.name}"  # noqa: S608 - names of the schema
        end = f"ORDER BY {key} LIMIT {BATCH}"
        rows = queryable.fetch_all(f"{select} {end}", {})
        while rows:
            yield [tuple(row.values()) for row in rows]
            last = {name: rows[-1][name] for name in self.key}
            rows = queryable.fetch_all(f"{select} WHERE ({key}) > ({after}) {end}", last)


@define
class _RowSum:
    """The number of rows of a table, and a checksum that does not depend on their order."""

    count: int = 0
    checksum: int = 0

    def add(self, rows: list[tuple[SqlValue, ...]]) -> None:
        # Two values of these types have the same representation only if they are equal.
        digests = (blake2b(repr(values).encode(), digest_size=_DIGEST_BYTES).digest() for values in rows)
        self.checksum = sum(map(int.from_bytes, digests), self.checksum) % _MODULUS
        self.count += len(rows)


@lru_cache
def copied_tables() -> tuple[Table, ...]:
    """Return the tables that are copied, parents first."""
    with closing(sqlite3.connect(":memory:")) as database:
        migrate(database)
        return tuple(_describe(database, name) for name in COPIED)


def _describe(database: sqlite3.Connection, name: str) -> Table:
    sql = "SELECT name, pk FROM pragma_table_info(:table)"
    positions = {str(column): int(position) for column, position in database.execute(sql, {"table": name})}
    key = sorted((column for column, position in positions.items() if position), key=positions.__getitem__)
    # The key of a virtual table is its rowid, which is not listed.
    return (
        Table(name, tuple(key), tuple(positions)) if key else Table(name, ("rowid",), ("rowid", *positions))
    )


def copy_tables(source: Queryable, target: Transaction) -> None:
    """Replace the rows of all tables by those of another database, and verify them.

    Args:
        source: A database that does not change meanwhile, such as one with an open transaction.
        target: A transaction of the other database.

    Raises:
        InternalError: The target does not have the rows that were read.
    """
    tables = copied_tables()
    for table in reversed(tables):
        target.execute(f"DELETE FROM {table.name}", {})  # noqa: S608 - a name of the schema
    for table in tables:
        expected = _RowSum()
        received = _RowSum()
        for rows in table.batches(source):
            target.insert_rows(table.name, table.columns, rows)
            expected.add(rows)
        for rows in table.batches(target):
            received.add(rows)
        if expected != received:
            raise InternalError(
                f"expected {expected.count} rows in the copied table {table.name} "
                f"but received {received.count} rows or other values"
            )
    set_last_ids(target, last_ids(source))


def copy_to_sqlite(source: Queryable, path: Path) -> None:
    """Write all rows to a SQLite file with the same tables.

    Args:
        source: A database that does not change meanwhile, such as a snapshot.
        path: A file that does not exist.

    Raises:
        FileExistsError: The file exists.
        InsufficientStorageError: The disk is full.
    """
    if path.exists():
        raise FileExistsError(path)
    with (
        TemporaryDirectory(dir=path.parent) as locks,
        closing(SqliteDatabase(path, LockManager(Path(locks)))) as database,
        database.transaction() as transaction,
    ):
        copy_tables(source, transaction)
