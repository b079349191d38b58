"""Errors of PostgreSQL and of psycopg, as errors of imagehost."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from imagehost_core.db.engines.database import DATABASE_RETRY_SECONDS
from imagehost_core.errors import EngineUnavailableError, UnavailableError
from imagehost_core.settings import SettingsError
from imagehost_core.storage.durable import translate_disk_full

_TOO_SLOW = (errors.QueryCanceled, errors.LockNotAvailable)
_CONFLICTS = (errors.DeadlockDetected, errors.SerializationFailure)
_FULL = (errors.DiskFull,)
_NOT_WRITABLE = (errors.ReadOnlySqlTransaction, errors.InsufficientResources)
_REFUSED = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|role .* does not exist"
    r"|certificate|SSL was required"
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
        SettingsError: The server refuses the user, or a certificate is not valid.
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
