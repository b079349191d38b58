"""The database of a host: what its two engines, SQLite and PostgreSQL, have in common.

The repositories have one set of statements, with parameters like `:name`. What differs between the engines'
SQL is in `imagehost_core.db.engines.dialect`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from imagehost_core._util.clock import Clock, from_micros, to_micros
from imagehost_core._util.lru import GenerationCache
from imagehost_core.db.engines.dialect import Dialect, insert_statement
from imagehost_core.ids import AccountId, ImageId

SqlValue = str | int | bytes | None
"""A value of a column or parameter."""
SqlRow = dict[str, SqlValue]
"""A row of a result, by column name."""

DATABASE_RETRY_SECONDS = 5
"""`Retry-After` of a request that the database did not answer in time."""


ALL_IMAGES = "*"
"""The key that invalidates the cache entries of all images, as after the suspension of an account."""
PRINCIPALS = "principals"
"""The key that invalidates the principals of all tokens, and the purpose of the lock of their changes."""

_DELETED = "deleted:"


def deleted_image(image_id: ImageId) -> str:
    """Return the key that invalidates the cache entries and files of an image that is deleted."""
    return _DELETED + image_id


def parse_deleted_image(key: str) -> ImageId | None:
    """Return the image of a key from `deleted_image`, or `None` for another key."""
    return ImageId(key.removeprefix(_DELETED)) if key.startswith(_DELETED) else None


class Queryable(Protocol):
    """An object that runs queries: the database, or an open transaction."""

    @property
    def dialect(self) -> Dialect:
        """The SQL of the engine, where the engines differ."""

    def fetch_one(self, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
        """Return the first row of a query that has one or few, or `None`."""
        return next(iter(self.fetch_all(sql, values)), None)

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


class Transaction(Queryable, Protocol):
    """An open write transaction; it reads its own writes.

    Attributes:
        committed: What is called after the commit.
    """

    committed: list[Callable[[], object]]

    def execute(self, sql: str, values: Mapping[str, SqlValue]) -> int:
        """Execute a statement and return the number of rows that it changed."""

    def insert(self, table: str, row: Mapping[str, SqlValue]) -> None:
        """Insert a row."""
        self.execute(insert_statement(table, row), row)

    def insert_numbered(self, table: str, row: Mapping[str, SqlValue], key: str) -> int:
        """Insert a row whose key is assigned by the database, and return the key.

        Args:
            table: The table.
            row: The row without its key.
            key: The column of the key.
        """

    def insert_rows(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[SqlValue]]) -> None:
        """Insert many rows, given by their values in the order of the columns."""

    def invalidate(self, keys: Collection[str]) -> None:
        """Let other hosts invalidate cache entries before the transaction returns.

        The caller invalidates those of its own host.

        Args:
            keys: Ids of images, `deleted_image` of those that are deleted, `ALL_IMAGES`, or keys of other
                caches.
        """

    def on_commit(self, callback: Callable[[], object]) -> None:
        """Call `callback` once the transaction is durable and its locks are released."""
        self.committed.append(callback)


class Database(Queryable, Protocol):
    """What an engine does with the records of a host: read, write, lock, and copy."""

    @property
    def clock(self) -> Clock | None:
        """The clock that all hosts of the database have in common; `None`: that of the host."""

    def version(self) -> int | None:
        """Return a number that differs after any commit, of this process or of another.

        It changes no later than readers see the commit. `None`: the engine has no such number.
        """

    def transaction(
        self, account_id: AccountId | None = None, *, blind: bool = False
    ) -> AbstractContextManager[Transaction]:
        """Run a block in a write transaction: durable when the block ends, rolled back if it raises.

        What it has read does not change before it writes: no other transaction of its scope runs at the same
        time.

        A transaction whose commit has failed before, in this process, is not applied by the recovery after a
        crash: beginning another ensures it.

        If it invalidates cache entries, the block ends once no other host serves from memory what was before.

        Args:
            account_id: The scope, of a transaction that decides only by what belongs to one account. `None`:
                everything, so that it runs alone.
            blind: Whether it decides by nothing that it reads without a row lock; then it has no scope.

        Raises:
            InsufficientStorageError: The disk is full.
            UnavailableError: Another transaction of the scope did not end in time, or the database does not
                respond. If it does not respond to the commit, the change may be durable.
        """

    def without_time_limit(self) -> AbstractContextManager[None]:
        """Let the statements of a block take as long as they need, as those of maintenance must.

        The block must not yield to a caller. It may still have to wait for a lock, for a limited time.
        """

    @property
    def size_bytes(self) -> int:
        """The bytes of the database, with its write-ahead log where that belongs to it alone."""

    def copy_to(self, path: Path) -> None:
        """Write a consistent copy of the database to a SQLite file, while other connections use it.

        Args:
            path: A file that does not exist.

        Raises:
            InsufficientStorageError: The disk is full.
        """

    @property
    def refuses_writes(self) -> bool:
        """Whether writes are refused, because the host was or is being moved."""

    def refuse_writes(self) -> None:
        """Wait for writes in progress; let each later one raise UnavailableError, in all processes."""

    def allow_writes(self) -> None:
        """Allow writes again."""

    def request_lock(self, name: str, seconds: float) -> AbstractContextManager[bool]:
        """Hold the lock of a name while a block runs; no other host that shares the database holds it.

        The threads and processes of one host must exclude each other by other means.

        Args:
            name: The purpose and the resource.
            seconds: The longest time to wait. The block receives whether the lock was acquired.

        Raises:
            UnavailableError: The database does not respond.
        """

    def close(self) -> None:
        """Close all connections. No other thread may be using the database any more."""


def integer(row: SqlRow, name: str) -> int:
    """Return the value of an integer column."""
    value = row[name]
    assert isinstance(value, int), name
    return value


def text(row: SqlRow, name: str) -> str:
    """Return the value of a text column."""
    value = row[name]
    assert isinstance(value, str), name
    return value


def blob(row: SqlRow, name: str) -> bytes:
    """Return the value of a column of bytes."""
    value = row[name]
    assert isinstance(value, bytes), name
    return value


def timestamp(row: SqlRow, name: str) -> datetime:
    """Return the value of a timestamp column."""
    return from_micros(integer(row, name))


def optional_timestamp(row: SqlRow, name: str) -> datetime | None:
    """Return the value of a nullable timestamp column."""
    return None if row[name] is None else timestamp(row, name)


def to_optional_micros(value: datetime | None) -> int | None:
    """Return the value to store in a nullable timestamp column."""
    return None if value is None else to_micros(value)


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ReadCache(Generic[K, V]):
    """The latest results of one kind of read, which the next commit of any process invalidates; thread-safe.

    SQLite says in 8 µs whether anything was committed since, and a page of 20 images takes 200. So a result
    in memory is as current as one that is read now, and a page that many clients request between two commits
    is read once. PostgreSQL has no such number, so there every result is read.

    Args:
        database: The database that is read.
        max_weight: The limit on the total weight of all results.
        weigh: Returns the weight of a result; by default the results are counted.
    """

    def __init__(self, database: Database, max_weight: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._database = database
        self._results: GenerationCache[K, V] = GenerationCache(max_weight, weigh)

    def get(self, key: K, read: Callable[[], V]) -> V:
        """Return the result of a read, from memory if nothing was committed since it was read.

        Args:
            key: Everything that the result depends on beside the database.
            read: Reads the result; what it raises is not kept.
        """
        # The version is taken first: a commit before the read then only makes the result outdated at once.
        version = self._database.version()
        result = self._results.get(key, version)
        if result is None:
            result = read()
            self._results.put(key, result, version)
        return result
