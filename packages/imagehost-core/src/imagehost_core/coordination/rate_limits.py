"""The request counts of rate limit windows, in memory that the processes of one host share.

They are exact across threads and processes, as each is read, decided on and written under one lock; and they
are in shared memory, so that the event loop of a server can count a request itself. After a power failure the
requests of the last seconds may be forgotten, which harms no client.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter, ne
from pathlib import Path
from zlib import crc32

from imagehost_core._util.clock import Clock, to_micros
from imagehost_core.coordination.counter_table import Counters, CounterTable
from imagehost_core.coordination.disk_reserve import DiskReserve
from imagehost_core.coordination.locks import LockManager
from imagehost_core.limits import DAY, Decision, RateLimitCounters, RateLimitPolicy, decide, first_hits


class RateLimitStore(RateLimitCounters):
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
        """Decide on a request, and count it if it is admitted, under the lock of the table."""
        if not _is_limited(policy):
            return decide(policy, {}, self._clock(), cost)
        with self._lock:
            return self._admit(key, policy, cost)

    def try_admit(self, key: str, policy: RateLimitPolicy, cost: int = 1) -> Decision | None:
        """Decide as `admit` does, unless another thread is counting now, or the table must grow."""
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

    def refund(self, key: str, policy: RateLimitPolicy) -> None:
        """Count one request less, if each current window has any."""
        with self._lock:
            if _is_limited(policy) and all(self.peek(key, policy).values()):
                self._admit(key, policy, -1)

    def peek(self, key: str, policy: RateLimitPolicy) -> dict[str, int]:
        """Return the number of requests that each current window has admitted, by window name."""
        counters = self._table.read_unlocked(key)
        second = to_micros(self._clock()) // 1_000_000
        return _hits(counters, _current(policy, second))

    def close(self) -> None:
        """Close the table and the lock file."""
        self._table.close()
        self._lock.close()

    def _admit(self, key: str, policy: RateLimitPolicy, cost: int) -> Decision:
        now = self._clock()
        second = to_micros(now) // 1_000_000
        counters = self._table.read(key)
        current = _current(policy, second)
        hits = _hits(counters, current)
        decision = decide(policy, hits, now, cost)
        counted = {counter: hits[name] + cost * decision.admitted for name, counter in current.items()}
        # A refused request is recorded where the clock was set to a window that was used before.
        if decision.admitted or any(counted[each] and _last(counters, each[0]) != each for each in counted):
            if self._reserve is not None and self._table.is_full:
                self._reserve.release()
            # Those counted last come first; mostly they do already.
            if any(map(ne, counters, counted)) or len(counters) < len(counted):
                counted |= counters | counted
            self._table.write(key, counted, in_use=range(second - DAY, second + DAY))
        return decision


_limit_of = attrgetter("limit")


def _is_limited(policy: RateLimitPolicy) -> bool:
    return any(map(_limit_of, policy))


def _current(policy: RateLimitPolicy, second: int) -> dict[str, tuple[int, int]]:
    """Return the id and the start of the counter of each current window, by its name."""
    return {window.name: (_counter_id(window.name), second - second % window.seconds) for window in policy}


def _hits(counters: Counters, current: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Return the hits of the current windows, by their names."""
    return {
        name: counters[counter] if counter in counters else _carried_hits(counters, *counter)
        for name, counter in current.items()
    }


def _carried_hits(counters: Counters, counter: int, start: int) -> int:
    """Return the hits that a window begins with."""
    last = _last(counters, counter)
    return 0 if last is None else first_hits(start, last[1], counters[last])


def _last(counters: Counters, counter: int) -> tuple[int, int] | None:
    """Return the counter of the window that was used last, of those with an id."""
    return next((each for each in counters if each[0] == counter), None)


@lru_cache
def _counter_id(name: str) -> int:
    """Return the id of a window's counter."""
    return crc32(name.encode()) or 1
