"""Locks of requests across the hosts that share a database, held while the requests run.

They are advisory locks of one session, so the server releases those of a process that dies, or is cut off for
longer than its keepalives last. A connection for each lock would exhaust the pool while clients send bodies.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b

import psycopg

from imagehost_core.cluster.postgres_connection import PostgresConnection, translate_errors

_POLL_SECONDS = 0.05


class PostgresRequestLocks:
    """Locks of names, in one session.

    Args:
        connect: Opens the connection.
    """

    def __init__(self, connect: Callable[[], PostgresConnection]) -> None:
        self._connect = connect
        self._mutex = threading.Lock()
        self._session: PostgresConnection | None = None

    @contextmanager
    def acquire(self, name: str, seconds: float) -> Iterator[bool]:
        """Hold the lock of a name, as `Database.request_lock` does."""
        key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True)
        deadline = time.monotonic() + seconds
        while (session := self._try_lock(key)) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        try:
            yield session is not None
        finally:
            if session is not None:
                # A session that has ended holds no locks.
                with self._mutex, suppress(psycopg.Error):
                    session.execute(f"SELECT pg_advisory_unlock({key})")

    def close(self) -> None:
        """End the session."""
        with self._mutex:
            self._end()

    def _try_lock(self, key: int) -> PostgresConnection | None:
        """Return the session if it has acquired a lock; `None` if another session has it."""
        with self._mutex, translate_errors():
            if self._session is None or self._session.closed:
                self._session = self._connect()
            try:
                row = self._session.execute(f"SELECT pg_try_advisory_lock({key}) AS acquired").fetchone()
            except psycopg.Error:
                self._end()
                raise
            return self._session if row is not None and row["acquired"] else None

    def _end(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
