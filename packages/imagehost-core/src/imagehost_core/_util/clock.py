"""The only source of the current time.

Everything that needs the time takes a `Clock`, so that a test can hold it still
(`imagehost_core.testing.FrozenClock`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]
"""A function that returns the present moment as an aware `datetime` in UTC."""


def utc_now() -> datetime:
    """Return the present moment in UTC, to the microsecond."""
    return datetime.now(UTC)


def to_micros(moment: datetime) -> int:
    """Return `moment` as whole microseconds since 1970-01-01T00:00:00Z, exactly.

    Raises:
        TypeError: It has no time zone, so it is no moment.
    """
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """Return the moment `micros` microseconds after 1970-01-01T00:00:00Z."""
    return _EPOCH + timedelta(microseconds=micros)


def to_rfc3339(moment: datetime) -> str:
    """Return `moment` in RFC 3339, UTC, with `Z` and microseconds, so that text order is time order.

    Raises:
        TypeError: It has no time zone, so it is no moment.
    """
    return from_micros(to_micros(moment)).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
