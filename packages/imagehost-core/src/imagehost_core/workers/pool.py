"""The process pool: it starts worker processes, lends them to queued requests, and replaces lost ones.

A request waits as a value with a future, so that waiting needs no thread. `imagehost_core.workers.queue`
decides which is next, and which are rejected.

Invariants, under the lock: `_started` counts the worker processes that are starting, idle or busy, and is
never above `size` + 2. Futures are resolved without the lock, because that runs the callbacks of callers.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial

from attrs import define, frozen

from imagehost_core.errors import UnavailableError
from imagehost_core.workers.admission import WorkerRequest
from imagehost_core.workers.failures import SharedFailure
from imagehost_core.workers.lending import PoolLoad, WorkerPool
from imagehost_core.workers.machine_speed import measure_machine
from imagehost_core.workers.messages import TaskError
from imagehost_core.workers.process import Worker, WorkerSpec
from imagehost_core.workers.queue import RequestQueue
from imagehost_core.workers.spawned import SpawnedWorker
from imagehost_core.workers.watchdog import Timer, Watchdog

log = logging.getLogger("imagehost.workers")

IDLE_SECONDS = 60.0
"""Seconds after which a worker process without a task is ended: it takes 20 MiB or more. One is
left, so that a first upload does not wait 0.3 s for its start."""
CLOSE_SECONDS = 10.0
"""Seconds that `close` waits for callers to release their worker processes."""
CLOSED = "expected a pool that is open but received one that is closed"

Resolutions = list[Callable[[], None]]
"""Calls that resolve futures, to be made without the lock."""


@define(eq=False)
class _Waiter:
    """The caller of a request in the queue, and the timer of its deadline."""

    future: Future[Worker | None]
    timer: Timer | None = None


@frozen(eq=False)
class _Task:
    """The request that a worker process is lent to, and the number of tasks that it had run before."""

    request: WorkerRequest
    earlier_tasks: int


class ProcessPool(WorkerPool):
    """A pool of worker processes, started on demand and replaced when they are lost.

    Args:
        spec: Configuration of the worker processes.
        size: The most worker processes for shared slots; reserved slots can add two.
        queue: The most requests that can wait.
        max_tasks_per_worker: The number of tasks after which a worker process is replaced.
        max_worker_bytes: Peak memory, in bytes, above which a worker process is replaced after its task.
        idle_seconds: Seconds after which all idle worker processes but one are ended.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        size: int,
        queue: int,
        max_tasks_per_worker: int,
        max_worker_bytes: int,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.spec, self.size, self.queue, self.idle_seconds = spec, size, queue, idle_seconds
        self.max_tasks_per_worker, self.max_worker_bytes = max_tasks_per_worker, max_worker_bytes
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self.watchdog = Watchdog()
        self._lock = threading.Lock()
        self._released = threading.Condition(self._lock)
        self._idle: list[SpawnedWorker] = []
        self._busy: dict[SpawnedWorker, _Task] = {}
        self._trim_timer: Timer | None = None
        self._queue = RequestQueue(self.size, self.queue)
        self._waiters: dict[WorkerRequest, _Waiter] = {}
        self._started = 0
        self._start_failed = self._closed = False

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
        """Start a worker process in the background, unless there is one; others start on demand.

        It measures the speed of the machine first, to correct estimates.
        """
        with self._lock:
            if self._started or self._closed:
                return
            self._spawn()
        threading.Thread(target=self._calibrate, name="imagehost-calibration", daemon=True).start()

    def submit(self, request: WorkerRequest) -> Future[Worker | None]:
        """Queue a request for a worker process, as in `WorkerPool`."""
        future: Future[Worker | None] = Future()
        with self._resolving() as resolutions:
            try:
                if self._closed:
                    raise UnavailableError(CLOSED)
                replaced = self._queue.add(request, time.monotonic())
            except UnavailableError as error:
                future.set_exception(error)
                return future
            for other, full in replaced:
                self._reject(other, full, resolutions)
            waiter = self._waiters[request] = _Waiter(future)
            self._dispatch(resolutions)
            if request in self._queue:
                waiter.timer = self.watchdog.call_at(request.until, partial(self._expire, request))
        future.add_done_callback(partial(self._remove_cancelled, request))
        return future

    def release(self, worker: Worker) -> None:
        """Take back a worker process; one that was lost or is due for replacement is replaced."""
        assert isinstance(worker, SpawnedWorker)
        if self._should_retire(worker):
            self._discard(worker)
            return
        with self._resolving() as resolutions:
            closed = self._closed
            if not closed:
                self._end_task(worker, resolutions)
                worker.idle_since = time.monotonic()
                self._idle.append(worker)
                self._dispatch(resolutions)
                self._schedule_trim()
        if closed:
            self._discard(worker)

    def complete(self, key: str, *, succeeded: bool, error: TaskError | None = None) -> None:
        """Mark the result of a key as available, or as failed, as in `WorkerPool`."""
        with self._resolving() as resolutions:
            for request in self._queue.complete(key, shared=succeeded or error is not None):
                if error is not None:
                    self._reject(request, SharedFailure(error), resolutions)
                elif (future := self._future_of(request)).set_running_or_notify_cancel():
                    resolutions.append(partial(future.set_result, None))
            self._dispatch(resolutions)

    def close(self) -> None:
        """End all worker processes. Callers that wait for one, or for a result, get an error."""
        with self._resolving() as resolutions:
            self._closed = True
            for worker in self._busy:
                worker.kill()
            self._reject_all(UnavailableError(CLOSED), resolutions)
        self._end_idle()
        # After the kills: the watchdog's thread started the processes, so its end makes Linux kill them, and
        # they would seem to have been killed from outside.
        self.watchdog.close()
        with self._lock:
            self._released.wait_for(lambda: not self._busy, CLOSE_SECONDS)

    def detach_after_fork(self) -> None:
        """Reset the pool in a forked child; the worker processes belong to the parent."""
        workers, closed = [*self._idle, *self._busy], self._closed
        self._reset()
        self._closed = closed
        for worker in workers:
            worker.detach()

    @contextmanager
    def _resolving(self) -> Iterator[Resolutions]:
        """Hold the lock, then resolve the futures that the block has collected."""
        resolutions: Resolutions = []
        with self._lock:
            yield resolutions
        for resolve in resolutions:
            resolve()

    def _dispatch(self, resolutions: Resolutions) -> None:
        """Give idle worker processes to the next requests, and start more if needed."""
        while not self._closed and (request := self._queue.next()) is not None:
            self._discard_dead_idle()
            if not self._idle:
                self._spawn_if_needed(request)
                return
            future = self._future_of(request)
            if not future.set_running_or_notify_cancel():
                self._queue.remove(request)
                continue
            try:
                self._queue.start(request, time.monotonic())
            except UnavailableError as error:
                resolutions.append(partial(future.set_exception, error))
                continue
            worker = self._idle.pop()
            self._busy[worker] = _Task(request, worker.task_count)
            resolutions.append(partial(future.set_result, worker))

    def _future_of(self, request: WorkerRequest) -> Future[Worker | None]:
        """Return the future of a request that leaves the queue."""
        waiter = self._waiters.pop(request)
        if waiter.timer is not None:
            self.watchdog.cancel(waiter.timer)
        return waiter.future

    def _reject(self, request: WorkerRequest, error: Exception, resolutions: Resolutions) -> None:
        future = self._future_of(request)
        if future.set_running_or_notify_cancel():
            resolutions.append(partial(future.set_exception, error))

    def _reject_all(self, error: UnavailableError, resolutions: Resolutions) -> None:
        for request in self._queue.waiting:
            self._queue.remove(request)
            self._reject(request, error, resolutions)

    def _expire(self, request: WorkerRequest) -> None:
        """Reject a request at its deadline, on the watchdog's thread."""
        with self._resolving() as resolutions:
            if request in self._queue:
                self._reject(request, self._queue.expire(request, time.monotonic()), resolutions)
                self._dispatch(resolutions)

    def _remove_cancelled(self, request: WorkerRequest, future: Future[Worker | None]) -> None:
        with self._resolving() as resolutions:
            if future.cancelled() and request in self._queue:
                self._queue.remove(request)
                self._future_of(request)
                self._dispatch(resolutions)

    def _calibrate(self) -> None:
        factor = measure_machine(self)
        if factor is not None:
            log.info("speed of the machine measured factor=%.2f", factor)
            with self._resolving() as resolutions:
                self._queue.calibrate(factor)
                self._remove_late(time.monotonic(), resolutions)

    def _remove_late(self, now: float, resolutions: Resolutions) -> None:
        for request, error in self._queue.remove_late(now):
            self._reject(request, error, resolutions)

    def _end_task(self, worker: SpawnedWorker, resolutions: Resolutions) -> None:
        task = self._busy.pop(worker, None)
        if task is not None:
            measured = worker.task_count > task.earlier_tasks and not worker.interrupted
            self._queue.end(task.request, now := time.monotonic(), measured=measured)
            self._remove_late(now, resolutions)

    def _spawn_if_needed(self, request: WorkerRequest) -> None:
        """Start one more worker process if the requests that could start outnumber those not busy."""
        if self._started - len(self._busy) < self._queue.startable(request.job_class):
            self._spawn()

    def _should_retire(self, worker: SpawnedWorker) -> bool:
        # At half of the CPU limit, so that a task does not run into the limit.
        max_cpu_seconds = self.spec.limits.cpu_seconds / 2 or float("inf")
        return (
            worker.interrupted
            or worker.retired
            or worker.task_count >= self.max_tasks_per_worker
            or worker.usage.peak_bytes > self.max_worker_bytes
            or worker.usage.cpu_seconds > max_cpu_seconds
        )

    def _discard(self, worker: SpawnedWorker) -> None:
        _end(worker)
        with self._resolving() as resolutions:
            self._end_task(worker, resolutions)
            self._replace()
            self._released.notify_all()
            self._dispatch(resolutions)

    def _discard_dead_idle(self) -> None:
        while self._idle and not self._idle[-1].is_alive():
            _end(self._idle.pop())
            self._replace()

    def _replace(self) -> None:
        self._started -= 1
        if self._started < self.size and not self._closed:
            self._spawn()

    def _schedule_trim(self) -> None:
        """Have idle worker processes ended when the one that is idle for the longest time is due."""
        if self._trim_timer is None and self._idle and self._started > 1 and not self._closed:
            since = min(worker.idle_since for worker in self._idle)
            self._trim_timer = self.watchdog.call_at(since + self.idle_seconds, self._trim)

    def _trim(self) -> None:
        """End the worker processes that have been idle for too long, on the watchdog's thread."""
        before = time.monotonic() - self.idle_seconds
        with self._lock:
            self._trim_timer = None
            due = [worker for worker in self._idle if worker.idle_since <= before][: self._started - 1]
            self._idle = [worker for worker in self._idle if worker not in due]
            self._started -= len(due)
            self._schedule_trim()
        for worker in due:
            worker.end()

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
            worker = SpawnedWorker(self.spec)
        except OSError as cause:
            if not self._start_failed:
                # Once: probes of readiness try again and again.
                log.error("worker process failed to start", exc_info=cause)
            self._start_failed = True
            error = UnavailableError("expected a worker but none can be started")
            error.__cause__ = cause
            with self._resolving() as resolutions:
                self._started -= 1
                if self._started == 0:
                    self._reject_all(error, resolutions)
                self._dispatch(resolutions)
            return
        self._start_failed = False
        with self._resolving() as resolutions:
            # At the bottom of the stack: callers get a warmed-up process first.
            self._idle.insert(0, worker)
            closed = self._closed
            self._dispatch(resolutions)
            self._schedule_trim()
        if closed:
            self._end_idle()


def _end(worker: SpawnedWorker) -> None:
    exit_info = worker.end()
    if not exit_info.killed_by_pool:
        log.warning("%s", exit_info.message)


_pools: weakref.WeakSet[ProcessPool] = weakref.WeakSet()


def _detach_all() -> None:
    for pool in list(_pools):
        pool.detach_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_all)
