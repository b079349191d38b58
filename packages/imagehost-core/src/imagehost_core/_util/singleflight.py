"""Single flight: concurrent calls with the same key run once and share the result."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """The calls in progress in this process, by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_flight: dict[K, Future[V]] = {}

    def run(self, key: K, function: Callable[[], V]) -> V:
        """Call a function, or wait for the result of the call with the same key that is in progress.

        An exception is shared like a result; an interrupt (`KeyboardInterrupt`, `SystemExit`) is raised
        only in the thread that made the call, and the waiting threads call again.
        """
        while True:
            with self._lock:
                future = self._in_flight.get(key)
                if future is None:
                    own_future = self._in_flight[key] = Future()
                    break
            with suppress(CancelledError):
                return future.result()
        return self._run_leader(key, own_future, function)

    def _run_leader(self, key: K, future: Future[V], function: Callable[[], V]) -> V:
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)
        finally:
            with self._lock:
                del self._in_flight[key]
            # Cancels only a future without a result, after an interrupt: the waiting threads call again.
            future.cancel()
        return future.result()
