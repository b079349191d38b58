"""The clock, and conversions of timestamps.

Everything that needs the time takes a `Clock`, so that a test can set it
(`imagehost_core.testing.FrozenClock`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from attrs import frozen

Clock = Callable[[], datetime]
"""A function that returns the current time as an aware `datetime` in UTC."""


def utc_now() -> datetime:
    """Return the current time in UTC, with microseconds."""
    return datetime.now(UTC)


ElapsedClock = Callable[[], float]
"""A function that returns seconds from any starting point, which no change of the time of day affects."""

if sys.platform == "linux":
    # The time in which the machine was suspended counts. A partial takes half the time of a function.
    elapsed_seconds: ElapsedClock = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
else:
    elapsed_seconds = time.monotonic

_READINGS = 5
"""Readings of a server's clock at the start, at most: each may be slow."""
_SMALL_ERROR_SECONDS = 0.0005
"""The error of a reading after which the start takes no further one."""
_DRIFT = 15e-6
"""Seconds per second by which elapsed time and a server's clock may diverge (PHI of RFC 5905, 7.1)."""


@frozen
class _Reading:
    """A reading of a server's clock.

    Attributes:
        time: The time that was read.
        at: The elapsed time in the middle of the reading, in seconds.
        error: Half of the seconds that the reading took: the time may have been read at any moment of it.
    """

    time: datetime
    at: float
    error: float


class SynchronizedClock:
    """A clock that goes by the clock of a server: its best reading, continued by elapsed time.

    Several hosts that share the server agree on the time, though their own clocks may be wrong or be set.
    Of several readings the quickest counts, because a process on a busy machine reads slowly: two processes
    of a host differed by 85 ms after one reading each, and lists had their new records in the wrong order.

    Args:
        read: Reads the server's clock.
        elapsed: The source of elapsed time.
    """

    def __init__(self, read: Clock, elapsed: ElapsedClock = elapsed_seconds) -> None:
        self._elapsed = elapsed
        self._reading = self._read(read)
        for _ in range(_READINGS - 1):
            if self._reading.error <= _SMALL_ERROR_SECONDS:
                break
            self.synchronize(read)

    def synchronize(self, read: Clock) -> None:
        """Read the server's clock again, and use the reading unless an earlier one is still more exact.

        If the two differ by more than their errors, the server's clock was set, and the new one is used.
        """
        old, new = self._reading, self._read(read)
        seconds = new.at - old.at
        old_error = old.error + seconds * _DRIFT
        difference = abs((new.time - old.time).total_seconds() - seconds)
        if new.error <= old_error or difference > new.error + old_error:
            self._reading = new

    def _read(self, read: Clock) -> _Reading:
        started = self._elapsed()
        time_of_day = read()
        ended = self._elapsed()
        return _Reading(time_of_day, (started + ended) / 2, (ended - started) / 2)

    def __call__(self) -> datetime:
        """Return the current time of the server."""
        reading = self._reading
        return reading.time + timedelta(seconds=self._elapsed() - reading.at)


def to_micros(timestamp: datetime) -> int:
    """Convert a timestamp to whole microseconds since 1970-01-01T00:00:00Z, exactly.

    Raises:
        TypeError: The timestamp has no time zone.
    """
    return (timestamp - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Convert microseconds since 1970-01-01T00:00:00Z to a timestamp in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def to_rfc3339(timestamp: datetime) -> str:
    """Format a timestamp by RFC 3339 in UTC with `Z` and microseconds, so that it sorts as text.

    Raises:
        TypeError: The timestamp has no time zone.
    """
    if timestamp.tzinfo is not UTC:
        timestamp = from_micros(to_micros(timestamp))
    return timestamp.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
