"""The expected schedule of a queue: when a task will probably end, and when a rejected one can be repeated.

The rules of `imagehost_core.workers.admission` are applied to the estimated durations of tasks. A task that
need not wait is always admitted, because its estimate may be too high.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property

from attrs import frozen

from imagehost_core.workers.admission import (
    JobClass,
    Slot,
    WorkerRequest,
    can_enqueue,
    find_next,
    find_slot,
)


@frozen
class ExpectedState:
    """An expected state of a pool.

    Attributes:
        now: The moment, on the clock of `time.monotonic()`, in seconds.
        waiting: The requests that still wait for worker processes.
        taken: The slots in use.
    """

    now: float
    waiting: tuple[WorkerRequest, ...]
    taken: tuple[Slot, ...]


@frozen
class Schedule:
    """The tasks of a pool, and their estimated durations.

    Attributes:
        now: The present, on the clock of `time.monotonic()`, in seconds.
        waiting: The requests that wait for worker processes, in order of arrival.
        seconds: The estimated durations of their tasks.
        running: The slots in use, and when their tasks will probably end, on the same clock.
        size: The number of shared slots.
        queue: The most requests that can wait.
    """

    now: float
    waiting: tuple[WorkerRequest, ...]
    seconds: Mapping[WorkerRequest, float]
    running: tuple[tuple[Slot, float], ...]
    size: int
    queue: int

    @cached_property
    def states(self) -> tuple[ExpectedState, ...]:
        """The states of `simulate`."""
        return tuple(self.simulate())

    def start_of_new(self, job_class: JobClass) -> float:
        """Return when a task probably starts whose request is added to the queue at `now`.

        The requests before it do not depend on it, and of those that still wait in a state none has a slot.

        Args:
            job_class: The class of the task.
        """
        starts = (state.now for state in self.states if find_slot(job_class, state.taken, self.size))
        return next(starts)

    def place_for_new(self, job_class: JobClass) -> float:
        """Return when a request of a class will probably find a place in the queue."""
        for state in self.states:
            queued = Counter(other.job_class for other in state.waiting)
            if can_enqueue(job_class, queued, state.taken, self.size, self.queue):
                return state.now
        raise AssertionError("expected a place in an empty queue")

    def end_of(self, request: WorkerRequest) -> float:
        """Return when the task of a waiting request will probably end."""
        start = next(state.now for state in self.states if request not in state.waiting)
        return start + self.seconds[request]

    def find_late(self, behind: Collection[WorkerRequest]) -> list[WorkerRequest]:
        """Return the waiting requests that will probably end after their deadline.

        Each is found as if those found before it did not run.

        Args:
            behind: The waiting requests that may be found; others run whatever their estimate.
        """
        late: list[WorkerRequest] = []

        def is_late(request: WorkerRequest, now: float) -> bool:
            if request not in behind or now + self.seconds[request] <= request.until:
                return False
            late.append(request)
            return True

        for _ in self.simulate(is_late):
            pass
        return late

    def simulate(
        self, is_left_out: Callable[[WorkerRequest, float], bool] = lambda _request, _now: False
    ) -> Iterator[ExpectedState]:
        """Yield the state at present and after each end of a task, until all tasks have ended.

        Args:
            is_left_out: Whether a request, at the moment at which it could start, does not run.
        """
        now, waiting = self.now, list(self.waiting)
        running = [(slot, end) for slot, end in self.running if end > now]
        while True:
            taken = [slot for slot, _ in running]
            while (found := find_next(waiting, taken, self.size)) is not None:
                request, slot = found
                waiting.remove(request)
                if is_left_out(request, now):
                    continue
                taken.append(slot)
                running.append((slot, now + self.seconds[request]))
            yield ExpectedState(now, tuple(waiting), tuple(taken))
            if not running:
                return
            now = max(now, min(end for _, end in running))
            running = [(slot, end) for slot, end in running if end > now]
