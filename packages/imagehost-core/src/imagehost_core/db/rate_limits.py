"""The request counts of rate limit windows, exact across threads and processes.

They are in shared memory, so that the event loop of a server can count a request itself. After a power
failure the requests of the last seconds may be forgotten, which harms no client. In a running system every
count is exact, because it is read, decided on and written under one lock.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from zlib import crc32

from imagehost_core._util.clock import Clock, to_micros
from imagehost_core.limits import DAY, Decision, RateLimitPolicy, decide
from imagehost_core.storage import CounterTable, DiskReserve, LockManager


class RateLimitStore:
    """The rate limit counters of a data directory.

    Args:
        path: The file of the counters; it is created if needed.
        locks: The locks of the data directory: counting waits at a file lock, which needs no polling.
        clock: The source of the time. It is read while the lock is held, so that time does not run
            backwards from one count to the next.
        reserve: Released to count new keys on a full disk, because requests that delete are counted as well.
    """

    def __init__(
        self, path: Path, locks: LockManager, clock: Clock, reserve: DiskReserve | None = None
    ) -> None:
        self._reserve = reserve
        self._clock = clock
        self._lock = locks.named_lock("rate-limits")
        with self._lock:
            self._table = CounterTable(path)

    def admit(self, key: str, policy: RateLimitPolicy, cost: int = 1) -> Decision:
        """Decide on a request, and count it if it is admitted. A rejected request does not count.

        Args:
            key: What is limited, such as an account or an IP address.
            policy: The windows that apply.
            cost: The number of requests that it counts as; all of them are admitted, or none.

        Raises:
            InsufficientStorageError: There is no space for a new key.
        """
        if not _is_limited(policy):
            return decide(policy, {}, self._clock(), cost)
        with self._lock:
            return self._admit(key, policy, cost)

    def try_admit(self, key: str, policy: RateLimitPolicy, cost: int = 1) -> Decision | None:
        """Decide on a request as `admit` does, but without waiting.

        Returns:
            The decision; `None`, and nothing is counted, if another process or thread is counting now, or the
            table of counters must grow.
        """
        if not _is_limited(policy):
            return decide(policy, {}, self._clock(), cost)
        if not self._lock.try_acquire():
            return None
        try:
            if self._table.is_full and key not in self._table:
                return None
            return self._admit(key, policy, cost)
        finally:
            self._lock.release()

    def peek(self, key: str, policy: RateLimitPolicy) -> dict[str, int]:
        """Return the number of requests that each current window has admitted, by window name."""
        counters, second = self._table.read_unlocked(key), _to_seconds(self._clock())
        hits = {}
        for window in policy:
            start, count = counters.get(_counter_id(window.name), (0, 0))
            if start == second - second % window.seconds:
                hits[window.name] = count
        return hits

    def key_count(self) -> int:
        """Return the number of stored keys."""
        return len(self._table)

    def close(self) -> None:
        """Close the table and the lock file."""
        self._table.close()
        self._lock.close()

    def _admit(self, key: str, policy: RateLimitPolicy, cost: int) -> Decision:
        now = self._clock()
        second = _to_seconds(now)
        counters, hits = self._table.read(key), {}
        for window in policy:
            counter, start = _counter_id(window.name), second - second % window.seconds
            stored_start, count = counters.get(counter, (0, 0))
            hits[window.name] = count = count if stored_start == start else 0
            counters[counter] = (start, count + cost)
        decision = decide(policy, hits, now, cost)
        if decision.admitted and decision.window is not None:
            if self._reserve is not None and self._table.is_full:
                self._reserve.release()
            self._table.write(key, counters, oldest=second - DAY)
        return decision


_limit_of = attrgetter("limit")


def _is_limited(policy: RateLimitPolicy) -> bool:
    return any(map(_limit_of, policy))


@lru_cache
def _counter_id(name: str) -> int:
    """Return the id of a window's counter."""
    return crc32(name.encode()) or 1


def _to_seconds(time: datetime) -> int:
    return to_micros(time) // 1_000_000
