"""The request counts of rate limit windows, in the PostgreSQL database that several hosts share.

They are exact across all hosts. One statement counts a request: a function of the database locks the row of
the key, reads the clock of the server, and counts the request if every window admits it. Nothing of it waits
for a disk: the table is not logged, so a crash of the server may forget the counts of the last windows.
"""

from __future__ import annotations

import json
from datetime import datetime
from itertools import count

from imagehost_core._util.clock import Clock, from_micros, to_micros, utc_now
from imagehost_core.db.engines.database import Database, Queryable, integer, text
from imagehost_core.limits import DAY, Decision, RateLimitCounters, RateLimitPolicy, decide, first_hits

_ADMIT = "SELECT admit_request(:key, :cost, :windows, :now) AS result"
_LOCK = "SELECT key FROM rate_limits WHERE key = :key FOR UPDATE"
_DELETE_UNUSED = """
DELETE FROM rate_limits WHERE key IN (
    SELECT key FROM rate_limits WHERE last_day NOT BETWEEN :day - 1 AND :day + 1
    LIMIT 1000 FOR UPDATE SKIP LOCKED
)
"""
_REQUESTS_BETWEEN_CLEANUPS = 1_000


class PostgresRateLimitStore(RateLimitCounters):
    """The rate limit counters of several hosts.

    Args:
        database: A PostgreSQL database.
        clock: The clock of the host. Another than the system's replaces that of the server.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = None if clock is utc_now else clock
        self._requests = count(1)

    def admit(self, key: str, policy: RateLimitPolicy, cost: int = 1) -> Decision:
        """Decide on a request, and count it if it is admitted, in one statement."""
        if not any(window.limit for window in policy):
            return Decision(admitted=True)
        hits, now = self._count(self._database, key, policy, cost)
        if next(self._requests) % _REQUESTS_BETWEEN_CLEANUPS == 0:
            self.delete_unused(now)
        return decide(policy, hits, now, cost)

    def try_admit(self, key: str, policy: RateLimitPolicy, cost: int = 1) -> Decision | None:
        """Return `None`: counting waits for the database. Without a limit, return the decision."""
        if any(window.limit for window in policy):
            return None
        return self.admit(key, policy, cost)

    def refund(self, key: str, policy: RateLimitPolicy) -> None:
        """Count one request less, if each current window has any, while no other host counts."""
        with self._database.transaction(blind=True) as transaction:
            transaction.fetch_one(_LOCK, {"key": key})
            hits = self._peek(transaction, key, policy)
            if hits and all(hits.values()):
                self._count(transaction, key, policy, -1)

    def peek(self, key: str, policy: RateLimitPolicy) -> dict[str, int]:
        """Return the number of requests that each current window has admitted, by window name."""
        return self._peek(self._database, key, policy)

    def _peek(self, queryable: Queryable, key: str, policy: RateLimitPolicy) -> dict[str, int]:
        row = queryable.fetch_one(
            "SELECT CAST(counters AS text) AS counters, "
            "coalesce(:now, CAST(1000000 * extract(epoch FROM clock_timestamp()) AS bigint)) AS now "
            "FROM rate_limits WHERE key = :key",
            {"key": key, "now": self._micros()},
        )
        if row is None:
            return {}
        counters = json.loads(text(row, "counters"))
        second = integer(row, "now") // 1_000_000
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

    def _count(
        self, queryable: Queryable, key: str, policy: RateLimitPolicy, cost: int
    ) -> tuple[dict[str, int], datetime]:
        """Add a cost to the current windows if all admit it; return their requests before, and the time."""
        windows = [[window.name, window.seconds, window.limit] for window in policy if window.limit]
        row = queryable.fetch_one(
            _ADMIT, {"key": key, "cost": cost, "windows": json.dumps(windows), "now": self._micros()}
        )
        assert row is not None
        result = json.loads(text(row, "result"))
        return result["hits"], from_micros(result["now"])

    def _micros(self) -> int | None:
        return None if self._clock is None else to_micros(self._clock())
