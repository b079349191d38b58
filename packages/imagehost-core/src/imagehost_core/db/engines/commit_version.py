"""The number of a SQLite file's last commit, which takes a system call only after a commit.

SQLite tells whether another connection has committed, but locks and unlocks a byte of a file for it. So
processes that commit change a generation in shared memory, before and after: while it stays, so does the
number. What another program commits, such as the shell of SQLite, is noticed within `RECHECK_SECONDS`.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from imagehost_core.storage.generations import GenerationTable
from imagehost_core.storage.locks import LockManager

RECHECK_SECONDS = 0.1
_COMMITS: Final = "commits"
"""The purpose of the lock that a commit holds, and the name of the file of its generation."""
_KEY: Final = ""
"""The key of the generation, which has the same lock as a purpose that has one lock."""


class CommitVersion:
    """The number of the last commit.

    Args:
        connection: A connection for this object alone; it is closed with it.
        locks: The locks of the data directory, which every process that commits uses.
        clock: The source of the time, in seconds.
    """

    def __init__(
        self, connection: sqlite3.Connection, locks: LockManager, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._connection_lock = threading.Lock()
        self._lock = locks.named_lock(_COMMITS)
        self._clock = clock
        self._generations = GenerationTable(locks.path / _COMMITS)
        self._generations.repair(locks, _COMMITS)
        # The generation before the number was read, the number, and when it is read again in any case.
        self._known: tuple[int | None, int, float] = (None, 0, 0.0)

    def read(self) -> int:
        """Return the number.

        It is SQLite's `data_version` (https://sqlite.org/pragma.html#pragma_data_version), whose values are
        comparable within one connection. It changes no later than readers see the commit.
        """
        now, generation = self._clock(), self._generations.read(_KEY)
        known_generation, version, recheck_at = self._known
        # During a commit there is no generation, so that SQLite is asked each time.
        if generation is None or generation != known_generation or now >= recheck_at:
            with self._connection_lock:
                # All rows are fetched, as an unfinished query would keep its snapshot of the database.
                ((version,),) = self._connection.execute("PRAGMA data_version").fetchall()
            self._known = generation, int(version), now + RECHECK_SECONDS
        return int(version)

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Run a block that commits a transaction, whether it succeeds or not.

        The lock is that of the generation: SQLite's is free as soon as the transaction is committed.
        """
        with self._lock, self._generations.bump(_KEY):
            yield

    def close(self) -> None:
        """Close the connection, and the files of the generation and of the lock."""
        self._connection.close()
        self._generations.close()
        self._lock.close()
