"""The SQLite database: one writer at a time, and readers that never wait for it.

SQLite runs in WAL mode with `synchronous=FULL`, so an acknowledged commit survives a power failure
(with `NORMAL`, every measured power failure lost the commits of the last second). Concurrent reads use
one connection each. All writes of a process share one connection; writes of several processes queue at
SQLite's lock.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from sqlite_utils import Database as SqliteDatabase

from imagehost_core.db.schema import migrations
from imagehost_core.errors import InternalError, UnavailableError
from imagehost_core.observer import Observer, TransactionEnded, ignore
from imagehost_core.storage.durable import OWNER_ONLY_FILE, translate_disk_full
from imagehost_core.storage.locks import LockManager

SqlValue = str | int | bytes | None
"""A value of a column or parameter."""
SqlRow = dict[str, SqlValue]
"""A row of a result, by column name."""

BUSY_TIMEOUT_SECONDS = 30.0
"""Seconds that a write waits for the writes of other processes."""
RETRY_AFTER_SECONDS = 5
"""`Retry-After` of a query that was interrupted by its deadline."""
_STEPS_BETWEEN_CHECKS = 1_000
"""Instructions of SQLite's virtual machine between two checks of a deadline: about 50 µs."""


class Database:
    """The database of a data directory.

    Args:
        path: The database file; it is created and migrated if needed.
        locks: The locks of the data directory; one process migrates at a time.
        busy_timeout: Seconds that a write waits for the writes of other processes.
        observe: Receives the measurement of each transaction.

    Raises:
        InternalError: The file is not a database, or is damaged.
    """

    def __init__(
        self,
        path: Path,
        locks: LockManager,
        *,
        busy_timeout: float = BUSY_TIMEOUT_SECONDS,
        observe: Observer = ignore,
    ) -> None:
        self._path = path
        self._observe = observe
        self._busy_timeout = busy_timeout
        self._idle_readers: list[sqlite3.Connection] = []
        self._write_lock, self._version_lock = threading.Lock(), threading.Lock()
        with locks.acquire("migrate"):
            # SQLite creates the WAL and its index with the mode of the database file.
            path.touch(OWNER_ONLY_FILE)
            with _translate_corruption(path):
                self._writer = self._connect()
                database = SqliteDatabase(self._writer)
                database.enable_wal()
                migrations.apply(database)
        self._version_reader = self._connect()

    def version(self) -> int:
        """Return a number that differs after any commit, of this process or of another.

        It is SQLite's `data_version` (https://sqlite.org/pragma.html#pragma_data_version), whose values are
        comparable within one connection, so one is kept for it. It changes no later than readers see the
        commit.
        """
        with self._version_lock:
            # All rows are fetched, as an unfinished query would keep its snapshot of the database.
            ((version,),) = self._version_reader.execute("PRAGMA data_version").fetchall()
        return int(version)

    def fetch_one(self, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
        """Return the first row of a query, or `None`."""
        with self._reader() as reader:
            return _fetch_one(reader, sql, values)

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        """Return all rows of a query. They come from one snapshot; two queries may see two.

        Args:
            sql: The query.
            values: Its parameters.
            deadline: The time of `time.monotonic` after which the query is interrupted; `None`: no limit.

        Raises:
            UnavailableError: The query was interrupted.
        """
        with self._reader() as reader, _interrupt_after(reader, deadline):
            return _fetch_all(reader, sql, values)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Run a block in a write transaction: durable when the block ends, rolled back if it raises.

        Raises:
            InsufficientStorageError: The disk is full.
            UnavailableError: Another process held the write lock for the whole busy timeout.
        """
        called = time.perf_counter()
        with self._write_lock, translate_disk_full(), _translate_errors():
            self._writer.execute("BEGIN IMMEDIATE")
            started, committed = time.perf_counter(), False
            try:
                yield Transaction(self._writer)
                self._writer.execute("COMMIT")
                committed = True
            except BaseException:
                self._writer.rollback()
                raise
            finally:
                seconds = time.perf_counter() - started
                self._observe(TransactionEnded(started - called, seconds, committed))

    @property
    def size_bytes(self) -> int:
        """The bytes of the database file and of its write-ahead log."""
        log = self._path.with_name(f"{self._path.name}-wal")
        return sum(path.stat().st_size for path in (self._path, log) if path.exists())

    def copy_to(self, path: Path) -> None:
        """Write a consistent copy of the database to a file, while other connections read and write it.

        The copy has no free pages, so nothing of deleted rows remains in it. The write-ahead log grows with
        what is written meanwhile.

        Args:
            path: A file that does not exist.

        Raises:
            InsufficientStorageError: The disk is full.
        """
        path.touch(OWNER_ONLY_FILE, exist_ok=False)
        with translate_disk_full(), _translate_errors(), closing(self._connect()) as connection:
            connection.execute("VACUUM INTO :path", {"path": str(path)})

    def close(self) -> None:
        """Close all connections. No other thread may be using the database any more."""
        self._writer.close()
        self._version_reader.close()
        while self._idle_readers:
            self._idle_readers.pop().close()

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """Borrow an idle read-only connection, or open one if all are in use.

        Connections belong to no thread, so a thread that ends leaves none open.
        """
        try:
            reader = self._idle_readers.pop()
        except IndexError:
            reader = self._connect()
            reader.execute("PRAGMA query_only = ON")
        try:
            yield reader
        except BaseException:
            # The state of the connection is unknown after an error.
            reader.close()
            raise
        self._idle_readers.append(reader)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = FULL")
        # On macOS, sync by F_FULLFSYNC; no effect elsewhere.
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection


class Transaction:
    """An open write transaction; it reads its own writes.

    Args:
        connection: The writer's connection.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def fetch_one(self, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
        """Return the first row of a query, or `None`."""
        return _fetch_one(self._connection, sql, values)

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        """Return all rows of a query, as `Database.fetch_all` does."""
        with _interrupt_after(self._connection, deadline):
            return _fetch_all(self._connection, sql, values)

    def execute(self, sql: str, values: Mapping[str, SqlValue]) -> int:
        """Execute a statement and return the number of rows that it changed."""
        return self._connection.execute(sql, values).rowcount

    def insert(self, table: str, row: Mapping[str, SqlValue]) -> int:
        """Insert a row and return its rowid."""
        names = ", ".join(row)
        placeholders = ", ".join(f":{name}" for name in row)
        # Table and column names are constants, never input.
        sql = f"INSERT INTO {table} ({names}) VALUES ({placeholders})"  # noqa: S608
        return self._connection.execute(sql, row).lastrowid or 0


Queryable = Database | Transaction
"""An object that runs queries: the database, or an open transaction."""


def _fetch_one(connection: sqlite3.Connection, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
    cursor = connection.execute(sql, values)
    row = cursor.fetchone()
    if row is None:
        return None
    names = [column[0] for column in cursor.description]
    # An open cursor would keep its snapshot of the database.
    cursor.close()
    return dict(zip(names, row, strict=True))


def _fetch_all(connection: sqlite3.Connection, sql: str, values: Mapping[str, SqlValue]) -> list[SqlRow]:
    # `sqlite_utils` takes twice as long for one row.
    cursor = connection.execute(sql, values)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor]


@contextmanager
def _interrupt_after(connection: sqlite3.Connection, deadline: float | None) -> Iterator[None]:
    """Interrupt the queries of a connection after a deadline (https://sqlite.org/c3ref/progress_handler.html).

    Raises:
        UnavailableError: A query was interrupted.
    """
    if deadline is None:
        yield
        return
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_CHECKS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
            raise
        details = "expected the database to find these items in time but it did not"
        raise UnavailableError(details, retry_after=RETRY_AFTER_SECONDS) from error
    finally:
        connection.set_progress_handler(None, 0)


@contextmanager
def _translate_corruption(path: Path) -> Iterator[None]:
    """Translate SQLite's errors for a file that is not a database, or is damaged."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise
        raise InternalError(f"expected a database at {str(path)!r} but received: {error}") from error


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate SQLite's errors for a full disk and for a busy database."""
    try:
        yield
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, "the disk is full") from error
        if code == sqlite3.SQLITE_BUSY:
            raise UnavailableError(
                "expected the database's write lock in time but other processes are writing"
            ) from error
        raise
