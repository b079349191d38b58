"""The process pool: it starts worker processes, lends them to queued requests, and replaces lost ones.

A request waits as a value with a future, so that waiting needs no thread. `imagehost_core.workers.lanes`
decides which is next, and which are rejected. Up to `size` worker processes run tasks of both lanes, in turn
while both have some, at a low CPU priority. While all are busy, one more at the normal priority runs light
tasks only: so these wait for no heavy one, and the operating system lets them run first.

Invariants, under the lock: `_started` counts the worker processes that are starting, idle or busy. Futures
are resolved without the lock, because that runs the callbacks of callers.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial

from attrs import define, frozen

from imagehost_core.errors import UnavailableError
from imagehost_core.observer import PoolLoad
from imagehost_core.workers.failures import SharedFailure
from imagehost_core.workers.lanes import Lane, Lanes, WorkerRequest
from imagehost_core.workers.memory import MemoryBudget, MemorySettings
from imagehost_core.workers.messages import TaskError
from imagehost_core.workers.process import Worker, WorkerSpec, is_replaced
from imagehost_core.workers.watchdog import Timer, Watchdog

log = logging.getLogger("imagehost.workers")

IDLE_SECONDS = 60.0
"""Seconds after which a worker process without a task is ended, as it takes 20 MiB or more. The last one is
kept: the next upload would wait 0.3 s for the start of another."""
CLOSE_SECONDS = 10.0
"""Seconds that `close` waits for callers to release their worker processes."""
MEMORY_POLL_SECONDS = 0.05
"""How often a task that must run alone tries again, while other processes still have tasks."""
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
    """The request that a worker process is lent to, since when, and the number of its earlier tasks."""

    request: WorkerRequest
    started: float
    earlier_tasks: int


class ProcessPool:
    """A pool of worker processes, started on demand and replaced when they are lost.

    Args:
        spec: Configuration of the worker processes.
        size: The most worker processes for tasks of both lanes; there can be one more for light ones.
        queue: The most requests of each lane that can wait.
        max_tasks_per_worker: The number of tasks after which a worker process is replaced.
        max_worker_bytes: Peak memory, in bytes, above which a worker process is replaced after its task.
        idle_seconds: Seconds after which idle worker processes are ended, except for the last one.
        memory: The memory that tasks may use.

    Attributes:
        watchdog: The timers of the tasks' deadlines.
        is_healthy: Whether the last worker process that was started became ready; `None` before the first.
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
        memory: MemorySettings = MemorySettings(),  # noqa: B008 - it is frozen
    ) -> None:
        self.spec, self.size, self.queue, self.idle_seconds = spec, size, queue, idle_seconds
        self.memory = memory
        self.max_tasks_per_worker, self.max_worker_bytes = max_tasks_per_worker, max_worker_bytes
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self.watchdog = Watchdog()
        self._lock = threading.Lock()
        self._released = threading.Condition(self._lock)
        self._idle: list[Worker] = []
        self._busy: dict[Worker, _Task] = {}
        self._trim_timer: Timer | None = None
        self._poll_timer: Timer | None = None
        self._lanes = Lanes(self.queue, self.size)
        self._memory = MemoryBudget(self.memory)
        self._last_lane = Lane.HEAVY
        self._waiters: dict[WorkerRequest, _Waiter] = {}
        self._started = Counter[Lane]()
        self.is_healthy: bool | None = None
        self._closed = self._is_outdated = False

    @property
    def load(self) -> PoolLoad:
        """The current load."""
        with self._lock:
            return self._load()

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process IDs of all busy and idle worker processes, in ascending order."""
        with self._lock:
            return tuple(sorted(worker.pid for worker in (*self._busy, *self._idle)))

    @property
    def closed(self) -> bool:
        """Whether the pool is closed."""
        return self._closed

    def submit(self, request: WorkerRequest) -> Future[Worker | None]:
        """Queue a request for a worker process.

        Cancelling the future takes the request out of the queue.

        Returns:
            A worker process, which the caller must `release`; or `None` when another task with the same key
            has succeeded meanwhile. A caller that gets one for a request with a key must also `complete` it.
            The future raises `UnavailableError` if none was free in time or probably will be, the lane is
            full, or none can be started; `SharedFailure` when another task with the same key has failed.
        """
        future: Future[Worker | None] = Future()
        with self._resolving() as resolutions:
            try:
                if self._closed:
                    raise UnavailableError(CLOSED)
                self._lanes.add(request, time.monotonic(), self._free(request.lane))
            except UnavailableError as error:
                future.set_exception(error)
                return future
            waiter = self._waiters[request] = _Waiter(future)
            self._dispatch(resolutions)
            if request in self._waiters:
                waiter.timer = self.watchdog.call_at(request.until, partial(self._expire, request))
        future.add_done_callback(partial(self._remove_cancelled, request))
        return future

    def abandon(self, request: WorkerRequest, future: Future[Worker | None]) -> None:
        """Cancel a request, or give back its worker process, if the caller will not use it."""
        if future.cancel():
            return
        with suppress(UnavailableError, SharedFailure):
            worker = future.result()
            if worker is not None:
                self.release(worker)
                if request.key is not None:
                    self.complete(request.key, succeeded=False)

    @contextmanager
    def acquire(self, request: WorkerRequest) -> Iterator[Worker]:
        """Acquire a worker process for the block; waits until one is free.

        Args:
            request: A request without a key.

        Raises:
            UnavailableError: None was free in time, the lane is full, or none can be started.
        """
        future = self.submit(request)
        try:
            worker = future.result()
        except BaseException:
            self.abandon(request, future)
            raise
        assert worker is not None
        try:
            yield worker
        finally:
            self.release(worker)

    def release(self, worker: Worker) -> None:
        """Take back a worker process; one that was lost or is due for replacement is replaced."""
        if self._should_retire(worker):
            self._discard(worker)
            return
        with self._resolving() as resolutions:
            closed = self._closed
            if not closed:
                self._end_task(worker)
                worker.idle_since = time.monotonic()
                self._idle.append(worker)
                self._dispatch(resolutions)
                self._schedule_trim()
        if closed:
            self._discard(worker)

    def complete(self, key: str, *, succeeded: bool, error: TaskError | None = None) -> None:
        """Mark the result of a key as available, or as failed.

        Args:
            key: The key.
            succeeded: Whether the result is available.
            error: After a failure, the error for those that wait for the result; without it, the next
                request with the key runs.
        """
        with self._resolving() as resolutions:
            for request in self._lanes.complete(key, shared=succeeded or error is not None):
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
            self._memory.close()

    def detach_after_fork(self) -> None:
        """Reset the pool in a forked child; the worker processes belong to the parent."""
        workers = [*self._idle, *self._busy]
        self._memory.close()
        self._reset()
        for worker in workers:
            worker.detach()

    @contextmanager
    def _resolving(self) -> Iterator[Resolutions]:
        """Hold the lock, then resolve the futures that the block has collected."""
        resolutions: Resolutions = []
        with self._lock:
            before = self._load()
            yield resolutions
            after = self._load()
        if after != before:
            self.spec.observe(after)
        for resolve in resolutions:
            resolve()

    def _load(self) -> PoolLoad:
        return PoolLoad(len(self._busy), len(self._idle), len(self._waiters))

    def _dispatch(self, resolutions: Resolutions) -> None:
        """Give idle worker processes to the next requests, and start more if needed."""
        while not self._closed and (chosen := self._choose()) is not None:
            request, worker = chosen
            task = _Task(request, time.monotonic(), worker.task_count)
            future = self._future_of(request)
            if not future.set_running_or_notify_cancel():
                self._lanes.remove(request)
                self._release_memory(worker, task)
                continue
            self._lanes.start(request)
            self._idle.remove(worker)
            self._busy[worker] = task
            resolutions.append(partial(future.set_result, worker))
        if not self._closed:
            self._spawn_if_needed()
            self._schedule_poll()

    def _choose(self) -> tuple[WorkerRequest, Worker] | None:
        """Return the request to start next, and the worker process for it; reserve its memory.

        A request that does not fit into the memory now is not overtaken, or it would never start.
        """
        light = self._lanes.next(Lane.LIGHT)
        worker = self._idle_worker(Lane.LIGHT)
        if light is not None and worker is not None:
            return light, worker
        lanes = (Lane.HEAVY, Lane.LIGHT) if self._last_lane is Lane.LIGHT else (Lane.LIGHT, Lane.HEAVY)
        request = next(filter(None, map(self._lanes.next, lanes)), None)
        worker = None if request is None else self._idle_worker(Lane.HEAVY)
        if request is None or worker is None or not self._memory.acquire(request.memory_bytes):
            return None
        self._last_lane = request.lane
        return request, worker

    def _idle_worker(self, lane: Lane) -> Worker | None:
        """Return the idle worker process of a lane that was used last; replace dead ones."""
        for worker in reversed([worker for worker in self._idle if worker.lane is lane]):
            if worker.is_alive():
                return worker
            self._idle.remove(worker)
            _end(worker)
            self._replace(worker)
        return None

    def _free(self, lane: Lane) -> int:
        """Return how many worker processes could run tasks of a lane, apart from the busy ones."""
        busy = Counter(worker.lane for worker in self._busy)
        free = self.size - busy[Lane.HEAVY]
        return free + 1 - busy[Lane.LIGHT] if lane is Lane.LIGHT else free

    def _release_memory(self, worker: Worker, task: _Task) -> None:
        # The light worker process has its memory beside the budget.
        if worker.lane is Lane.HEAVY:
            self._memory.release(task.request.memory_bytes)

    def _schedule_poll(self) -> None:
        """Dispatch again soon if a task waits for those of other processes."""
        if not any(map(self._lanes.next, Lane)):
            self._memory.give_way()
        elif self._memory.is_waiting and self._poll_timer is None:
            self._poll_timer = self.watchdog.call_at(time.monotonic() + MEMORY_POLL_SECONDS, self._poll)

    def _poll(self) -> None:
        with self._resolving() as resolutions:
            self._poll_timer = None
            self._dispatch(resolutions)

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
        for request in list(self._lanes):
            self._lanes.remove(request)
            self._reject(request, error, resolutions)

    def _expire(self, request: WorkerRequest) -> None:
        """Reject a request at its deadline, on the watchdog's thread."""
        with self._resolving() as resolutions:
            if request in self._waiters:
                self._lanes.remove(request)
                details = "expected a free worker in time but all were busy"
                error = UnavailableError(details, retry_after=self._lanes.retry_after(request))
                self._reject(request, error, resolutions)
                self._dispatch(resolutions)

    def _remove_cancelled(self, request: WorkerRequest, future: Future[Worker | None]) -> None:
        with self._resolving() as resolutions:
            if future.cancelled() and request in self._waiters:
                self._lanes.remove(request)
                self._future_of(request)
                self._dispatch(resolutions)

    def _end_task(self, worker: Worker) -> None:
        task = self._busy.pop(worker, None)
        if task is not None:
            self._release_memory(worker, task)
            if worker.task_count > task.earlier_tasks:
                self._lanes.record(task.request.lane, time.monotonic() - task.started)

    def _spawn_if_needed(self) -> None:
        """Start one more worker process if the tasks that wait outnumber those that are not busy."""
        started = self._started[Lane.HEAVY]
        idle = sum(worker.lane is Lane.HEAVY for worker in self._idle)
        ready = started - sum(worker.lane is Lane.HEAVY for worker in self._busy)
        if started < self.size and ready < sum(map(self._lanes.count, Lane)):
            self._spawn(Lane.HEAVY)
        elif ready == idle and self._lanes.next(Lane.LIGHT) is not None and not self._started[Lane.LIGHT]:
            self._spawn(Lane.LIGHT)

    def _should_retire(self, worker: Worker) -> bool:
        # At half of the CPU limit, so that a task does not run into the limit.
        max_cpu_seconds = self.spec.limits.cpu_seconds / 2 or float("inf")
        return (
            worker.interrupted
            or worker.retired
            or worker.usage.cpu_seconds > max_cpu_seconds
            or (self._is_worn(worker) and not self._needs_restart())
        )

    def _is_worn(self, worker: Worker) -> bool:
        return (
            worker.task_count >= self.max_tasks_per_worker or worker.usage.peak_bytes > self.max_worker_bytes
        )

    def _needs_restart(self) -> bool:
        """Return whether new worker processes would run another version than this process; log it once."""
        if not self._is_outdated and is_replaced():
            self._is_outdated = True
            log.warning("restart the server: its package was replaced, so it starts no worker processes")
        return self._is_outdated

    def _discard(self, worker: Worker) -> None:
        _end(worker)
        with self._resolving() as resolutions:
            self._end_task(worker)
            self._replace(worker)
            self._released.notify_all()
            self._dispatch(resolutions)

    def _replace(self, worker: Worker) -> None:
        self._started[worker.lane] -= 1
        if worker.lane is Lane.HEAVY and not self._closed:
            self._spawn(Lane.HEAVY)

    def _schedule_trim(self) -> None:
        """Have idle worker processes ended later."""
        if self._trim_timer is None and self._idle and self._started.total() > 1 and not self._closed:
            self._trim_timer = self.watchdog.call_at(time.monotonic() + self.idle_seconds, self._trim)

    def _trim(self) -> None:
        """End the worker processes that have been idle for too long, on the watchdog's thread."""
        now = time.monotonic()
        with self._lock:
            self._trim_timer = None
            due = [worker for worker in self._idle if worker.idle_since <= now - self.idle_seconds]
            due.sort(key=lambda worker: worker.lane is Lane.HEAVY)
            del due[self._started.total() - 1 :]
            self._idle = [worker for worker in self._idle if worker not in due]
            self._started.subtract(worker.lane for worker in due)
            self._schedule_trim()
        for worker in due:
            worker.end()

    def _end_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def _spawn(self, lane: Lane) -> None:
        if self._started.total() and self._needs_restart():
            return
        self._started[lane] += 1
        self.watchdog.call_at(0, partial(self._start_worker, lane))

    def _start_worker(self, lane: Lane) -> None:
        """Start a worker process, on the watchdog's thread."""
        try:
            worker = Worker(self.spec, lane)
        except OSError as cause:
            if self.is_healthy is not False:
                # Once: probes of readiness try again and again.
                log.error("worker process failed to start", exc_info=cause)
            self.is_healthy = False
            error = UnavailableError("expected a worker but none can be started")
            error.__cause__ = cause
            with self._resolving() as resolutions:
                self._started[lane] -= 1
                if not self._started.total():
                    self._reject_all(error, resolutions)
                self._dispatch(resolutions)
            return
        with self._resolving() as resolutions:
            # At the bottom of the stack: callers get a warmed-up process first.
            self._idle.insert(0, worker)
            closed = self._closed
            self._dispatch(resolutions)
            self._schedule_trim()
        if closed:
            self._end_idle()


def _end(worker: Worker) -> None:
    exit_info = worker.end()
    if not exit_info.killed_by_pool:
        log.warning("%s", exit_info.message)


_pools: weakref.WeakSet[ProcessPool] = weakref.WeakSet()


def _detach_all() -> None:
    for pool in list(_pools):
        if not pool.closed:
            pool.detach_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_all)
