"""The watchdog: a timer thread of a process pool.

It kills a worker process at its task's deadline, while the calling thread is blocked on that process. It
also starts the worker processes, because on Linux a process with PR_SET_PDEATHSIG is killed when the
*thread* that started it ends, so that thread must live as long as the pool.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

Action = Callable[[], object]


class Timer:
    """An action that the watchdog will run unless it is cancelled before."""

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action


class Watchdog:
    """A thread that runs actions at their times; the first action starts it.

    Actions must be quick and must not raise.
    """

    def __init__(self) -> None:
        self._timers: list[tuple[float, int, Timer]] = []
        self._sequence = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def call_at(self, when: float, action: Action) -> Timer:
        """Run an action at a time on the clock of `time.monotonic()`, in seconds."""
        timer = Timer(action)
        with self._changed:
            heapq.heappush(self._timers, (when, next(self._sequence), timer))
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="imagehost-watchdog", daemon=True)
                self._thread.start()
            if self._timers[0][2] is timer:
                self._changed.notify()
        return timer

    def cancel(self, timer: Timer) -> None:
        """Cancel a timer: unless its action is running or has run, it never does."""
        with self._changed:
            timer.action = None

    def close(self) -> None:
        """Stop the thread and drop all timers. An action that is running is finished first."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        # The garbage collector can close an unreferenced pool on any thread, including this one.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (action := self._next_action()) is not None:
            action()

    def _next_action(self) -> Action | None:
        """Wait for the next due action and return it, or `None` once the watchdog is closed."""
        with self._changed:
            while not self._closed:
                while self._timers and self._timers[0][2].action is None:
                    heapq.heappop(self._timers)
                seconds = self._timers[0][0] - time.monotonic() if self._timers else None
                if seconds is None or seconds > 0:
                    self._changed.wait(seconds)
                    continue
                _, _, timer = heapq.heappop(self._timers)
                return timer.action
        return None
