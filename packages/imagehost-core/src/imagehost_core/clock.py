"""The only source of the current time.

Everything that needs the time takes a `Clock`, so that a test can hold it still
(`imagehost_core.testing.FrozenClock`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""A function that returns the present moment as an aware `datetime` in UTC."""


def now() -> datetime:
    """Return the present moment in UTC, to the microsecond."""
    return datetime.now(UTC)


def to_micros(moment: datetime) -> int:
    """Return `moment` as whole microseconds since 1970-01-01T00:00:00Z, exactly."""
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_micros(micros: int) -> datetime:
    """Return the moment `micros` microseconds after 1970-01-01T00:00:00Z."""
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)


def to_rfc3339(moment: datetime) -> str:
    """Return `moment` in RFC 3339, UTC, with `Z` and microseconds, so that text order is time order."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
