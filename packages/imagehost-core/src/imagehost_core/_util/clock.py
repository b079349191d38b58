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

_MAX_READING_SECONDS = 0.5
"""Seconds that a reading of a server's clock may take: twice the error that it may have."""


class SynchronizedClock:
    """A clock that goes by the clock of a server: its last reading, continued by elapsed time.

    Several hosts that share the server agree on the time, though their own clocks may be wrong or be set.

    Args:
        read: Reads the server's clock.
        elapsed: The source of elapsed time.
    """

    def __init__(self, read: Clock, elapsed: ElapsedClock = elapsed_seconds) -> None:
        self._elapsed = elapsed
        started = elapsed()
        self._reading = read(), (started + elapsed()) / 2

    def synchronize(self, read: Clock) -> None:
        """Read the server's clock again; a reading is ignored if it took so long that it may be wrong."""
        started = self._elapsed()
        time_of_day, ended = read(), self._elapsed()
        if ended - started < _MAX_READING_SECONDS:
            self._reading = time_of_day, (started + ended) / 2

    def __call__(self) -> datetime:
        """Return the current time of the server."""
        time_of_day, at = self._reading
        return time_of_day + timedelta(seconds=self._elapsed() - at)


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
