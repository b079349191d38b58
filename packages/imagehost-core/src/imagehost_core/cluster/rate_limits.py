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
from imagehost_core.db.engines.database import Database, integer, text
from imagehost_core.limits import DAY, Decision, RateLimitCounters, RateLimitPolicy, decide, first_hits

_ADMIT = "SELECT admit_request(:key, :cost, :windows, :now) AS result"
_REFUND = """
UPDATE rate_limits SET counters = counters || coalesce((
    SELECT jsonb_object_agg(period ->> 0, (
        SELECT jsonb_agg(
            CASE WHEN CAST(counted ->> 0 AS bigint) = now_seconds - now_seconds % CAST(period ->> 1 AS bigint)
            THEN jsonb_build_array(counted -> 0, greatest(0, CAST(counted ->> 1 AS bigint) - 1))
            ELSE counted END
            ORDER BY place
        )
        FROM jsonb_array_elements(counters -> (period ->> 0)) WITH ORDINALITY AS entries (counted, place)
    ))
    FROM jsonb_array_elements(CAST(:windows AS jsonb)) AS periods (period),
        (SELECT coalesce(:now, CAST(1000000 * extract(epoch FROM clock_timestamp()) AS bigint)) / 1000000
            AS now_seconds) AS clock
    WHERE counters -> (period ->> 0) IS NOT NULL
), '{}')
WHERE key = :key
RETURNING key
"""
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

    def refund(self, key: str, policy: RateLimitPolicy) -> None:
        """Count one request less in each current window that has any, in one statement."""
        windows = json.dumps([[window.name, window.seconds] for window in policy if window.limit])
        self._database.fetch_one(_REFUND, {"key": key, "windows": windows, "now": self._micros()})

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

    def _micros(self) -> int | None:
        return None if self._clock is None else to_micros(self._clock())
