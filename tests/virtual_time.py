"""An event loop whose time passes only while everything waits for it, and then at once.

So a test sees exactly how long a timeout takes. Where everything waits without a timeout, nothing can happen
any more: that is an error, and the test does not hang.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST_SECONDS = 24 * 3_600
"""The longest time for which an event loop waits at a time, also for a timeout that is infinite."""


class _Selector(selectors.DefaultSelector):
    """A selector that advances a clock in place of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            seconds = LONGEST_SECONDS if timeout is None else timeout
            assert seconds < LONGEST_SECONDS, "expected a timeout, but everything waits without one"
            self.now += seconds
        return events


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


async def _timed(coroutine: Coroutine[Any, Any, T]) -> tuple[T, float]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    result = await coroutine
    return result, loop.time() - started


def run_in_virtual_time(coroutine: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Return the result of a coroutine that uses no threads, and the seconds that it took."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(_timed(coroutine))
