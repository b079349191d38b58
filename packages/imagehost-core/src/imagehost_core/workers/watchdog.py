"""The keeper: one thread of a crew that does what must not hang on the thread of a caller.

It kills a worker whose time is up, while the caller waits for that worker. And it starts workers:
Linux ends a process with the *thread* that started it where the process asked for that
(PR_SET_PDEATHSIG), so that thread must live as long as the crew.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

Action = Callable[[], object]


class Timer:
    """Something that the keeper will do, if it is not told otherwise before."""

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action
        self.fired = False


class Watchdog:
    """A thread which does things at their time; it is started with the first of them.

    Actions are quick and raise nothing.
    """

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def call_at(self, moment: float, action: Action) -> Timer:
        """Have something done at a moment of `time.monotonic()`, in seconds."""
        alarm = Timer(action)
        with self._changed:
            heapq.heappush(self._due, (moment, next(self._numbers), alarm))
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="imagehost-keeper", daemon=True)
                self._thread.start()
            if self._due[0][2] is alarm:
                self._changed.notify()
        return alarm

    def cancel(self, alarm: Timer) -> bool:
        """Take an alarm back; return whether that came in time, so that nothing was or will be done."""
        with self._changed:
            alarm.action = None
            return not alarm.fired

    def close(self) -> None:
        """Do nothing any more. What is being done is done when this returns."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        # The garbage collector may close a forgotten pool on any thread, so on this one as well.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (action := self._next()) is not None:
            action()

    def _next(self) -> Action | None:
        """Wait for the next action that is due; there is none once the keeper is closed."""
        with self._changed:
            while not self._closed:
                while self._due and self._due[0][2].action is None:
                    heapq.heappop(self._due)
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                _, _, alarm = heapq.heappop(self._due)
                alarm.fired = True
                return alarm.action
        return None
