"""The request counts of rate limit windows, exact across threads and processes.

They are stored in a database file of their own, which is not synced at each write: after a power
failure the requests of the last seconds may be forgotten, which harms no client. In a running system
every count is exact, because it is read, decided on and written under one lock.
"""

from __future__ import annotations

import sqlite3
import threading
from datetime import datetime
from pathlib import Path

from imagehost_core._util.clock import Clock
from imagehost_core.limits import DAY, Decision, RateLimitPolicy, decide
from imagehost_core.storage import DiskReserve, LockManager
from imagehost_core.storage.durable import OWNER_ONLY_FILE

_SCHEMA = """
CREATE TABLE IF NOT EXISTS rate_limits (
    key TEXT PRIMARY KEY,
    windows TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID
"""
_PRUNE_INTERVAL = 1_000
"""Old keys are deleted after this many insertions of new ones."""

WindowCounts = dict[str, tuple[int, int]]
"""By window name: its start as a Unix timestamp, and the requests admitted since. Stored as text, words
separated by spaces: name, start, count."""


class RateLimitStore:
    """The rate limit counters of a data directory.

    Args:
        path: The database file; it is created if needed.
        locks: The locks of the data directory: counting waits at a file lock, which needs no polling.
        clock: The source of the time. It is read while the lock is held, so that time does not run
            backwards from one count to the next.
        reserve: Released to count on a full disk, because requests that delete are counted as well.
    """

    def __init__(
        self, path: Path, locks: LockManager, clock: Clock, reserve: DiskReserve | None = None
    ) -> None:
        self._reserve = reserve
        self._clock = clock
        self._thread_lock = threading.Lock()
        self._insertions = 0
        self._file_lock = locks.named_lock("rate-limits")
        with self._file_lock.acquire():
            path.touch(OWNER_ONLY_FILE)
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.execute(_SCHEMA)

    def admit(self, key: str, policy: RateLimitPolicy, cost: int = 1) -> Decision:
        """Decide on a request, and count it if it is admitted. A rejected request does not count.

        Args:
            key: What is limited, such as an account or an IP address.
            policy: The windows that apply.
            cost: The number of requests that it counts as; all of them are admitted, or none.
        """
        if not any(window.limit for window in policy):
            return decide(policy, {}, self._clock(), cost)
        with self._thread_lock, self._file_lock.acquire():
            now = self._clock()
            counts = self._read(key)
            decision = decide(policy, _current(policy, counts, now), now, cost)
            if decision.admitted and decision.window is not None:
                for window in policy:
                    stored_start, count = counts.get(window.name, (0, 0))
                    start = window.start(now)
                    counts[window.name] = (start, (count if stored_start == start else 0) + cost)
                self._write(key, counts, now)
        return decision

    def peek(self, key: str, policy: RateLimitPolicy) -> dict[str, int]:
        """Return the number of requests that each current window has admitted, by window name."""
        with self._thread_lock:
            return _current(policy, self._read(key), self._clock())

    def key_count(self) -> int:
        """Return the number of stored keys."""
        with self._thread_lock:
            (count,) = self._connection.execute("SELECT count(*) FROM rate_limits").fetchone()
        return int(count)

    def close(self) -> None:
        """Close the connection and the lock file."""
        self._connection.close()
        self._file_lock.close()

    def _read(self, key: str) -> WindowCounts:
        row = self._connection.execute("SELECT windows FROM rate_limits WHERE key = ?", (key,)).fetchone()
        words = iter(row[0].split() if row else ())
        return {
            name: (int(start), int(count)) for name, start, count in zip(words, words, words, strict=True)
        }

    def _write(self, key: str, counts: WindowCounts, now: datetime) -> None:
        if self._reserve is not None:
            self._reserve.release()
        updated_at = int(now.timestamp())
        windows = " ".join(f"{name} {start} {count}" for name, (start, count) in counts.items())
        updated_rows = self._connection.execute(
            "UPDATE rate_limits SET windows = ?, updated_at = ? WHERE key = ?", (windows, updated_at, key)
        ).rowcount
        if updated_rows:
            return
        self._connection.execute("INSERT INTO rate_limits VALUES (?, ?, ?)", (key, windows, updated_at))
        self._insertions += 1
        if self._insertions % _PRUNE_INTERVAL == 0:
            self._connection.execute("DELETE FROM rate_limits WHERE updated_at < ?", (updated_at - DAY,))


def _current(policy: RateLimitPolicy, counts: WindowCounts, now: datetime) -> dict[str, int]:
    """Return the counts of the windows that contain `now`, by window name."""
    return {
        window.name: counts[window.name][1]
        for window in policy
        if window.name in counts and counts[window.name][0] == window.start(now)
    }
