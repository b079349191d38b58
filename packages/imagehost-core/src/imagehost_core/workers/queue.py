"""The queue of a pool: which requests wait, run or are rejected. It knows no processes, threads or clocks."""

from __future__ import annotations

import math
from collections.abc import Collection

from attrs import frozen

from imagehost_core.errors import UnavailableError
from imagehost_core.workers.admission import (
    RESULT_WAITERS_PER_PLACE,
    JobClass,
    Slot,
    WorkerRequest,
    can_enqueue,
    free_slots,
)
from imagehost_core.workers.estimates import Calibration
from imagehost_core.workers.fair_queueing import Backlog, FairClocks, VirtualArrival
from imagehost_core.workers.schedule import Schedule

ADMISSION_MARGIN = 1.1
"""The factor by which waiting and the task together may take longer than estimated. Without a margin, a
request that was expected to end just before its deadline was often rejected when its turn came. One that only
waits for the result of another takes no worker process, so it has none."""
RISEN = 1.1
"""The factor by which a task must raise the estimates of its kind for the queue to be checked again."""
SCHEDULE_SECONDS = 0.1
"""How long the schedule of an unchanged queue is kept. `Retry-After` has whole seconds."""
OVERDUE_SHARE = 0.25
"""A task that has run for longer than estimated is expected to need this share of its time again."""


@frozen
class _WaitingTask:
    """A request in the queue.

    Attributes:
        arrived: When it arrived.
        is_behind: Whether it could not start then.
        virtual: The times of the virtual clocks then.
    """

    arrived: float
    is_behind: bool
    virtual: VirtualArrival


@frozen
class _RunningTask:
    slot: Slot
    started: float
    ends: float
    cost: float

    def expected_end(self, now: float) -> float:
        return self.ends if now <= self.ends else now + OVERDUE_SHARE * (now - self.started)


class RequestQueue:
    """The requests of a pool. All times are on the clock of `time.monotonic()`, in seconds.

    Args:
        size: The number of shared slots.
        places: The most requests that can wait for worker processes.
    """

    def __init__(self, size: int, places: int) -> None:
        self._size, self._places = size, places
        self._waiting: dict[WorkerRequest, _WaitingTask] = {}
        self._running: dict[WorkerRequest, _RunningTask] = {}
        self._running_keys: set[str] = set()
        self._calibration = Calibration()
        self._clocks = FairClocks()
        self._last_backlog: Backlog | None = None
        self._is_checked = True
        self._last_schedule: Schedule | None = None

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._waiting)

    def __contains__(self, request: object) -> bool:
        """Return whether a request is waiting."""
        return request in self._waiting

    @property
    def waiting(self) -> tuple[WorkerRequest, ...]:
        """The waiting requests, in order of arrival."""
        return tuple(self._waiting)

    def add(self, request: WorkerRequest, now: float) -> list[tuple[WorkerRequest, UnavailableError]]:
        """Add a request.

        Returns:
            The requests that it replaces, each with the error for its caller.

        Raises:
            UnavailableError: The queue is full, or the task would probably end after its deadline.
        """
        replaced: WorkerRequest | None = None
        latest_end = now + (request.until - now) / ADMISSION_MARGIN
        if self._shares_result(request):
            if len(self._waiting) - self._backlog.counts.total() >= RESULT_WAITERS_PER_PLACE * self._places:
                raise self._full(request, request.until - now, now)
            is_behind = True
            if self._end_of_result(request, now) > request.until:
                raise self._too_late(request, request.until - now, now)
        else:
            if not self._has_place(request.job_class):
                replaced = self._find_replaceable(request)
                if replaced is None:
                    raise self._full(request, request.until - now, now)
            schedule = self._schedule(now)
            start = schedule.start_of_new(request)
            is_behind = start > schedule.now
            if is_behind and start + self._calibration.seconds(request) > latest_end:
                raise self._too_late(request, request.until - now, now)
        virtual = self._clocks.arrival_in(request.job_class)
        self._waiting[request] = _WaitingTask(now, is_behind, virtual)
        self._changed()
        if len(self._backlog.flow_lengths) > 1:
            # It may delay requests of other flows.
            self._is_checked = False
        if replaced is None:
            return []
        timeout = replaced.until - self._waiting.pop(replaced).arrived
        self._changed()
        return [(replaced, self._full(replaced, timeout, now))]

    def next(self) -> WorkerRequest | None:
        """Return the request to start next, or `None` if all must wait."""
        found = self._backlog.find_next(self._taken, self._size)
        return None if found is None else found[0].request

    def startable(self, job_class: JobClass) -> int:
        """Return how many of the waiting requests could start, if the next is of a class."""
        return min(len(self._waiting), free_slots(job_class, self._taken, self._size))

    def start(self, request: WorkerRequest, now: float) -> None:
        """Start the task of the next request.

        Raises:
            UnavailableError: It was behind others, and would probably end after its deadline. It is removed.
        """
        found = self._backlog.find_next(self._taken, self._size)
        assert found is not None
        first, slot = found
        assert first.request is request
        waited = self._waiting.pop(request)
        ends = now + self._calibration.seconds(request)
        if waited.is_behind and request.until < ends:
            self._changed()
            raise self._too_late(request, request.until - waited.arrived, now)
        self._backlog.start(first, slot)
        self._changed()
        self._running[request] = _RunningTask(slot, now, ends, first.seconds)
        if request.key is not None:
            self._running_keys.add(request.key)

    def remove(self, request: WorkerRequest) -> None:
        """Remove a waiting request."""
        del self._waiting[request]
        self._changed()

    def expire(self, request: WorkerRequest, now: float) -> UnavailableError:
        """Remove a waiting request whose deadline has come; return the error for its caller."""
        arrived = self._waiting.pop(request).arrived
        self._changed()
        details = "expected a free worker in time but all were busy"
        return self._rejection(request, request.until - arrived, now, details)

    def end(self, request: WorkerRequest, now: float, *, measured: bool) -> None:
        """End the task of a request; its result is available after `complete`.

        Args:
            request: A running request.
            now: The present.
            measured: Whether the task ran to its end, so that its duration corrects later estimates.
        """
        task = self._running.pop(request)
        self._clocks.correct(request, task.slot, now - task.started - task.cost)
        self._changed()
        if measured or now > task.ends:
            before = self._calibration.seconds(request)
            self._calibration.record(request, now - task.started)
            if self._calibration.seconds(request) > RISEN * before:
                self._is_checked = False

    def calibrate(self, factor: float) -> None:
        """Correct the estimates of tasks that have not been measured by the speed of the machine.

        Args:
            factor: How many times as long as estimated they take.
        """
        self._calibration.factor = factor
        self._is_checked = False
        self._changed()

    def remove_late(self, now: float) -> list[tuple[WorkerRequest, UnavailableError]]:
        """Remove the requests that will probably end after their deadline since estimates have risen.

        Returns:
            Each with the error for its caller.
        """
        if self._is_checked:
            return []
        self._is_checked = True
        behind = {request for request, waited in self._waiting.items() if waited.is_behind}
        late = self._schedule(now).find_late(behind)
        arrivals = [self._waiting.pop(request).arrived for request in late]
        self._changed()
        return [
            (request, self._too_late(request, request.until - arrived, now))
            for request, arrived in zip(late, arrivals, strict=True)
        ]

    def complete(self, key: str, *, shared: bool) -> list[WorkerRequest]:
        """End the task of a key.

        Args:
            key: The key.
            shared: Whether the requests that wait for its result get what the task got, a result or an error.

        Returns:
            These requests, removed. If it is not shared, the first of them can run.
        """
        self._running_keys.discard(key)
        self._changed()
        done = [request for request in self._waiting if shared and request.key == key]
        for request in done:
            del self._waiting[request]
        return done

    @property
    def _taken(self) -> Collection[Slot]:
        return [task.slot for task in self._running.values()]

    @property
    def _backlog(self) -> Backlog:
        if self._last_backlog is None:
            arrivals = {request: waited.virtual for request, waited in self._waiting.items()}
            self._last_backlog = Backlog.of(
                self._clocks, arrivals, self._running_keys, self._calibration.seconds
            )
        return self._last_backlog

    def _changed(self) -> None:
        self._last_backlog = self._last_schedule = None

    def _has_place(self, job_class: JobClass, without: WorkerRequest | None = None) -> bool:
        """Return whether a request of a class has a place in the queue, or would have without another."""
        queued = self._backlog.counts
        if without is not None:
            queued[without.job_class] -= 1
        return can_enqueue(job_class, queued, self._taken, self._size, self._places)

    def _find_replaceable(self, request: WorkerRequest) -> WorkerRequest | None:
        """Return the last request of a flow that would be longer than that of a new request, to replace it.

        Of several such flows it is the longest one whose place can be taken.
        """
        lengths, needing = self._backlog.flow_lengths, set(self._backlog.requests)
        last = {other.flow: other for other in self._waiting if other in needing}
        for flow, length in lengths.most_common():
            if length <= lengths[request.flow] + 1:
                return None
            if self._has_place(request.job_class, without=last[flow]):
                return last[flow]
        return None

    def _shares_result(self, request: WorkerRequest) -> bool:
        """Return whether a request that is not in the queue would wait for the result of another."""
        key = request.key
        return key is not None and (
            key in self._running_keys or any(other.key == key for other in self._waiting)
        )

    def _end_of_result(self, request: WorkerRequest, now: float) -> float:
        """Return when the result that a request shares with others will probably be available to it."""
        schedule = self._schedule(now)
        for other in self._backlog.requests:
            if other.key == request.key and schedule.precedes(request, other):
                # It creates the result itself.
                return schedule.start_of_new(request) + self._calibration.seconds(request)
        return self._end_of_other(request, now)

    def _end_of_other(self, request: WorkerRequest, now: float) -> float:
        """Return when the running or waiting task with the key of a request will probably end."""
        for other, task in self._running.items():
            if other.key == request.key:
                return task.expected_end(now)
        schedule = self._schedule(now)
        ends = (schedule.end_of(each) for each in self._backlog.requests if each.key == request.key)
        return next(ends, now)

    def _schedule(self, now: float) -> Schedule:
        """Return the expected schedule; of an unchanged queue, the last one for a while.

        Making one takes longer than all else: a full queue that rejects 500 requests a second took a whole
        core, and delayed the responses from the cache.
        """
        last = self._last_schedule
        if last is not None and now - last.now < SCHEDULE_SECONDS:
            return last
        self._last_schedule = Schedule(
            now=now,
            backlog=self._backlog,
            seconds={request: self._calibration.seconds(request) for request in self._backlog.requests},
            running=tuple((task.slot, task.expected_end(now)) for task in self._running.values()),
            size=self._size,
            queue=self._places,
        )
        return self._last_schedule

    def _full(self, request: WorkerRequest, timeout: float, now: float) -> UnavailableError:
        details = f"expected at most {self._places} requests to wait for a worker"
        return self._rejection(request, timeout, now, details)

    def _too_late(self, request: WorkerRequest, timeout: float, now: float) -> UnavailableError:
        details = f"expected to finish within {timeout:.3g} seconds but too many tasks are queued before"
        return self._rejection(request, timeout, now, details)

    def _rejection(
        self, request: WorkerRequest, timeout: float, now: float, details: str
    ) -> UnavailableError:
        """Return the error of a request, with the time after which the same one would be admitted."""
        if self._shares_result(request):
            delay = max(1, math.ceil(self._end_of_other(request, now) - now))
        else:
            seconds = self._calibration.seconds(request)
            delay = self._schedule(now).retry_after(request, seconds, timeout / ADMISSION_MARGIN)
        return UnavailableError(details, retry_after=delay)
