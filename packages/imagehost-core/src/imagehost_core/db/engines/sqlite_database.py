"""The SQLite engine: one writer at a time, and readers that never wait for it.

SQLite runs in WAL mode with `synchronous=FULL`, so an acknowledged commit survives a power failure
(with `NORMAL`, every measured power failure lost the commits of the last second). Concurrent reads use
one connection each. All writes of a process share one connection; writes of several processes queue at
SQLite's lock.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from imagehost_core._util.durable import (
    OWNER_ONLY_FILE,
    sync_directory,
    sync_file,
    translate_disk_errors,
    write_file,
)
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import (
    DATABASE_RETRY_SECONDS,
    Database,
    SqlRow,
    SqlValue,
    Transaction,
)
from imagehost_core.db.engines.dialect import SQLITE, Dialect, insert_statement
from imagehost_core.db.engines.installation import EXISTS_IN_SQLITE, SELECT
from imagehost_core.db.schema import sqlite_migrations
from imagehost_core.errors import InternalError, UnavailableError
from imagehost_core.ids import AccountId
from imagehost_core.installation import parse_record, require_known_migrations
from imagehost_core.observer import Observer, TransactionEnded, ignore
from imagehost_core.storage.layout import MOVED

if TYPE_CHECKING:
    import sqlite_utils

log = logging.getLogger(__name__)

_SET = "imagehost"
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '_sqlite_migrations'"
_APPLIED = "SELECT name FROM _sqlite_migrations WHERE migration_set = ?"


def applied_migrations(connection: sqlite3.Connection) -> set[str]:
    """Return the names of the migrations that a database has, those of newer versions too."""
    if connection.execute(_HAS_TABLE).fetchone() is None:
        return set()
    return {name for (name,) in connection.execute(_APPLIED, (_SET,))}


def require_known_schema(connection: sqlite3.Connection, name: object) -> None:
    """Raise ConflictError if a database is of a version that is not supported."""
    record = None
    if connection.execute(EXISTS_IN_SQLITE).fetchone() is not None:
        row = connection.execute(SELECT).fetchone()
        record = None if row is None else parse_record(row[0], name)
    require_known_migrations(applied_migrations(connection), sqlite_migrations.keys(), record, name)


def migrate(connection: sqlite3.Connection, path: Path | None = None) -> None:
    """Apply the migrations that a database lacks, all or none; keep a copy of a database that has some.

    Args:
        connection: A connection without an open transaction.
        path: The file of the database. The copy is beside it and replaces that of an earlier attempt;
            without a file there is none.

    Raises:
        InsufficientStorageError: The disk has no space for the copy.
    """
    applied = applied_migrations(connection)
    missing = [name for name in sqlite_migrations if name not in applied]
    if not missing:
        return
    if applied and path is not None:
        _copy_before(connection, path, missing[0])
    # It takes 11 MiB of memory. Under `imagehost serve` only the first process migrates.
    import sqlite_utils

    migrations = sqlite_utils.Migrations(_SET)
    for name, statements in sqlite_migrations.items():

        @migrations(name=name)
        def apply(database: sqlite_utils.Database, statements: tuple[str, ...] = statements) -> None:
            for statement in statements:
                database.execute(statement)

    database = sqlite_utils.Database(connection)
    with database.atomic():
        migrations.apply(database)


def _copy_before(connection: sqlite3.Connection, path: Path, migration: str) -> None:
    copy = path.with_name(f"{path.name}.before-{migration}")
    partial = copy.with_name(f"{copy.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(OWNER_ONLY_FILE)
    connection.execute("VACUUM INTO ?", [str(partial)])
    sync_file(partial)
    partial.replace(copy)
    sync_directory(copy.parent)
    log.warning("database is migrated: path=%s copy=%s", path, copy)


BUSY_TIMEOUT_SECONDS = 30.0
"""Seconds that a write waits for the writes of other processes."""
_FAILED = (
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CORRUPT,
)
"""The errors of a disk that fails and of a file that is damaged. SQLite reports one as the other: EIO of a
read is SQLITE_CORRUPT (https://sqlite.org/rescode.html#ioerr_corruptfs). A file that cannot be opened for
writing is opened for reading, also by VACUUM INTO, which reports SQLITE_READONLY then."""
_STEPS_BETWEEN_CHECKS = 1_000
"""Instructions of SQLite's virtual machine between two checks of a deadline: about 50 µs."""


class SqliteDatabase(Database):
    """The database of a data directory, in a file.

    Args:
        path: The database file; it is created and migrated if needed.
        locks: The locks of the data directory; one process migrates at a time.
        busy_timeout: Seconds that a write waits for the writes of other processes.
        observe: Receives the measurement of each transaction.

    Raises:
        ConflictError: The file is of a version that is not supported.
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
        self._moved = path.with_name(MOVED)
        self._observe = observe
        self._busy_timeout = busy_timeout
        self._idle_readers: list[sqlite3.Connection] = []
        self._write_lock = threading.Lock()
        self._version_lock = threading.Lock()
        self._has_failed_commit = False
        with locks.acquire("migrate"):
            # SQLite creates the WAL and its index with the mode of the database file.
            path.touch(OWNER_ONLY_FILE)
            with translate_disk_errors(), translate_sqlite_errors(self._path):
                self._writer = self._connect()
                require_known_schema(self._writer, path)
                # Fetched, because SQLite reports an error of the write only then, and this connection would
                # use a log that others ignore.
                self._writer.execute("PRAGMA journal_mode = WAL").fetchall()
                migrate(self._writer, path)
                # Numbers are comparable within one connection.
                self._version_reader = self._connect()

    @property
    def dialect(self) -> Dialect:
        """SQLite's."""
        return SQLITE

    @property
    def clock(self) -> None:
        """None: the clock is that of the host."""

    def version(self) -> int:
        """Return a number that differs after any commit, of this process or of another.

        It changes no later than readers see the commit (https://sqlite.org/pragma.html#pragma_data_version).
        """
        try:
            with self._version_lock:
                # All rows are fetched, as an unfinished query would keep its snapshot of the database.
                ((number,),) = self._version_reader.execute("PRAGMA data_version").fetchall()
            return int(number)
        except (sqlite3.DatabaseError, OSError):
            # Entering the blocks first would take longer than reading, which requests do several times.
            with translate_disk_errors(), translate_sqlite_errors(self._path):
                raise

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        """Return all rows of a query, as `Database.fetch_all` does."""
        with translate_sqlite_errors(self._path), self._reader() as reader:
            return _fetch_all(reader, sql, values, deadline)

    @contextmanager
    def transaction(
        self,
        account_id: AccountId | None = None,  # noqa: ARG002 - the file has one writer
        *,
        blind: bool = False,  # noqa: ARG002
    ) -> Iterator[SqliteTransaction]:
        """Run a block in a write transaction, as `Database.transaction` does; one at a time in any scope.

        Raises:
            InsufficientStorageError: The disk is full.
            InternalError: The disk fails, or the file is damaged.
            UnavailableError: Another process held the write lock for the whole busy timeout, or the host is
                moved.
        """
        called = time.perf_counter()
        with self._write_lock, translate_disk_errors(), translate_sqlite_errors(self._path):
            self._discard_failed_commit()
            self._writer.execute("BEGIN IMMEDIATE")
            started, committed = time.perf_counter(), False
            transaction = SqliteTransaction(self._writer)
            try:
                if os.path.exists(self._moved):  # noqa: PTH110 - in 1 µs
                    raise UnavailableError("expected a host that can be changed but it is moved to another")
                yield transaction
                self._has_failed_commit = True
                self._writer.execute("COMMIT")
                self._has_failed_commit = False
                committed = True
            except BaseException:
                self._writer.rollback()
                # Otherwise the next transaction does.
                with suppress(sqlite3.Error, OSError):
                    self._discard_failed_commit()
                raise
            finally:
                seconds = time.perf_counter() - started
                self._observe(TransactionEnded(started - called, seconds, committed))
        for callback in transaction.committed:
            callback()

    def without_time_limit(self) -> AbstractContextManager[None]:
        """Do nothing: only queries with a deadline have a limit."""
        return nullcontext()

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
        with (
            translate_disk_errors(),
            translate_sqlite_errors(self._path),
            closing(self._connect()) as connection,
        ):
            connection.execute("VACUUM INTO :path", {"path": str(path)})

    @property
    def refuses_writes(self) -> bool:
        """Whether writes are refused, as `Database.refuses_writes`."""
        return self._moved.exists()

    def refuse_writes(self) -> None:
        """Refuse writes by a file that each transaction looks for, of any process."""
        with self.transaction():
            write_file(self._moved, b"")

    def allow_writes(self) -> None:
        """Allow writes again."""
        self._moved.unlink(missing_ok=True)
        sync_directory(self._moved.parent)

    def request_lock(self, name: str, seconds: float) -> AbstractContextManager[bool]:  # noqa: ARG002
        """Hold no lock: no other host shares the file."""
        return nullcontext(True)

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

    def _discard_failed_commit(self) -> None:
        """Overwrite what a failed COMMIT has left in the log. The caller holds the write lock.

        If its sync failed, the log has the whole transaction, which a process that recovers the log after a
        crash would apply (https://sqlite.org/walformat.html). The checksum of each frame continues that of
        the frame before, so another frame in place of the first invalidates all.
        """
        if not self._has_failed_commit:
            return
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            # Nothing uses this number.
            ((number,),) = self._writer.execute("PRAGMA user_version").fetchall()
            self._writer.execute(f"PRAGMA user_version = {int(number) + 1}")
            self._writer.execute("COMMIT")
        except BaseException:
            self._writer.rollback()
            raise
        self._has_failed_commit = False

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


class SqliteTransaction(Transaction):
    """An open write transaction; it reads its own writes.

    Args:
        connection: The writer's connection.

    Attributes:
        committed: What to call after the commit.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.committed: list[Callable[[], object]] = []

    @property
    def dialect(self) -> Dialect:
        """SQLite's."""
        return SQLITE

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        """Return all rows of a query, as `Database.fetch_all` does."""
        return _fetch_all(self._connection, sql, values, deadline)

    def execute(self, sql: str, values: Mapping[str, SqlValue]) -> int:
        """Execute a statement and return the number of rows that it changed."""
        return self._connection.execute(sql, values).rowcount

    def insert_numbered(self, table: str, row: Mapping[str, SqlValue], key: str) -> int:
        """Insert a row and return its key, as `Transaction.insert_numbered` does."""
        # SQLite's number of the row is the key of each table that has an integer key.
        del key
        return self._connection.execute(insert_statement(table, row), row).lastrowid or 0

    def insert_rows(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[SqlValue]]) -> None:
        """Insert many rows, as `Transaction.insert_rows` does."""
        placeholders = ", ".join("?" for _ in columns)
        # Table and column names are constants, never input.
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders})"  # noqa: S608
        self._connection.executemany(sql, rows)

    def invalidate(self, keys: Collection[str]) -> None:
        """Do nothing, as there is no other host."""


_NO_DEADLINE = nullcontext()


def _fetch_all(
    connection: sqlite3.Connection, sql: str, values: Mapping[str, SqlValue], deadline: float | None
) -> list[SqlRow]:
    # `sqlite_utils` takes twice as long for one row.
    with _NO_DEADLINE if deadline is None else _interrupt_after(connection, deadline):
        cursor = connection.execute(sql, values)
        rows = cursor.fetchall()
    names = [column[0] for column in cursor.description] if rows else []
    return [dict(zip(names, row, strict=True)) for row in rows]


@contextmanager
def _interrupt_after(connection: sqlite3.Connection, deadline: float) -> Iterator[None]:
    """Interrupt the queries of a connection after a deadline (https://sqlite.org/c3ref/progress_handler.html).

    Raises:
        UnavailableError: A query was interrupted.
    """
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_CHECKS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
            raise
        details = "expected the database to find these items in time but it did not"
        raise UnavailableError(details, retry_after=DATABASE_RETRY_SECONDS) from error
    finally:
        connection.set_progress_handler(None, 0)


@contextmanager
def translate_sqlite_errors(path: Path) -> Iterator[None]:
    """Translate SQLite's errors for a full disk, a busy database, and a disk or a file that is damaged."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        extended_code = getattr(error, "sqlite_errorcode", 0)
        code = extended_code & 0xFF
        # The second is that of the index of the log, which is shared memory in a file.
        if code == sqlite3.SQLITE_FULL or extended_code == sqlite3.SQLITE_IOERR_SHMSIZE:
            raise OSError(errno.ENOSPC, "the disk is full") from error
        if code == sqlite3.SQLITE_BUSY:
            raise UnavailableError(
                "expected the database's write lock in time but other processes are writing"
            ) from error
        if code in _FAILED:
            raise InternalError(f"expected a database at {str(path)!r} but received: {error}") from error
        raise
