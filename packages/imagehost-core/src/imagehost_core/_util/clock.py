"""The clock, and conversions of timestamps.

Everything that needs the time takes a `Clock`, so that a test can set it
(`imagehost_core.testing.FrozenClock`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]
"""A function that returns the current time as an aware `datetime` in UTC."""


def utc_now() -> datetime:
    """Return the current time in UTC, with microseconds."""
    return datetime.now(UTC)


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
