"""Connections to PostgreSQL that wait for the server for a limited time."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from selectors import EVENT_READ, DefaultSelector
from typing import Any, TypeVar

import psycopg
from psycopg import errors, pq
from psycopg.abc import PQGen
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import Diagnostic
from psycopg.rows import DictRow, dict_row
from psycopg.types.numeric import Int8Dumper, IntLoader
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from imagehost_core._util.clock import from_micros
from imagehost_core._util.durable import translate_disk_full
from imagehost_core.db.engines.database import DATABASE_RETRY_SECONDS
from imagehost_core.db.engines.dialect import POSTGRES
from imagehost_core.errors import EngineUnavailableError, UnavailableError
from imagehost_core.settings import SettingsError

_TOO_SLOW = (errors.QueryCanceled, errors.LockNotAvailable)
_CONFLICTS = (errors.DeadlockDetected, errors.SerializationFailure)
_FULL = (errors.DiskFull,)
_NOT_WRITABLE = (errors.ReadOnlySqlTransaction, errors.InsufficientResources)
_REFUSED = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|role .* does not exist"
    r"|certificate|SSL was required|unsupported startup parameter"
)
"""What libpq says of connections that a later attempt would not make either; failed connections have no
SQLSTATE. Other texts, such as those of another language of the server, can be of a server that is late."""


@contextmanager
def translate_failed_connection(name: str) -> Iterator[None]:
    """Translate the error of the first connection, with the text of the driver.

    Args:
        name: The URL of the database, without its password.

    Raises:
        EngineUnavailableError: There is no server, or no such database, yet.
        SettingsError: The server refuses the user, a pooler refuses a parameter of the URL such as
            `options`, or a certificate is not valid.
    """
    try:
        yield
    except psycopg.OperationalError as error:
        received = " ".join(str(error).split())
        details = f"expected a connection to {name} but received: {received}"
        if _REFUSED.search(received):
            raise SettingsError(details) from error
        raise EngineUnavailableError("database", details) from error


@contextmanager
def translate_missing_session(name: str, seconds: float) -> Iterator[None]:
    """Translate the error of the first statement of a connection, to which a pooler gives no session.

    Args:
        name: The URL of the database, without its password.
        seconds: The time that the statement was given.

    Raises:
        EngineUnavailableError: There was no response.
    """
    try:
        yield
    except psycopg.OperationalError as error:
        received = " ".join(str(error).split())
        raise EngineUnavailableError(
            "database",
            f"expected a session of {name} within {seconds:g} s but received: {received}; if it is that of a "
            "pooler such as PgBouncer, its pool is full: raise default_pool_size to the connections of all "
            "processes and commands",
        ) from error


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of a server that does not respond, is full, or was too slow.

    Raises:
        InsufficientStorageError: The server's disk is full.
        UnavailableError: The server did not execute a statement, now or in time.
    """
    with translate_disk_full():
        try:
            yield
        except _FULL as error:
            raise OSError(errno.ENOSPC, "the disk of the database server is full") from error
        except _TOO_SLOW as error:
            raise unavailable("the database to finish in time but it did not") from error
        except _CONFLICTS as error:
            raise unavailable("no conflict in the database but a concurrent change caused one") from error
        except PoolTimeout as error:
            raise unavailable("a connection to the database in time but received none") from error
        except (*_NOT_WRITABLE, PoolClosed, TooManyRequests) as error:
            raise unavailable("the database to accept the statement but it did not") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise unavailable("a response of the database but received none") from error


def unavailable(expected: str) -> UnavailableError:
    """Return the error of a database that does not respond as expected."""
    return UnavailableError(f"expected {expected}", retry_after=DATABASE_RETRY_SECONDS)


T = TypeVar("T")

_CONNECT_SECONDS = 5
_GRACE_SECONDS = 2.0
"""Seconds beyond the timeout of a statement after which a server that does not respond is given up."""
_CANCEL_SECONDS = 1
"""Seconds that asking the server to cancel a statement may take."""
_PARAMETERS: dict[str, str | int] = {
    "connect_timeout": _CONNECT_SECONDS,
    # A server that was cut off is noticed, though it sends nothing.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    # Of several servers in the URL, the one that is not a standby.
    "target_session_attrs": "read-write",
    "application_name": "imagehost",
    "client_encoding": "UTF8",
}
"""Parameters of connections that the URL does not set
(https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS)."""


def connection_parameters(url: str) -> dict[str, Any]:
    """Return the arguments of `PostgresConnection.connect` for the URL of a database."""
    return {"autocommit": True, "row_factory": dict_row, **_PARAMETERS, **conninfo_to_dict(url)}


def read_server_clock(connection: psycopg.Connection[DictRow]) -> datetime:
    """Return the time of the server's clock."""
    row = connection.execute(f"SELECT {POSTGRES.now} AS micros".encode()).fetchone()
    assert row is not None
    return from_micros(row["micros"])


class TextDumper(Dumper):
    """Sends a text without what PostgreSQL cannot store: NUL and surrogates are replaced.

    Texts to be stored are validated before and have neither, so a search for such a text finds nothing.
    """

    def dump(self, obj: str) -> bytes:
        """Return the text in UTF-8."""
        return obj.replace("\0", "\ufffd").encode(errors="replace")


class PostgresConnection(psycopg.Connection[DictRow]):
    """A connection that waits for the server no longer than until a deadline.

    Attributes:
        timeout: The longest time of a statement, in seconds.
        deadline: The time of `time.monotonic` after which the current statement is given up.
        warning: The last warning of the server, or `None`.
    """

    timeout: float | None = None
    deadline: float | None = None
    warning: str | None = None

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait for a response, as `psycopg.Connection.wait` does, but until the deadline at the latest.

        The connection is closed if there is none, because the server may be frozen or cut off.
        """
        if timeout is None:
            timeout = self.timeout
            if self.deadline is not None:
                timeout = max(0.0, self.deadline - time.monotonic())
        try:
            return super().wait(gen, interval, timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                with suppress(psycopg.Error):
                    self.cancel_safe(timeout=_CANCEL_SECONDS)
                self.pgconn.finish()
            raise

    def has_ended(self) -> bool:
        """Return whether the server has ended the session, as far as it has told; without a round trip."""
        if self.closed:
            return True
        try:
            with DefaultSelector() as selector:
                selector.register(self.pgconn.socket, EVENT_READ)
                # What arrives without a request is a notice, a part of the TLS handshake, or the end.
                while selector.select(0):
                    self.pgconn.consume_input()
        except psycopg.OperationalError:
            self.pgconn.finish()
        return self.closed

    def configure(self, lock_timeout: float, statement_timeout: float) -> None:
        """Set up a new connection.

        Args:
            lock_timeout: The longest time that a statement waits for a lock, in seconds.
            statement_timeout: The longest time of a statement, in seconds.
        """
        self.add_notice_handler(self._receive_notice)
        self.adapters.register_dumper(int, Int8Dumper)
        self.adapters.register_dumper(str, TextDumper)
        self.adapters.register_loader("numeric", IntLoader)
        # A plan for any values could sort a whole list to find a page of it.
        settings = {"plan_cache_mode": "force_custom_plan", "jit": "off", "lock_timeout": _ms(lock_timeout)}
        # To start parallel workers takes longer than the statements of requests.
        settings["max_parallel_workers_per_gather"] = "0"
        self._set(settings | self._limits(statement_timeout))

    def _receive_notice(self, notice: Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self.warning = notice.message_primary

    def limit_statements(self, statement_timeout: float | None) -> None:
        """Change the longest time of a statement, in seconds; `None`: no limit."""
        self._set(self._limits(statement_timeout))

    def _limits(self, statement_timeout: float | None) -> dict[str, str]:
        self.timeout = None if statement_timeout is None else statement_timeout + _GRACE_SECONDS
        seconds = statement_timeout or 0
        return {
            "statement_timeout": _ms(seconds),
            # Of a process that stops in the middle of a transaction.
            "idle_in_transaction_session_timeout": _ms(2 * seconds),
        }

    def _set(self, settings: dict[str, str]) -> None:
        self.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))


def _ms(seconds: float) -> str:
    return str(round(1_000 * seconds))
