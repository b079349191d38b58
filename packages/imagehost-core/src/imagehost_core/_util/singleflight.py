"""Single flight: equal work that is asked for at the same time is done once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """The work under way in this process, by its key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_flight: dict[K, Future[V]] = {}

    def run(self, key: K, work: Callable[[], V]) -> V:
        """Return what the work gives, or what the same work that is under way gives.

        An error is shared like a result; an interrupt (`KeyboardInterrupt`, `SystemExit`) is not.

        Args:
            key: What makes two pieces of work equal.
            work: Does it.
        """
        while True:
            with self._lock:
                flight = self._in_flight.get(key)
                if flight is None:
                    led = self._in_flight[key] = Future()
                    break
            with suppress(CancelledError):
                return flight.result()
        return self._run_leader(key, led, work)

    def _run_leader(self, key: K, flight: Future[V], work: Callable[[], V]) -> V:
        try:
            flight.set_result(work())
        except Exception as error:
            flight.set_exception(error)
        finally:
            with self._lock:
                del self._in_flight[key]
            # Only one that an interrupt left without a result: those who wait try again themselves.
            flight.cancel()
        return flight.result()
