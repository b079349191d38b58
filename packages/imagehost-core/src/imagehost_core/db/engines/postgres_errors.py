"""Errors of PostgreSQL and of psycopg, as errors of imagehost."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from imagehost_core.db.engines.database import DATABASE_RETRY_SECONDS
from imagehost_core.errors import UnavailableError
from imagehost_core.storage.durable import translate_disk_full

_TOO_SLOW = (errors.QueryCanceled, errors.LockNotAvailable)
_CONFLICTS = (errors.DeadlockDetected, errors.SerializationFailure)
_FULL = (errors.DiskFull,)
_NOT_WRITABLE = (errors.ReadOnlySqlTransaction, errors.InsufficientResources)


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
            raise unavailable("a connection to the database in time but all are in use") from error
        except (*_NOT_WRITABLE, PoolClosed, TooManyRequests) as error:
            raise unavailable("the database to accept the statement but it did not") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise unavailable("a response of the database but received none") from error


def unavailable(expected: str) -> UnavailableError:
    """Return the error of a database that does not respond as expected."""
    return UnavailableError(f"expected {expected}", retry_after=DATABASE_RETRY_SECONDS)
