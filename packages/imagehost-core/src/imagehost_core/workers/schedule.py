"""The expected schedule of a queue: when a task will probably end, and when a rejected one can be repeated.

The rules of `imagehost_core.workers.admission` and `imagehost_core.workers.fair_queueing` are applied to the
estimated durations of tasks. A task that need not wait is always admitted, because its estimate may be too
high.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from math import ceil

from attrs import frozen

from imagehost_core.workers.admission import JobClass, Slot, WorkerRequest, can_enqueue, find_slot
from imagehost_core.workers.fair_queueing import Backlog, VirtualArrival


@frozen
class ExpectedStart:
    """The expected start of a task.

    Attributes:
        now: When it starts, on the clock of `time.monotonic()`, in seconds.
        request: Its request.
        slot: Its slot.
        tag: The tag of the request in its class.
        class_tag: The tag of its class.
        idle_tags: The tags that classes without waiting requests would have had, from arrivals long ago.
    """

    now: float
    request: WorkerRequest
    slot: Slot
    tag: float
    class_tag: float
    idle_tags: Mapping[JobClass, float]


@frozen
class ExpectedState:
    """An expected state of a pool.

    Attributes:
        now: When the pool reaches it, on the clock of `time.monotonic()`, in seconds.
        queued: The numbers of requests that still wait for worker processes, by class.
        taken: The slots in use.
        arrivals: The virtual times at which a request of each class would arrive.
        starts: The number of tasks that have started before.
    """

    now: float
    queued: Mapping[JobClass, int]
    taken: tuple[Slot, ...]
    arrivals: Mapping[JobClass, VirtualArrival]
    starts: int


@frozen
class _Simulation:
    states: list[ExpectedState]
    starts: list[ExpectedStart]
    late: list[WorkerRequest]
    backlog: Backlog


@frozen
class Schedule:
    """The tasks of a pool, and their estimated durations.

    Attributes:
        now: The present, on the clock of `time.monotonic()`, in seconds.
        backlog: The requests that wait for worker processes.
        seconds: The estimated durations of their tasks.
        running: The slots in use, and when their tasks will probably end, on the same clock.
        size: The number of shared slots.
        queue: The most requests that can wait.
    """

    now: float
    backlog: Backlog
    seconds: Mapping[WorkerRequest, float]
    running: tuple[tuple[Slot, float], ...]
    size: int
    queue: int

    @cached_property
    def _simulation(self) -> _Simulation:
        return self._simulate()

    def start_of_new(self, request: WorkerRequest, arrival: float | None = None) -> float:
        """Return when the task of a request probably starts that arrives now or later.

        The requests before it do not depend on it, and it starts in place of the first one after it.

        Args:
            request: The request.
            arrival: When it is added to the queue, if not at `now`; not before.
        """
        simulation, job_class = self._simulation, request.job_class
        index = self._state_at(self.now if arrival is None else arrival)
        virtual = simulation.states[index].arrivals[job_class]
        tag = self._tag_of_new(request, virtual)
        starts = iter(simulation.starts[simulation.states[index].starts :])
        for state, following in zip(
            simulation.states[index:], [*simulation.states[index + 1 :], None], strict=True
        ):
            if find_slot(job_class, state.taken, self.size) is not None:
                return state.now if arrival is None else max(state.now, arrival)
            if following is None:
                break
            for _ in range(following.starts - state.starts):
                start = next(starts)
                if start.request.job_class is job_class:
                    if tag < start.tag:
                        return start.now
                elif job_class in start.idle_tags and not start.slot.reserved:
                    class_tag = max(virtual.overall, start.idle_tags[job_class])
                    if class_tag < start.class_tag:
                        return start.now
        raise AssertionError("expected a slot in an idle pool")

    def retry_after(self, request: WorkerRequest, seconds: float, timeout: float) -> int:
        """Return after how many seconds, at least 1, a rejected request will probably be admitted.

        Args:
            request: The request.
            seconds: The estimated duration of its task.
            timeout: The seconds from its arrival to its deadline.
        """
        states, delay = self._simulation.states, 1
        while True:
            arrival = self.now + delay
            index = self._state_at(arrival)
            with_place = next(state for state in states[index:] if self._has_place(request, state))
            if with_place.now > arrival:
                delay = max(delay + 1, ceil(with_place.now - self.now))
                continue
            start = self.start_of_new(request, arrival)
            if start <= arrival or start + seconds <= arrival + timeout:
                return delay
            # It would not start earlier if it arrived later.
            delay = max(delay + 1, ceil(min(start + seconds - timeout, start) - self.now))

    def precedes(self, request: WorkerRequest, waiting: WorkerRequest) -> bool:
        """Return whether a request that arrives now would start before a waiting one of its class."""
        virtual = self._simulation.states[self._state_at(self.now)].arrivals[request.job_class]
        tags = (start.tag for start in self._simulation.starts if start.request is waiting)
        return self._tag_of_new(request, virtual) < next(tags)

    def end_of(self, request: WorkerRequest) -> float:
        """Return when the task of a waiting request will probably end."""
        starts = (start.now for start in self._simulation.starts if start.request is request)
        return next(starts) + self.seconds[request]

    def find_late(self, behind: Collection[WorkerRequest]) -> list[WorkerRequest]:
        """Return the waiting requests that will probably end after their deadline.

        Each is found as if those found before it did not run.

        Args:
            behind: The waiting requests that may be found; others run whatever their estimate.
        """
        return self._simulate(
            lambda request, now: request in behind and now + self.seconds[request] > request.until
        ).late

    def _tag_of_new(self, request: WorkerRequest, arrival: VirtualArrival) -> float:
        """Return the tag in its class of a request that arrives behind all that wait."""
        finish = self._simulation.backlog.clocks.flows[request.job_class].finish_of(request.flow)
        return max(arrival.in_class, finish)

    def _state_at(self, now: float) -> int:
        """Return the index of the last state that the pool reaches up to a moment."""
        return bisect_right(self._simulation.states, now, key=lambda state: state.now) - 1

    def _has_place(self, request: WorkerRequest, state: ExpectedState) -> bool:
        return can_enqueue(request.job_class, state.queued, state.taken, self.size, self.queue)

    def _simulate(
        self, is_left_out: Callable[[WorkerRequest, float], bool] = lambda _request, _now: False
    ) -> _Simulation:
        """Simulate the pool until all tasks have ended; states are at present and after ends of tasks.

        Args:
            is_left_out: Whether a request, at the moment at which it could start, does not run.
        """
        now, backlog = self.now, self.backlog.copy()
        running = [(slot, end) for slot, end in self.running if end > now]
        states: list[ExpectedState] = []
        starts: list[ExpectedStart] = []
        late: list[WorkerRequest] = []
        while True:
            taken = [slot for slot, _ in running]
            while (found := backlog.find_next(taken, self.size)) is not None:
                first, slot = found
                request = first.request
                if is_left_out(request, now):
                    late.append(request)
                    backlog.remove_first(request.job_class)
                    continue
                classes = backlog.clocks.classes
                idle = {each: classes.finish_of(each) for each in JobClass if not backlog.is_waiting(each)}
                class_tag = backlog.class_tag(request.job_class)
                starts.append(ExpectedStart(now, request, slot, first.tag, class_tag, idle))
                backlog.start(first, slot)
                taken.append(slot)
                running.append((slot, now + self.seconds[request]))
            arrivals = {each: backlog.clocks.arrival_in(each) for each in JobClass}
            states.append(ExpectedState(now, backlog.counts, tuple(taken), arrivals, len(starts)))
            if not running:
                return _Simulation(states, starts, late, backlog)
            now = max(now, min(end for _, end in running))
            running = [(slot, end) for slot, end in running if end > now]
