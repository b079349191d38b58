"""The choice of the engine that a host's records are in."""

from __future__ import annotations

from pathlib import Path

from imagehost_core._util.clock import Clock, utc_now
from imagehost_core.db.engines.database import Database
from imagehost_core.db.engines.rate_limits import PostgresRateLimitStore, RateLimitStore
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.observer import Observer, ignore
from imagehost_core.settings import SQLITE, PostgresSettings, SettingsError
from imagehost_core.storage import DiskReserve
from imagehost_core.storage.locks import LockManager


def open_database(
    database: str,
    path: Path,
    locks: LockManager,
    postgres: PostgresSettings,
    *,
    clock: Clock = utc_now,
    observe: Observer = ignore,
) -> Database:
    """Open a database, and migrate it if needed.

    Args:
        database: `sqlite`, or the URL of a PostgreSQL database.
        path: The file of a SQLite database.
        locks: The locks of the data directory.
        postgres: The connections to PostgreSQL.
        clock: The clock of the host. Another than the system's replaces that of the server too.
        observe: Receives the measurement of each transaction.

    Raises:
        InternalError: It is no database of a host, or is damaged.
        SettingsError: The packages of the engine are not installed.
        UnavailableError: The server does not respond.
    """
    if database == SQLITE:
        return SqliteDatabase(path, locks, observe=observe)
    return open_postgres(database, postgres, clock=clock, observe=observe)


def open_postgres(
    url: str, settings: PostgresSettings, *, clock: Clock = utc_now, observe: Observer = ignore
) -> Database:
    """Open a PostgreSQL database, and migrate it if needed.

    Args:
        url: Its URL.
        settings: The connections to it.
        clock: The clock of the host, as for `open_database`.
        observe: Receives the measurement of each transaction.

    Raises:
        InternalError: It is no database of a host.
        SettingsError: The packages of the engine are not installed.
        UnavailableError: The server does not respond.
    """
    try:
        from imagehost_core.db.engines.postgres_database import PostgresDatabase
    except ImportError as error:
        expected = "psycopg and psycopg-pool, which `pip install 'imagehost-core[postgres]'` installs,"
        raise SettingsError(f"expected {expected} for PostgreSQL but received: {error}") from error
    return PostgresDatabase(
        url,
        pool_size=settings.pool_size,
        timeout=settings.timeout_seconds,
        statement_timeout=settings.statement_timeout_seconds,
        uses_server_clock=clock is utc_now,
        observe=observe,
    )


def open_rate_limits(
    database: Database, path: Path, locks: LockManager, clock: Clock, reserve: DiskReserve
) -> RateLimitStore | PostgresRateLimitStore:
    """Open the counters of rate limits: in the database if several hosts share it, else in shared memory.

    Args:
        database: The database of the host.
        path: The file of counters in shared memory.
        locks: The locks of the data directory.
        clock: The clock of the host. Another than the system's replaces that of the database server too.
        reserve: Released to count new keys on a full disk.
    """
    if database.dialect.is_shared:
        return PostgresRateLimitStore(database, None if clock is utc_now else clock)
    return RateLimitStore(path, locks, clock, reserve)
