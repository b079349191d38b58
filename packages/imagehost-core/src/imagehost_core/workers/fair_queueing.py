"""Fair queueing: the order in which waiting requests start, by job class and flow, weighted by expected cost.

A flow is the requests of one account or client. Each flow has its share of the worker processes, however many
requests it has: they queue behind each other, and not behind those of other flows.

Requests have tags on a virtual clock, as in start-time fair queueing (Goyal, Vin and Cheng, "Start-time
Fair Queuing", SIGCOMM 1996, after Demers, Keshav and Shenker, "Analysis and Simulation of a Fair Queueing
Algorithm", SIGCOMM 1989): a request's tag is the time of the clock at its arrival, or the tag of the one
before it in its flow plus the expected seconds of that one, whichever is later. The lowest tag starts first.
There are two levels (hierarchical link sharing, in the same paper): job classes share the shared slots, and
the flows of a class what the class gets, its reserved slot included.

When a task starts, the clock advances to its tag, and by the share of its seconds that each waiting flow and
one newcomer would have got. Without the second term, an endless sequence of newcomers, which all get the time
of the clock as their tag, would starve the flows that have had a task.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Mapping

from attrs import define, field, frozen

from imagehost_core.workers.admission import JobClass, Slot, WorkerRequest, find_slot

MIN_SECONDS = 0.005
"""The least cost of a task, in seconds: that of its exchange with a worker process."""
MIN_PRUNED = 256
"""Flows that are remembered at least, before those that the clock has passed are forgotten."""


@define
class VirtualClock:
    """The virtual clock of flows that share something.

    Attributes:
        now: The time of the clock.
    """

    now: float = 0.0
    _finish: dict[Hashable, float] = field(factory=dict, alias="finish")
    _pruned_size: int = MIN_PRUNED

    def finish_of(self, flow: Hashable) -> float:
        """Return the tag of the last task of a flow that started, plus its seconds."""
        return self._finish.get(flow, 0.0)

    def start(self, flow: Hashable, tag: float, seconds: float, flows: int) -> None:
        """Start a task.

        Args:
            flow: Its flow.
            tag: Its tag.
            seconds: Its expected cost.
            flows: The number of flows that wait, its own included.
        """
        self._finish[flow] = tag + seconds
        self.now = max(self.now, tag) + seconds / (flows + 1)

    def correct(self, flow: Hashable, seconds: float) -> None:
        """Add the difference of the measured and the expected cost of a task that was started."""
        if flow in self._finish:
            self._finish[flow] += seconds

    def prune(self, waiting: Collection[Hashable]) -> None:
        """Forget the flows that neither wait nor have a finish after the present, seldom."""
        if len(self._finish) >= 2 * self._pruned_size:
            kept = {flow for flow, finish in self._finish.items() if finish > self.now}
            self._finish = {flow: self._finish[flow] for flow in kept.union(waiting) if flow in self._finish}
            self._pruned_size = max(MIN_PRUNED, len(self._finish))

    def copy(self) -> VirtualClock:
        """Return an independent copy."""
        return VirtualClock(self.now, dict(self._finish), self._pruned_size)


@frozen
class VirtualArrival:
    """The times of the clocks at the arrival of a request: of its class, and that of all classes."""

    in_class: float
    overall: float


@frozen
class TaggedRequest:
    """A waiting request.

    Attributes:
        request: The request.
        number: Its number in the order of arrival.
        tag: Its tag in its class.
        overall_arrival: The time of the clock of all classes when it arrived.
        seconds: The expected cost of its task.
    """

    request: WorkerRequest
    number: int
    tag: float
    overall_arrival: float
    seconds: float


@define
class FairClocks:
    """The virtual clocks of a pool.

    Attributes:
        classes: The clock of the job classes, which share the shared slots.
        flows: The clocks of the flows in each class.
    """

    classes: VirtualClock = field(factory=VirtualClock)
    flows: dict[JobClass, VirtualClock] = field(
        factory=lambda: {job_class: VirtualClock() for job_class in JobClass}
    )

    def arrival_in(self, job_class: JobClass) -> VirtualArrival:
        """Return the times of the clocks at which a request of a class arrives now."""
        return VirtualArrival(self.flows[job_class].now, self.classes.now)

    def correct(self, request: WorkerRequest, slot: Slot, seconds: float) -> None:
        """Add the difference of the measured and the expected cost of a task."""
        self.flows[request.job_class].correct(request.flow, seconds)
        if not slot.reserved:
            self.classes.correct(request.job_class, seconds)

    def copy(self) -> FairClocks:
        """Return an independent copy."""
        flows = {job_class: clock.copy() for job_class, clock in self.flows.items()}
        return FairClocks(self.classes.copy(), flows)


@define
class Backlog:
    """The requests that wait for worker processes, in fair order.

    Attributes:
        clocks: The clocks; `start` advances them.
    """

    clocks: FairClocks
    _queues: dict[JobClass, deque[TaggedRequest]]
    _flows: dict[JobClass, Counter[str]]
    _oldest: dict[JobClass, TaggedRequest] = field(factory=dict)

    @classmethod
    def of(
        cls,
        clocks: FairClocks,
        waiting: Mapping[WorkerRequest, VirtualArrival],
        running_keys: Collection[str],
        seconds: Callable[[WorkerRequest], float],
    ) -> Backlog:
        """Return the backlog of a queue. Of several requests with one key, it has the one that comes first.

        Args:
            clocks: The clocks.
            waiting: All requests that wait, in order of arrival.
            running_keys: The keys of tasks whose results are being created: their requests need no worker.
            seconds: Returns the expected cost of a task.
        """
        finish: dict[tuple[JobClass, str], float] = {}
        tagged: list[TaggedRequest] = []
        flow_keys: set[tuple[str, str]] = set()
        for number, (request, arrival) in enumerate(waiting.items()):
            if request.key is not None:
                if request.key in running_keys or (request.flow, request.key) in flow_keys:
                    continue
                flow_keys.add((request.flow, request.key))
            flow = request.job_class, request.flow
            earlier = finish.get(flow)
            if earlier is None:
                earlier = clocks.flows[request.job_class].finish_of(request.flow)
            tag, cost = max(arrival.in_class, earlier), max(MIN_SECONDS, seconds(request))
            finish[flow] = tag + cost
            tagged.append(TaggedRequest(request, number, tag, arrival.overall, cost))
        # The sort is stable: equal tags keep the order of arrival.
        tagged.sort(key=lambda each: each.tag)
        queues: dict[JobClass, deque[TaggedRequest]] = {job_class: deque() for job_class in JobClass}
        flows: dict[JobClass, Counter[str]] = {job_class: Counter() for job_class in JobClass}
        keys: set[str] = set()
        for each in tagged:
            key = each.request.key
            if key is None or key not in keys:
                if key is not None:
                    keys.add(key)
                queues[each.request.job_class].append(each)
                flows[each.request.job_class][each.request.flow] += 1
        return cls(clocks, queues, flows)

    def copy(self) -> Backlog:
        """Return an independent copy, with clocks of its own."""
        return Backlog(
            self.clocks.copy(),
            {job_class: queue.copy() for job_class, queue in self._queues.items()},
            {job_class: flows.copy() for job_class, flows in self._flows.items()},
            self._oldest.copy(),
        )

    @property
    def requests(self) -> list[WorkerRequest]:
        """The requests, in fair order within each class."""
        return [each.request for queue in self._queues.values() for each in queue]

    @property
    def counts(self) -> Counter[JobClass]:
        """The number of requests of each class."""
        return Counter({job_class: len(queue) for job_class, queue in self._queues.items()})

    @property
    def flow_lengths(self) -> Counter[str]:
        """The number of requests of each flow, of all classes."""
        return sum(self._flows.values(), Counter[str]())

    def is_waiting(self, job_class: JobClass) -> bool:
        """Return whether a request of a class waits."""
        return bool(self._queues[job_class])

    def find_next(self, taken: Collection[Slot], size: int) -> tuple[TaggedRequest, Slot] | None:
        """Return the request to start next, and its slot; `None` if all must wait.

        Args:
            taken: The slots in use.
            size: The number of shared slots.
        """
        slots = {
            job_class: slot
            for job_class, queue in self._queues.items()
            if queue and (slot := find_slot(job_class, taken, size)) is not None
        }
        if not slots:
            return None
        # Either all have a shared slot, or each has a reserved one of its own. Of equal tags, by arrival.
        job_class = min(slots, key=lambda each: (self.class_tag(each), self._oldest_of(each).number))
        return self._queues[job_class][0], slots[job_class]

    def class_tag(self, job_class: JobClass) -> float:
        """Return the tag of a class that has waiting requests."""
        arrived = self._oldest_of(job_class).overall_arrival
        return max(arrived, self.clocks.classes.finish_of(job_class))

    def start(self, first: TaggedRequest, slot: Slot) -> None:
        """Start the request that `find_next` has returned."""
        job_class, flow = first.request.job_class, first.request.flow
        if not slot.reserved:
            waiting = sum(map(bool, self._queues.values()))
            self.clocks.classes.start(job_class, self.class_tag(job_class), first.seconds, waiting)
        flows = self._flows[job_class]
        self.clocks.flows[job_class].start(flow, first.tag, first.seconds, len(flows))
        self.remove_first(job_class)
        self.clocks.flows[job_class].prune(flows)

    def remove_first(self, job_class: JobClass) -> None:
        """Remove the first request of a class, which does not run."""
        first, flows = self._queues[job_class].popleft(), self._flows[job_class]
        if self._oldest.get(job_class) is first:
            del self._oldest[job_class]
        flow = first.request.flow
        flows[flow] -= 1
        if not flows[flow]:
            del flows[flow]

    def _oldest_of(self, job_class: JobClass) -> TaggedRequest:
        oldest = self._oldest.get(job_class)
        if oldest is None:
            oldest = min(self._queues[job_class], key=lambda each: each.number)
            self._oldest[job_class] = oldest
        return oldest
