"""The request counts of rate limit windows: in memory that processes share, or in PostgreSQL.

Of one host they are exact across threads and processes, as each is read, decided on and written under one
lock; and they are in shared memory, so that the event loop of a server can count a request itself. After a
power failure the requests of the last seconds may be forgotten, which harms no client.

In PostgreSQL they are exact across all hosts that share it. One statement counts a request: a function of
the database locks the row of the key, reads the clock of the server, and counts the request if every window
admits it. Nothing of it waits for a disk: the table is not logged, so a crash of the server may forget the
counts of the last windows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from itertools import count
from operator import attrgetter, ne
from pathlib import Path
from zlib import crc32

from imagehost_core._util.clock import Clock, from_micros, to_micros
from imagehost_core.db.engines.database import Database, integer, text
from imagehost_core.limits import DAY, Decision, RateLimitPolicy, decide, first_hits
from imagehost_core.storage import Counters, CounterTable, DiskReserve, LockManager


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
        counters, second = self._table.read_unlocked(key), to_micros(self._clock()) // 1_000_000
        return _hits(counters, _current(policy, second))

    def close(self) -> None:
        """Close the table and the lock file."""
        self._table.close()
        self._lock.close()

    def _admit(self, key: str, policy: RateLimitPolicy, cost: int) -> Decision:
        now = self._clock()
        second = to_micros(now) // 1_000_000
        counters, current = self._table.read(key), _current(policy, second)
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


_ADMIT = "SELECT admit_request(:key, :cost, :windows, :now) AS result"
_DELETE_UNUSED = """
DELETE FROM rate_limits WHERE key IN (
    SELECT key FROM rate_limits WHERE last_day NOT BETWEEN :day - 1 AND :day + 1
    LIMIT 1000 FOR UPDATE SKIP LOCKED
)
"""
_REQUESTS_BETWEEN_CLEANUPS = 1_000


class PostgresRateLimitStore:
    """The rate limit counters of several hosts.

    Args:
        database: A PostgreSQL database.
        clock: A clock in place of the server's, for tests.
    """

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock
        self._requests = count(1)

    def admit(self, key: str, policy: RateLimitPolicy, cost: int = 1) -> Decision:
        """Decide on a request, and count it if it is admitted. A rejected request does not count.

        Args:
            key: What is limited, such as an account or an IP address.
            policy: The windows that apply.
            cost: The number of requests that it counts as; all of them are admitted, or none.

        Raises:
            UnavailableError: The database does not respond.
        """
        windows = [[window.name, window.seconds, window.limit] for window in policy if window.limit]
        if not windows:
            return Decision(admitted=True)
        row = self._database.fetch_one(
            _ADMIT, {"key": key, "cost": cost, "windows": json.dumps(windows), "now": self._micros()}
        )
        assert row is not None
        result = json.loads(text(row, "result"))
        now = from_micros(result["now"])
        if next(self._requests) % _REQUESTS_BETWEEN_CLEANUPS == 0:
            self.delete_unused(now)
        return decide(policy, result["hits"], now, cost)

    def try_admit(self, key: str, policy: RateLimitPolicy, cost: int = 1) -> Decision | None:
        """Return `None`: counting waits for the database. Without a limit, return the decision."""
        if any(window.limit for window in policy):
            return None
        return self.admit(key, policy, cost)

    def peek(self, key: str, policy: RateLimitPolicy) -> dict[str, int]:
        """Return the number of requests that each current window has admitted, by window name."""
        row = self._database.fetch_one(
            "SELECT CAST(counters AS text) AS counters, "
            "coalesce(:now, CAST(1000000 * extract(epoch FROM clock_timestamp()) AS bigint)) AS now "
            "FROM rate_limits WHERE key = :key",
            {"key": key, "now": self._micros()},
        )
        if row is None:
            return {}
        counters, second = json.loads(text(row, "counters")), integer(row, "now") // 1_000_000
        hits = {}
        for window in policy:
            start, counted = second - second % window.seconds, dict(counters.get(window.name, ()))
            last_start = next(iter(counted), 0)
            carried = first_hits(start, last_start, counted.get(last_start, 0))
            hits[window.name] = counted.get(start, carried)
        return hits

    def delete_unused(self, now: datetime) -> None:
        """Delete the counters of keys that no request has used since yesterday, by a clock that was right."""
        day = to_micros(now) // 1_000_000 // DAY
        with self._database.transaction(blind=True) as transaction:
            transaction.execute(_DELETE_UNUSED, {"day": day})

    def close(self) -> None:
        """Do nothing: the database is closed by its owner."""

    def _micros(self) -> int | None:
        return None if self._clock is None else to_micros(self._clock())
