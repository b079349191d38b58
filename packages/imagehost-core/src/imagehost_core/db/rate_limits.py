"""The counts of requests in their windows, true between threads and processes.

They live in a file of their own, without a sync at each write: after a power cut a few requests of
the last seconds may be forgotten, which costs nobody anything. Within a running system every count
is exact, because reading, deciding and writing happen under one lock.
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
CREATE TABLE IF NOT EXISTS counts (
    bucket TEXT PRIMARY KEY,
    hits TEXT NOT NULL,
    touched INTEGER NOT NULL
) WITHOUT ROWID
"""
_PRUNE_EVERY = 1_000
"""After how many new buckets the old ones are thrown away."""

Hits = dict[str, tuple[int, int]]
"""By window: when it began, and how many requests it has admitted. Kept as words: name, beginning, count."""


class RateLimitStore:
    """The counts of a data folder.

    Args:
        path: Their file; it is made if there is none.
        locks: Of the data folder: whoever counts queues there, where waiting costs no polling.
        clock: The source of the time. It is read while the lock is held, so that time does not run
            backwards from one count to the next.
        reserve: Room for counting on a full disk: whoever wants to delete something is counted too.
    """

    def __init__(
        self, path: Path, locks: LockManager, clock: Clock, reserve: DiskReserve | None = None
    ) -> None:
        self._reserve = reserve
        self._clock = clock
        self._threads = threading.Lock()
        self._new = 0
        self._gate = locks.named_lock("count")
        with self._gate.acquire():
            path.touch(OWNER_ONLY_FILE)
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.execute(_SCHEMA)

    def admit(self, bucket: str, policy: RateLimitPolicy) -> Decision:
        """Count one more request, if it is admitted.

        Contract 9: *a request that is refused does not count*.

        Args:
            bucket: Whose requests are counted.
            policy: The windows that it falls into.
        """
        if not any(window.limit for window in policy):
            return decide(policy, {}, self._clock())
        with self._threads, self._gate.acquire():
            now = self._clock()
            hits = self._read(bucket)
            decision = decide(policy, _current(policy, hits, now), now)
            if decision.admitted and decision.window is not None:
                for window in policy:
                    start, count = hits.get(window.name, (0, 0))
                    began = window.start(now)
                    hits[window.name] = (began, count + 1 if start == began else 1)
                self._write(bucket, hits, now)
        return decision

    def peek(self, bucket: str, policy: RateLimitPolicy) -> dict[str, int]:
        """Return how many requests each window has admitted so far, by the window's name."""
        with self._threads:
            return _current(policy, self._read(bucket), self._clock())

    def keys(self) -> int:
        """Return how many buckets are kept."""
        with self._threads:
            (count,) = self._connection.execute("SELECT count(*) FROM counts").fetchone()
        return int(count)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        self._gate.close()

    def _read(self, bucket: str) -> Hits:
        row = self._connection.execute("SELECT hits FROM counts WHERE bucket = ?", (bucket,)).fetchone()
        words = iter(row[0].split() if row else ())
        return {
            name: (int(start), int(count)) for name, start, count in zip(words, words, words, strict=True)
        }

    def _write(self, bucket: str, hits: Hits, now: datetime) -> None:
        if self._reserve is not None:
            self._reserve.release()
        touched = int(now.timestamp())
        text = " ".join(f"{name} {start} {count}" for name, (start, count) in hits.items())
        known = self._connection.execute(
            "UPDATE counts SET hits = ?, touched = ? WHERE bucket = ?", (text, touched, bucket)
        ).rowcount
        if known:
            return
        self._connection.execute("INSERT INTO counts VALUES (?, ?, ?)", (bucket, text, touched))
        self._new += 1
        if self._new % _PRUNE_EVERY == 0:
            self._connection.execute("DELETE FROM counts WHERE touched < ?", (touched - DAY,))


def _current(policy: RateLimitPolicy, hits: Hits, now: datetime) -> dict[str, int]:
    """Return the counts of the windows that hold `now`; those of windows that have ended are nothing."""
    return {
        window.name: hits[window.name][1]
        for window in policy
        if window.name in hits and hits[window.name][0] == window.start(now)
    }
