"""Single flight: equal work that is asked for at the same time is done once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Flights(Generic[K, V]):
    """The work under way in this process, by its key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flying: dict[K, Future[V]] = {}

    def run(self, key: K, work: Callable[[], V]) -> V:
        """Return what the work gives, or what the same work that is under way gives.

        An error is shared like a result.

        Args:
            key: What makes two pieces of work equal.
            work: Does it.
        """
        with self._lock:
            flight = self._flying.get(key)
            leads = flight is None
            if flight is None:
                flight = self._flying[key] = Future()
        if not leads:
            return flight.result()
        try:
            flight.set_result(work())
        except BaseException as error:
            flight.set_exception(error)
        finally:
            with self._lock:
                del self._flying[key]
        return flight.result()
