"""The database under the catalog: one writer at a time, readers that never wait for it.

SQLite in WAL mode with `synchronous=FULL`: a commit that was acknowledged survives a power cut
(with `NORMAL` every commit of the last second was lost in each cut that was measured). Reads that are
under way at the same time have a connection each; all writes of a process go through one, and those
of several processes queue at SQLite's lock.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlite_utils import Database as SqliteDatabase

from imagehost_core.db.schema import migrations
from imagehost_core.errors import UnavailableError
from imagehost_core.storage.durable import OWNER_ONLY_FILE, translate_disk_full
from imagehost_core.storage.locks import LockManager

Value = str | int | bytes | None
Row = dict[str, Value]

BUSY_TIMEOUT_SECONDS = 30.0
"""How long a write waits for those of other processes."""


class Database:
    """The database of a data folder.

    Args:
        path: Its file; it is made, and brought up to date, if need be.
        locks: Of the data folder, so that only one process migrates.
        patience: How many seconds a write waits for those of other processes.
    """

    def __init__(self, path: Path, locks: LockManager, *, patience: float = BUSY_TIMEOUT_SECONDS) -> None:
        self._path = path
        self._busy_timeout = patience
        self._idle: list[SqliteDatabase] = []
        self._writing = threading.Lock()
        with locks.acquire("migrate", ""):
            # SQLite gives its log and its index the mode that the database has.
            path.touch(OWNER_ONLY_FILE)
            self._writer = self._connect()
            self._writer.enable_wal()
            migrations.apply(self._writer)

    def fetch_one(self, sql: str, values: Mapping[str, Value]) -> Row | None:
        """Return the first row of a query, or `None`."""
        rows = self.fetch_all(sql, values)
        return rows[0] if rows else None

    def fetch_all(self, sql: str, values: Mapping[str, Value]) -> list[Row]:
        """Return all rows of a query."""
        with self._reader() as reader:
            return list(reader.query(sql, dict(values)))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Yield a transaction: all of it is durable when the block ends, or none of it happened.

        Raises:
            InsufficientStorageError: The disk has no room.
            UnavailableError: Another process has been writing all the time.
        """
        with self._writing, translate_disk_full(), _translate_errors():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(self._writer)
                self._writer.execute("COMMIT")
            except BaseException:
                self._writer.rollback()
                raise

    def close(self) -> None:
        """Let go of the file. No thread may be using the catalog any more."""
        self._writer.close()
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _reader(self) -> Iterator[SqliteDatabase]:
        """Lend a connection that only reads: one that is idle, or a new one where none is.

        They belong to no thread, so that threads may come and go without leaving any behind.
        """
        try:
            reader = self._idle.pop()
        except IndexError:
            reader = self._connect()
            reader.execute("PRAGMA query_only = ON")
        try:
            yield reader
        except BaseException:
            # What state it is in is nobody's business any more.
            reader.close()
            raise
        self._idle.append(reader)

    def _connect(self) -> SqliteDatabase:
        database = SqliteDatabase(
            sqlite3.connect(
                self._path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
            )
        )
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA foreign_keys = ON")
        return database


class Transaction:
    """A transaction under way; it reads its own writes.

    Args:
        database: The writer's connection.
    """

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def fetch_one(self, sql: str, values: Mapping[str, Value]) -> Row | None:
        """Return the first row of a query, or `None`."""
        return next(iter(self._database.query(sql, dict(values))), None)

    def fetch_all(self, sql: str, values: Mapping[str, Value]) -> list[Row]:
        """Return all rows of a query."""
        return list(self._database.query(sql, dict(values)))

    def execute(self, sql: str, values: Mapping[str, Value]) -> int:
        """Run a statement; return how many rows it changed."""
        return self._database.execute(sql, dict(values)).rowcount

    def insert(self, table: str, row: Mapping[str, Value]) -> int:
        """Insert a row; return its number."""
        names = ", ".join(row)
        places = ", ".join(f":{name}" for name in row)
        # Names are our own columns, never input.
        sql = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608
        return self._database.execute(sql, dict(row)).lastrowid or 0


Queryable = Database | Transaction
"""What a query can be asked of."""


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn SQLite's words for a full disk and for a lock that cannot be had into those that we use."""
    try:
        yield
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, "the disk is full") from error
        if code == sqlite3.SQLITE_BUSY:
            raise UnavailableError(
                "expected the catalog to be free in time but others are writing"
            ) from error
        raise
