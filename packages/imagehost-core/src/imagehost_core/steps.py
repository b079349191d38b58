"""Work in steps: blocking calls, and waits for the queue of the pool between them.

It is a generator that yields the future of each wait. A thread can run it to its end; an event loop can run
each step in a thread and wait for the futures itself, so that a request in the queue holds no thread.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from attrs import frozen

T = TypeVar("T")

QueueSteps = Generator[Future[object], None, T]
"""Work that yields futures and returns a result. A future has a result other than `None` if a worker process
is lent to the work. Closing the generator abandons its request."""


@frozen
class Finished(Generic[T]):
    """The end of work in steps.

    Attributes:
        result: What it returned.
    """

    result: T


def advance(steps: QueueSteps[T]) -> Future[object] | Finished[T]:
    """Run work up to its next wait; return the future to wait for, or the result."""
    try:
        return next(steps)
    except StopIteration as stop:
        return Finished(stop.value)


def run_steps(steps: QueueSteps[T]) -> T:
    """Run work to its end in this thread; return its result."""
    try:
        while not isinstance(step := advance(steps), Finished):
            wait((step,))
        return step.result
    finally:
        steps.close()
