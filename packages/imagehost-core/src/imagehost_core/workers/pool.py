"""The crew: which workers there are, who has one, and who waits for one.

Invariants, under the lock: `started` counts the workers that are being started, are idle or are
busy, and is never above `size` + 2; callers are served in the order in which they came, among those
that `imagehost_core.workers.admission` has a desk for.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from attrs import frozen

from imagehost_core.errors import UnavailableError
from imagehost_core.workers.admission import JobClass, QueueCounts, Slot, can_enqueue, find_slot, free_slots
from imagehost_core.workers.process import Worker, WorkerSpec
from imagehost_core.workers.watchdog import Watchdog

log = logging.getLogger("imagehost.workers")

CLOSE_SECONDS = 10.0
"""How long `close` waits for callers to notice that their worker is gone."""


@frozen
class PoolLoad:
    """How busy a crew is.

    Attributes:
        busy: How many workers have an order.
        idle: How many have none.
        waiting: How many callers wait for one.
    """

    busy: int
    idle: int
    waiting: int


class _Waiter:
    """A caller's place in the line.

    Attributes:
        weight: What the work is expected to cost.
        called: Is told when it is the caller's turn. Calling everybody each time would cost as much as a
            small render where the line is long.
    """

    def __init__(self, weight: JobClass, lock: threading.Lock) -> None:
        self.job_class = weight
        self.wakeup = threading.Condition(lock)


class ProcessPool:
    """Up to `size` workers, started when they are first needed and replaced when they are lost.

    Args:
        recipe: What a worker is made with.
        size: The most workers at a time, but for one more for light orders and one for uploads.
        queue: The most callers that may wait for one.
        max_orders: After how many orders a worker is replaced.
        max_bytes: A worker that ever held more memory is replaced after its order, in bytes.
    """

    def __init__(self, recipe: WorkerSpec, *, size: int, queue: int, max_orders: int, max_bytes: int) -> None:
        self.spec, self.size, self.queue = recipe, size, queue
        self.max_tasks_per_worker, self.max_bytes = max_orders, max_bytes
        self._fresh()
        _pools.add(self)

    def _fresh(self) -> None:
        self.watchdog = Watchdog()
        self._lock = threading.Lock()
        self._all_idle = threading.Condition(self._lock)
        self._idle: list[Worker] = []
        self._busy: dict[Worker, Slot] = {}
        self._queue: deque[_Waiter] = deque()
        self._started = 0
        self._start_error: OSError | None = None
        self._closed = False

    @property
    def load(self) -> PoolLoad:
        """How busy the crew is just now."""
        with self._lock:
            return PoolLoad(len(self._busy), len(self._idle), len(self._queue))

    @property
    def closed(self) -> bool:
        """Whether there will be no more workers."""
        return self._closed

    def start(self) -> None:
        """Start all workers that are not there yet; they get warm while nobody waits for them."""
        with self._lock:
            while self._started < self.size and not self._closed:
                self._start_one()

    @contextmanager
    def acquire(self, until: float, weight: JobClass = JobClass.HEAVY) -> Iterator[Worker]:
        """Have a worker for oneself. One that was ended meanwhile, or is worn, is replaced.

        Args:
            weight: What the work is expected to cost.
            until: When waiting for one ends, on the clock of `time.monotonic()`, in seconds.

        Raises:
            UnavailableError: None was free by then, too many callers wait already, or none can be
                started.
        """
        while not (worker := self._acquire(until, weight)).is_alive():
            self._discard(worker)
        try:
            yield worker
        except BaseException:
            self._discard(worker)
            raise
        if self._should_retire(worker):
            self._discard(worker)
        else:
            self._release(worker)

    def close(self) -> None:
        """End all workers. A caller who waits for one, or for its answer, gets an error."""
        with self._lock:
            self._closed = True
            for worker in self._busy:
                worker.kill()
            self._wake_all()
        # Only now: Linux ends the workers with the keeper's thread, and a busy one would seem to have
        # been ended by somebody else.
        self.watchdog.close()
        self._end_idle()
        with self._lock:
            self._all_idle.wait_for(lambda: not self._busy, CLOSE_SECONDS)

    def detach_after_fork(self) -> None:
        """Begin anew in a child process: the workers are the parent's."""
        workers = [*self._idle, *self._busy]
        closed = self._closed
        self._fresh()
        self._closed = closed
        for worker in workers:
            worker.detach()

    def _acquire(self, until: float, weight: JobClass) -> Worker:
        place = _Waiter(weight, self._lock)
        with self._lock:
            line = _counts(waiting.job_class for waiting in self._queue)
            if not can_enqueue(weight, line, self._taken, self.size, self.queue):
                raise UnavailableError(f"expected at most {self.queue} requests to wait for a worker")
            self._queue.append(place)
            try:
                self._spawn_if_needed(place)
                desk = self._wait_for_slot(place, until)
                worker = self._idle.pop()
                self._busy[worker] = desk
            finally:
                self._queue.remove(place)
                self._wake_next()
        return worker

    @property
    def _taken(self) -> Collection[Slot]:
        return self._busy.values()

    def _find_slot(self, place: _Waiter) -> Slot | None:
        return find_slot(place.job_class, self._taken, self.size)

    def _next(self) -> _Waiter | None:
        """Return whose turn it is: the first in the line for whom there is a desk."""
        return next(filter(self._find_slot, self._queue), None)

    def _wake_next(self) -> None:
        """Call whoever can begin now, if there is a worker; whoever is called and goes calls the next."""
        place = self._next()
        if place is not None and self._idle:
            place.wakeup.notify()
        elif place is not None:
            self._spawn_if_needed(place)

    def _wake_all(self) -> None:
        for place in self._queue:
            place.wakeup.notify()

    def _spawn_if_needed(self, place: _Waiter) -> None:
        """Start one more worker if there are more callers than workers for them, and a desk without one."""
        spare = self._started - len(self._busy)
        if spare < min(len(self._queue), free_slots(place.job_class, self._taken, self.size)):
            self._start_one()

    def _wait_for_slot(self, place: _Waiter, until: float) -> Slot:
        while not (self._idle and self._next() is place):
            self._require_open()
            if self._started == 0:
                raise UnavailableError("expected a worker but none can be started") from self._start_error
            self._spawn_if_needed(place)
            left = until - time.monotonic()
            if left <= 0:
                raise UnavailableError("expected a free worker in time but all were busy")
            place.wakeup.wait(left)
        self._require_open()
        desk = self._find_slot(place)
        assert desk is not None
        return desk

    def _require_open(self) -> None:
        if self._closed:
            raise UnavailableError("expected a pool that is open but received one that is closed")

    def _should_retire(self, worker: Worker) -> bool:
        most_seconds = self.spec.limits.cpu_seconds / 2 or float("inf")
        return (
            worker.retired
            or worker.task_count >= self.max_tasks_per_worker
            or worker.usage.peak_bytes > self.max_bytes
            or worker.usage.cpu_seconds > most_seconds
        )

    def _release(self, worker: Worker) -> None:
        with self._lock:
            closed = self._closed
            if not closed:
                self._busy.pop(worker, None)
                self._idle.append(worker)
                self._wake_next()
        if closed:
            self._discard(worker)

    def _discard(self, worker: Worker) -> None:
        ending = worker.end()
        if not ending.killed_by_pool:
            log.warning("%s", ending.message)
        with self._lock:
            self._busy.pop(worker, None)
            self._started -= 1
            if self._started < self.size and not self._closed:
                self._start_one()
            self._all_idle.notify_all()
            self._wake_next()

    def _end_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def _start_one(self) -> None:
        self._started += 1
        self.watchdog.call_at(0, self._start)

    def _start(self) -> None:
        """Start a worker; the keeper calls this."""
        try:
            worker = Worker(self.spec)
        except OSError as error:
            log.error("a worker cannot be started", exc_info=error)
            with self._lock:
                self._started -= 1
                self._start_error = error
                self._wake_all()
            return
        with self._lock:
            # New ones wait at the bottom: whoever comes takes a warm one as long as there is one.
            self._idle.insert(0, worker)
            closed = self._closed
            self._wake_next()
        if closed:
            self._end_idle()


def _counts(weights: Iterable[JobClass]) -> QueueCounts:
    counted = Counter(weights)
    return QueueCounts(**{weight.value: counted[weight] for weight in JobClass})


_pools: weakref.WeakSet[ProcessPool] = weakref.WeakSet()


def _detach_all() -> None:
    for crew in list(_pools):
        crew.detach_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_all)
