"""The PostgreSQL engine: a pool of connections to a server that several hosts share.

Reads are single statements. Write transactions of one account run one after the other, by an advisory lock
on its id, at PostgreSQL's default level READ COMMITTED: each statement reads what was committed before it, so
a check and the write after it see the same rows. A transaction of no account excludes all others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import cast

import psycopg
from attrs import evolve, field, frozen
from psycopg.abc import QueryNoTemplate
from psycopg.rows import DictRow
from psycopg_pool import ConnectionPool

from imagehost_core._util.clock import SynchronizedClock
from imagehost_core.cluster.coherence import CacheCoherence
from imagehost_core.cluster.membership import INSERT_INVALIDATION, LEASE_SECONDS
from imagehost_core.cluster.postgres_connection import (
    PostgresConnection,
    connection_parameters,
    read_server_clock,
    translate_errors,
    translate_failed_connection,
    translate_missing_session,
    unavailable,
)
from imagehost_core.cluster.postgres_locks import PostgresRequestLocks
from imagehost_core.cluster.remote_changes import ProcessCaches
from imagehost_core.cluster.table_copy import COPIED, copy_to_sqlite
from imagehost_core.db.engines.database import Database, SqlRow, SqlValue, Transaction
from imagehost_core.db.engines.dialect import POSTGRES, Dialect, insert_statement, to_psycopg
from imagehost_core.db.engines.installation import EXISTS_IN_POSTGRES, SELECT
from imagehost_core.db.schema import postgres_migrations
from imagehost_core.errors import InstallationError, InternalError
from imagehost_core.ids import AccountId
from imagehost_core.installation import parse_record, require_known_migrations
from imagehost_core.observer import Observer, TransactionEnded, ignore
from imagehost_core.settings import SettingsError, redact_password

TIMEOUT_SECONDS = 5.0
"""Seconds that a request waits for a connection, and for other transactions."""
STATEMENT_TIMEOUT_SECONDS = 30.0
"""Seconds that a statement may take."""
_WRITERS, _WRITER_OF_ACCOUNT = 0x696D6701, 0x696D6702
"""The advisory locks (https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS): of all
write transactions, shared by those of accounts, and the class of the locks of accounts."""
_MIGRATION = 0x696D6703
_POOLER_CHECKS = 10
_RECONNECT_SECONDS = 4
"""Seconds for which the pool retries a connection, with growing pauses; after that the next request does."""
_MIGRATIONS_EXIST = EXISTS_IN_POSTGRES.replace("'installation'", "'migrations'")
_CREATE_MIGRATIONS = (
    "CREATE TABLE migrations (name TEXT PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT now())"
)
_REFUSES_WRITES = "SELECT 1 AS found FROM pg_trigger WHERE tgname = 'refuse_moved' LIMIT 1"
# The error is that of a standby (https://www.postgresql.org/docs/current/errcodes-appendix.html).
_REFUSE = """
CREATE OR REPLACE FUNCTION refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this host is moved to another' USING ERRCODE = 'read_only_sql_transaction';
END $$
"""
_TRIGGER = """
CREATE OR REPLACE TRIGGER refuse_moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {}
FOR EACH STATEMENT EXECUTE FUNCTION refuse_moved()
"""
_has_no_time_limit: ContextVar[bool] = ContextVar("has_no_time_limit", default=False)


class PostgresDatabase(Database):
    """A database on a PostgreSQL server.

    Args:
        url: The URL of the database, `postgresql://…`; it is migrated if needed.
        pool_size: The most connections of this process.
        timeout: Seconds that a request waits for a connection, and for other transactions.
        statement_timeout: Seconds that a statement may take.
        uses_server_clock: Whether the server's clock decides what several hosts compare; tests can have
            another.
        observe: Receives the measurements of transactions, of the pool and of cache coherence.

    Raises:
        EngineUnavailableError: The server does not respond.
        InternalError: The database has another encoding than UTF-8.
        InstallationError: The database must be migrated, which the role may not, or the role may not use
            the tables.
        SettingsError: The server refuses the user, its certificate is not valid, or a pooler before it gives
            the transactions of a connection to different sessions.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        timeout: float = TIMEOUT_SECONDS,
        statement_timeout: float = STATEMENT_TIMEOUT_SECONDS,
        uses_server_clock: bool = True,
        observe: Observer = ignore,
    ) -> None:
        self._observe = observe
        self._timeout, self._statement_timeout = timeout, statement_timeout
        self._coherence: CacheCoherence | None = None
        self._dialect = POSTGRES if uses_server_clock else evolve(POSTGRES, now=":now")
        self._parameters = connection_parameters(url)
        name = redact_password(url)
        with translate_failed_connection(name):
            connection = PostgresConnection.connect(**self._parameters)
        with translate_errors(), connection:
            connection.timeout = timeout
            with translate_missing_session(name, timeout):
                self._require_session_pooling(connection)
            connection.timeout = None
            clock = _migrate(connection)
            self._pool: ConnectionPool[PostgresConnection] = ConnectionPool(
                connection_class=PostgresConnection,
                kwargs=self._parameters,
                min_size=1,
                max_size=pool_size,
                timeout=timeout,
                reconnect_timeout=_RECONNECT_SECONDS,
                configure=self._configure,
                name="imagehost",
                open=True,
            )
        self._request_locks = PostgresRequestLocks(self._connect)
        self._clock = clock if uses_server_clock else None

    @property
    def dialect(self) -> Dialect:
        """PostgreSQL's."""
        return self._dialect

    @property
    def clock(self) -> SynchronizedClock | None:
        """The server's clock."""
        return self._clock

    def version(self) -> None:
        """Return `None`: whether anything was committed is known to the server only."""

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        """Return all rows of a query, as `Database.fetch_all` does."""
        with self._connection() as connection:
            return _fetch_all(connection, sql, values, deadline)

    @contextmanager
    def transaction(
        self, account_id: AccountId | None = None, *, blind: bool = False
    ) -> Iterator[Transaction]:
        """Run a block in a write transaction, as `Database.transaction` does.

        Raises:
            InsufficientStorageError: The server's disk is full.
            UnavailableError: Another transaction of the scope did not end in time, or the server does not
                respond. If it does not respond to the commit, the change may be durable.
        """
        called = time.perf_counter()
        coherence = self._coherence
        invalidated: dict[str, None] = {}
        transaction_id: int | None = None
        with self._connection() as connection:
            # One round trip: without parameters, a query may have several statements.
            connection.execute(_begin(account_id, blind=blind))
            started, committed = time.perf_counter(), False
            try:
                transaction = PostgresTransaction(connection, self._dialect, invalidated)
                yield transaction
                if invalidated and coherence is not None:
                    row = {"host": coherence.host, "origin": coherence.id, "keys": " ".join(invalidated)}
                    inserted = transaction.fetch_one(INSERT_INVALIDATION, row)
                    transaction_id = int(inserted["transaction_id"] or 0) if inserted else None
                _commit(connection)
                committed = True
            except BaseException:
                _roll_back(connection)
                raise
            finally:
                seconds = time.perf_counter() - started
                self._observe(TransactionEnded(started - called, seconds, committed))
        # The connection is free for others meanwhile, and no lock of the database is held.
        if transaction_id is not None and coherence is not None:
            coherence.wait_for_members(transaction_id)
        for callback in transaction.committed:
            callback()

    @contextmanager
    def without_time_limit(self) -> Iterator[None]:
        """Let the statements of a block take as long as they need, as `Database.without_time_limit` does."""
        token = _has_no_time_limit.set(True)
        try:
            yield
        finally:
            _has_no_time_limit.reset(token)

    def keep_coherent(self, caches: ProcessCaches) -> None:
        """Begin to apply the changes of other hosts to the caches of this process, by a thread."""
        self._coherence = CacheCoherence(
            self._connect_member, caches, self._clock, self._pool.get_stats, self._observe
        )
        self._coherence.start()

    @property
    def size_bytes(self) -> int:
        """The bytes of the database, without the server's write-ahead log."""
        row = self.fetch_one("SELECT pg_database_size(current_database()) AS bytes", {})
        return 0 if row is None else int(row["bytes"] or 0)

    def copy_to(self, path: Path) -> None:
        """Write a copy of the database at one instant to a SQLite file, as `Database.copy_to` does."""
        with self.without_time_limit(), self._connection() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                copy_to_sqlite(PostgresTransaction(connection, self._dialect, {}), path)
            finally:
                _roll_back(connection)

    @property
    def refuses_writes(self) -> bool:
        """Whether writes are refused, as `Database.refuses_writes`."""
        return self.fetch_one(_REFUSES_WRITES, {}) is not None

    def refuse_writes(self) -> None:
        """Refuse writes by triggers, which also other hosts obey that are connected already."""
        with self.without_time_limit(), self.transaction() as transaction:
            # It waits for all transactions that write, and lets none begin.
            transaction.execute(f"LOCK TABLE {', '.join(COPIED)} IN SHARE ROW EXCLUSIVE MODE", {})
            transaction.execute(_REFUSE, {})
            for table in COPIED:
                transaction.execute(_TRIGGER.format(table), {})

    def allow_writes(self) -> None:
        """Allow writes again."""
        with self.transaction() as transaction:
            transaction.execute("DROP FUNCTION IF EXISTS refuse_moved CASCADE", {})

    def request_lock(self, name: str, seconds: float) -> AbstractContextManager[bool]:
        """Hold the lock of a name while a block runs, as `Database.request_lock` does."""
        return self._request_locks.acquire(name, seconds)

    def close(self) -> None:
        """Close all connections. No other thread may be using the database any more."""
        if self._coherence is not None:
            self._coherence.close()
        self._request_locks.close()
        self._pool.close()

    @contextmanager
    def _connection(self) -> Iterator[PostgresConnection]:
        """Take a connection of the pool for a block; those that the server has ended are replaced before."""
        with translate_errors():
            deadline = time.monotonic() + self._timeout
            while (connection := self._pool.getconn(deadline - time.monotonic())).has_ended():
                self._pool.putconn(connection)
            is_unlimited = _has_no_time_limit.get()
            try:
                if is_unlimited:
                    connection.limit_statements(None)
                yield connection
            finally:
                if is_unlimited:
                    with suppress(psycopg.Error):
                        connection.limit_statements(self._statement_timeout)
                self._pool.putconn(connection)

    def _require_session_pooling(self, first: PostgresConnection) -> None:
        """Raise SettingsError if a pooler shares sessions between connections, as in transaction mode.

        Prepared statements, settings and locks of a connection would be those of others.
        """
        if _session(first) == first.info.backend_pid:
            return
        # A session is shared if two connections have it, or if one connection has two.
        with PostgresConnection.connect(**self._parameters) as second:
            second.timeout = first.timeout
            found = {(_session(first), _session(second)) for _ in range(_POOLER_CHECKS)}
        ((mine, other), *changed) = found
        if changed or mine == other:
            raise SettingsError(
                "expected a connection to PostgreSQL that keeps its session but a pooler, such as PgBouncer, "
                "gives it those of others: set pool_mode = session for this database, or connect to the "
                "server itself"
            )

    def _connect_member(self) -> psycopg.Connection[DictRow]:
        """Connect for the notifications of this process; a statement must end before a lease does."""
        connection = PostgresConnection.connect(**{**self._parameters, "connect_timeout": 2})
        connection.timeout = LEASE_SECONDS
        return connection

    def _configure(self, connection: PostgresConnection) -> None:
        try:
            connection.configure(self._timeout, self._statement_timeout)
        except BaseException:
            # The server may be shutting down.
            connection.close()
            raise

    def _connect(self) -> PostgresConnection:
        """Open a connection beside the pool."""
        connection = PostgresConnection.connect(**self._parameters)
        self._configure(connection)
        return connection


@frozen
class PostgresTransaction(Transaction):
    """An open write transaction; it reads its own writes.

    Attributes:
        committed: What to call after the commit.
    """

    _connection: PostgresConnection = field(repr=False)
    dialect: Dialect = field(repr=False)
    _invalidated: dict[str, None] = field(repr=False)
    committed: list[Callable[[], object]] = field(factory=list, repr=False)

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        """Return all rows of a query, as `Database.fetch_all` does."""
        with translate_errors():
            return _fetch_all(self._connection, sql, values, deadline)

    def execute(self, sql: str, values: Mapping[str, SqlValue]) -> int:
        """Execute a statement and return the number of rows that it changed."""
        with translate_errors():
            return _execute(self._connection, sql, values).rowcount

    def insert_numbered(self, table: str, row: Mapping[str, SqlValue], key: str) -> int:
        """Insert a row and return its key, as `Transaction.insert_numbered` does."""
        sql = f"{insert_statement(table, row)} RETURNING {key}"
        inserted = self.fetch_one(sql, row)
        assert inserted is not None, table
        return int(inserted[key] or 0)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[SqlValue]]) -> None:
        """Insert many rows by COPY (https://www.postgresql.org/docs/current/sql-copy.html)."""
        statement = cast(QueryNoTemplate, f"COPY {table} ({', '.join(columns)}) FROM STDIN")
        with translate_errors(), self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def invalidate(self, keys: Collection[str]) -> None:
        """Let other hosts invalidate cache entries; the keys are stored before the commit."""
        self._invalidated.update(dict.fromkeys(keys))


def _begin(account_id: AccountId | None, *, blind: bool) -> str:
    """Return the statements that begin a transaction and wait for others of its scope."""
    if account_id is None and not blind:
        return f"BEGIN; SELECT pg_advisory_xact_lock({_WRITERS})"
    begin = f"BEGIN; SELECT pg_advisory_xact_lock_shared({_WRITERS})"
    if account_id is None:
        return begin
    # Two accounts whose ids differ by 2^31 have one lock.
    return f"{begin}; SELECT pg_advisory_xact_lock({_WRITER_OF_ACCOUNT}, {account_id & 0x7FFF_FFFF})"


def _commit(connection: PostgresConnection) -> None:
    """Commit a transaction.

    Raises:
        InternalError: A statement failed, and the block went on: nothing is stored.
        UnavailableError: No synchronous standby has confirmed the commit: a failover may lose it.
    """
    connection.warning = None
    # PostgreSQL responds to the commit of a failed transaction with ROLLBACK, and without an error.
    if connection.execute("COMMIT").statusmessage != "COMMIT":
        raise InternalError("expected a transaction to end with its first error but it went on")
    # If its wait for the standby is cancelled, it responds with COMMIT and a warning.
    if connection.warning is not None:
        raise unavailable(f"a commit without a warning but received: {connection.warning}")


def _roll_back(connection: PostgresConnection) -> None:
    """Roll back a transaction; a connection that cannot is closed, so that the pool replaces it."""
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _execute(
    connection: PostgresConnection, sql: str, values: Mapping[str, SqlValue]
) -> psycopg.Cursor[DictRow]:
    return connection.execute(cast(QueryNoTemplate, to_psycopg(sql)), values)


def _fetch_all(
    connection: PostgresConnection, sql: str, values: Mapping[str, SqlValue], deadline: float | None
) -> list[SqlRow]:
    if deadline is not None and time.monotonic() >= deadline:
        raise unavailable("the database to find these items in time but it did not")
    connection.deadline = deadline
    try:
        return _execute(connection, sql, values).fetchall()
    finally:
        connection.deadline = None


def _session(connection: psycopg.Connection[DictRow]) -> int:
    """Return the process ID of the server's session."""
    row = connection.execute("SELECT pg_backend_pid() AS pid", prepare=False).fetchone()
    assert row is not None
    return int(row["pid"])


def _migrate(connection: psycopg.Connection[DictRow]) -> SynchronizedClock:
    """Apply the migrations that a database does not have, one process at a time and all or none.

    Returns:
        The clock of the server.
    """
    with connection.transaction():
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise InternalError(f"expected a database with the encoding UTF8 but received {encoding}")
        connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATION})")
        # A role that may not create tables can serve a database that is up to date.
        if connection.execute(_MIGRATIONS_EXIST).fetchone() is None:
            _change(connection, _CREATE_MIGRATIONS)
        try:
            applied = {row["name"] for row in connection.execute("SELECT name FROM migrations")}
        except psycopg.errors.InsufficientPrivilege as error:
            raise InstallationError(
                f"expected a role that may read and write the tables but {connection.info.user} may not "
                f"({error.diag.message_primary}): GRANT it SELECT, INSERT, UPDATE and DELETE as their owner"
            ) from error
        has_record = connection.execute(EXISTS_IN_POSTGRES).fetchone() is not None
        row = connection.execute(SELECT).fetchone() if has_record else None
        record = None if row is None else parse_record(row["record"], "the database")
        require_known_migrations(applied, postgres_migrations.keys(), record, "the database")
        missing = [name for name in postgres_migrations if name not in applied]
        if missing:
            # Otherwise a writer that has one table and waits for another is in a deadlock with it.
            connection.execute(f"SELECT pg_advisory_xact_lock({_WRITERS})")
        for name in missing:
            for statement in postgres_migrations[name]:
                _change(connection, statement)
            connection.execute("INSERT INTO migrations (name) VALUES (%s)", [name])
        return SynchronizedClock(partial(read_server_clock, connection))


def _change(connection: psycopg.Connection[DictRow], statement: str) -> None:
    """Execute a statement that changes the schema.

    Raises:
        InstallationError: The role may not.
    """
    try:
        connection.execute(cast(QueryNoTemplate, statement))
    except psycopg.errors.InsufficientPrivilege as error:
        raise InstallationError(
            f"expected a database that is up to date but the role {connection.info.user} may not migrate it "
            f"({error.diag.message_primary}): run `imagehost upgrade` as the owner of the database"
        ) from error
