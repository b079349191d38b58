"""Test doubles: what replaces the host, the network and the clock of clients that are made meanwhile."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from imagehost_client._exchange import Environment


START = datetime(2026, 1, 1, tzinfo=UTC)
"""The time at which the clock of a host stands by default, at which all windows of rate limits begin."""


class HostClock:
    """The clock of a host and its clients, which stands still until it is advanced.

    Each reading is a microsecond later than the one before, so that records have an order.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._skipped = 0.0
        self._readings = itertools.count()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the current time."""
        return self._start + timedelta(seconds=self._skipped, microseconds=next(self._readings))

    def monotonic(self) -> float:
        """Return the time of a clock that is not set, in seconds."""
        return self._skipped

    def advance(self, seconds: float) -> None:
        """Let the time pass without waiting."""
        with self._lock:
            self._skipped += seconds


class Double(Protocol):
    """A host in memory, with a clock of its own."""

    base_url: str
    cdn_url: str

    @property
    def clock(self) -> HostClock: ...

    def token_for(self, token: str | None) -> str:
        """Return the token of a client that a program has given another one, or none."""


class Sleeper(Protocol):
    """A driver, whose delays a double may replace."""

    sleep: Callable[[float], None] | None


_ACTIVE: list[Double] = []


def active_double() -> Double | None:
    """Return the double that replaces the host of new clients, or `None`."""
    return _ACTIVE[-1] if _ACTIVE else None


def activate(double: Double) -> None:
    """Let a double replace the host of new clients, in all threads."""
    _ACTIVE.append(double)


def deactivate(double: Double) -> None:
    """Undo `activate`."""
    _ACTIVE.remove(double)


def use_clock(double: Double, environment: Environment, driver: Sleeper) -> None:
    """Replace the clock and the delays of a client."""
    environment.now, environment.monotonic = double.clock.now, double.clock.monotonic
    driver.sleep = double.clock.advance
