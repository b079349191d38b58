"""Test doubles: what replaces the host, the network and the clock of clients that are made meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from imagehost_client._exchange import Environment


class DoubleClock(Protocol):
    """The clock of a double and its clients."""

    def now(self) -> datetime:
        """Return the current time."""

    def monotonic(self) -> float:
        """Return the time of a clock that is not set, in seconds."""

    def advance(self, seconds: float) -> None:
        """Let the time pass without waiting."""


class Double(Protocol):
    """A host in memory, with a clock of its own."""

    base_url: str
    cdn_url: str

    @property
    def clock(self) -> DoubleClock: ...

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
