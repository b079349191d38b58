"""The process pool: it starts worker processes, lends them to callers in turn, and replaces lost ones.

Invariants, under the lock: `_started` counts the worker processes that are starting, idle or busy, and is
never above `size` + 2. Callers are served in order of arrival, among those for whom
`imagehost_core.workers.admission` has a free slot.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from attrs import frozen

from imagehost_core.errors import UnavailableError
from imagehost_core.workers.admission import JobClass, Slot, can_enqueue, find_slot, free_slots
from imagehost_core.workers.process import Worker, WorkerSpec
from imagehost_core.workers.watchdog import Watchdog

log = logging.getLogger("imagehost.workers")

CLOSE_SECONDS = 10.0
"""Seconds that `close` waits for callers to release their worker processes."""


@frozen
class PoolLoad:
    """The load of a process pool.

    Attributes:
        busy: Number of worker processes that run a task.
        idle: Number of worker processes without a task.
        waiting: Number of callers in the queue.
    """

    busy: int
    idle: int
    waiting: int


class _Waiter:
    """A caller in the queue.

    Attributes:
        job_class: The class of the caller's task.
        wakeup: Notified when it is this caller's turn. With one condition for all, each release would wake
            every caller, which costs as much as a small render when the queue is long.
    """

    def __init__(self, job_class: JobClass, lock: threading.Lock) -> None:
        self.job_class = job_class
        self.wakeup = threading.Condition(lock)


class ProcessPool:
    """A pool of worker processes, started on demand and replaced when they are lost.

    Args:
        spec: Configuration of the worker processes.
        size: The most worker processes for shared slots; reserved slots can add two.
        queue: The most callers that can wait.
        max_tasks_per_worker: The number of tasks after which a worker process is replaced.
        max_worker_bytes: Peak memory, in bytes, above which a worker process is replaced after its task.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        size: int,
        queue: int,
        max_tasks_per_worker: int,
        max_worker_bytes: int,
    ) -> None:
        self.spec, self.size, self.queue = spec, size, queue
        self.max_tasks_per_worker, self.max_worker_bytes = max_tasks_per_worker, max_worker_bytes
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self.watchdog = Watchdog()
        self._lock = threading.Lock()
        self._released = threading.Condition(self._lock)
        self._idle: list[Worker] = []
        self._busy: dict[Worker, Slot] = {}
        self._queue: deque[_Waiter] = deque()
        self._started = 0
        self._start_error: OSError | None = None
        self._closed = False

    @property
    def load(self) -> PoolLoad:
        """The current load."""
        with self._lock:
            return PoolLoad(len(self._busy), len(self._idle), len(self._queue))

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process IDs of all busy and idle worker processes, in ascending order."""
        with self._lock:
            return tuple(sorted(worker.pid for worker in (*self._busy, *self._idle)))

    @property
    def closed(self) -> bool:
        """Whether the pool is closed."""
        return self._closed

    def start(self) -> None:
        """Start all worker processes that are missing, in the background."""
        with self._lock:
            while self._started < self.size and not self._closed:
                self._spawn()

    @contextmanager
    def acquire(self, until: float, job_class: JobClass = JobClass.HEAVY) -> Iterator[Worker]:
        """Acquire a worker process for the block; one that was lost or is due for replacement is replaced.

        Args:
            until: When to stop waiting, on the clock of `time.monotonic()`, in seconds.
            job_class: The class of the caller's task.

        Raises:
            UnavailableError: None was free in time, the queue is full, or none can be started.
        """
        while not (worker := self._acquire(until, job_class)).is_alive():
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
        """End all worker processes. Callers that wait for one, or for a result, get an error."""
        with self._lock:
            self._closed = True
            for worker in self._busy:
                worker.kill()
            self._wake_all()
        # After the kills: the watchdog's thread started the processes, so its end makes Linux kill them, and
        # busy ones would seem to have been killed from outside.
        self.watchdog.close()
        self._end_idle()
        with self._lock:
            self._released.wait_for(lambda: not self._busy, CLOSE_SECONDS)

    def detach_after_fork(self) -> None:
        """Reset the pool in a forked child; the worker processes belong to the parent."""
        workers = [*self._idle, *self._busy]
        closed = self._closed
        self._reset()
        self._closed = closed
        for worker in workers:
            worker.detach()

    def _acquire(self, until: float, job_class: JobClass) -> Worker:
        waiter = _Waiter(job_class, self._lock)
        with self._lock:
            queued = Counter(other.job_class for other in self._queue)
            if not can_enqueue(job_class, queued, self._taken, self.size, self.queue):
                raise UnavailableError(f"expected at most {self.queue} requests to wait for a worker")
            self._queue.append(waiter)
            try:
                self._spawn_if_needed(waiter)
                slot = self._wait_for_slot(waiter, until)
                worker = self._idle.pop()
                self._busy[worker] = slot
            finally:
                self._queue.remove(waiter)
                self._wake_next()
        return worker

    @property
    def _taken(self) -> Collection[Slot]:
        return self._busy.values()

    def _find_slot(self, waiter: _Waiter) -> Slot | None:
        return find_slot(waiter.job_class, self._taken, self.size)

    def _next(self) -> _Waiter | None:
        """Return the first caller in the queue for whom there is a free slot."""
        return next(filter(self._find_slot, self._queue), None)

    def _wake_next(self) -> None:
        """Wake the next caller if a worker process is idle; that caller, when it leaves, wakes the next."""
        waiter = self._next()
        if waiter is not None and self._idle:
            waiter.wakeup.notify()
        elif waiter is not None:
            self._spawn_if_needed(waiter)

    def _wake_all(self) -> None:
        for waiter in self._queue:
            waiter.wakeup.notify()

    def _spawn_if_needed(self, waiter: _Waiter) -> None:
        """Start one more worker process if the callers with free slots outnumber those not busy."""
        available = self._started - len(self._busy)
        if available < min(len(self._queue), free_slots(waiter.job_class, self._taken, self.size)):
            self._spawn()

    def _wait_for_slot(self, waiter: _Waiter, until: float) -> Slot:
        while not (self._idle and self._next() is waiter):
            self._require_open()
            if self._started == 0:
                raise UnavailableError("expected a worker but none can be started") from self._start_error
            self._spawn_if_needed(waiter)
            seconds = until - time.monotonic()
            if seconds <= 0:
                raise UnavailableError("expected a free worker in time but all were busy")
            waiter.wakeup.wait(seconds)
        self._require_open()
        slot = self._find_slot(waiter)
        assert slot is not None
        return slot

    def _require_open(self) -> None:
        if self._closed:
            raise UnavailableError("expected a pool that is open but received one that is closed")

    def _should_retire(self, worker: Worker) -> bool:
        # At half of the CPU limit, so that a task does not run into the limit.
        max_cpu_seconds = self.spec.limits.cpu_seconds / 2 or float("inf")
        return (
            worker.retired
            or worker.task_count >= self.max_tasks_per_worker
            or worker.usage.peak_bytes > self.max_worker_bytes
            or worker.usage.cpu_seconds > max_cpu_seconds
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
        exit_info = worker.end()
        if not exit_info.killed_by_pool:
            log.warning("%s", exit_info.message)
        with self._lock:
            self._busy.pop(worker, None)
            self._started -= 1
            if self._started < self.size and not self._closed:
                self._spawn()
            self._released.notify_all()
            self._wake_next()

    def _end_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def _spawn(self) -> None:
        self._started += 1
        self.watchdog.call_at(0, self._start_worker)

    def _start_worker(self) -> None:
        """Start a worker process, on the watchdog's thread."""
        try:
            worker = Worker(self.spec)
        except OSError as error:
            log.error("worker process failed to start", exc_info=error)
            with self._lock:
                self._started -= 1
                self._start_error = error
                self._wake_all()
            return
        with self._lock:
            # At the bottom of the stack: callers get a warmed-up process first.
            self._idle.insert(0, worker)
            closed = self._closed
            self._wake_next()
        if closed:
            self._end_idle()


_pools: weakref.WeakSet[ProcessPool] = weakref.WeakSet()


def _detach_all() -> None:
    for pool in list(_pools):
        pool.detach_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_all)
