"""The queue of a pool: two lanes, light and heavy. It knows no processes, threads or clocks.

- In each lane the flows take turns, one request each (round robin). A flow is an account or a client: its
  requests queue behind each other, and not behind those of others.
- A lane is full for a flow that has as many requests in it as there are free places (`may_take`).
- A request that would not get its turn before its deadline, by the mean duration of the lane's recent tasks,
  is rejected at once.
- Of the requests with the same key one runs, when any of them has its turn. The others wait for its result.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain

from attrs import frozen

from imagehost_core.errors import UnavailableError
from imagehost_core.limits import may_take

INITIAL_SECONDS = 0.1, 0.5
"""The mean durations of light and of heavy tasks before any has ended."""
MEAN_OF_TASKS = 8
"""The number of tasks in a mean, which is weighted by recency."""


class Lane(Enum):
    """A lane of the queue: whether a task takes little time and memory."""

    LIGHT = "light"
    HEAVY = "heavy"


@frozen(eq=False)
class WorkerRequest:
    """A request for a worker process. Two requests are never equal.

    Attributes:
        until: When to stop waiting, on the clock of `time.monotonic()`, in seconds.
        lane: The lane to wait in.
        key: The result of the task; tasks with the same key run once. `None` if it is not shared.
        flow: The account or client that the task is for.
        memory_bytes: The most memory that the task needs.
        timeout_seconds: How long before `until` it was made, for errors.
    """

    until: float
    lane: Lane = Lane.HEAVY
    key: str | None = None
    flow: str = ""
    memory_bytes: int = 0
    timeout_seconds: float = 0.0


class Lanes:
    """The requests that wait. All times are on one clock, in seconds.

    Args:
        places: The most requests of a lane that can wait.
        workers: The number of worker processes that take requests of both lanes.
    """

    def __init__(self, places: int, workers: int) -> None:
        self._places, self._workers = places, workers
        self._flows = {lane: OrderedDict[str, deque[WorkerRequest]]() for lane in Lane}
        self._followers: dict[str, list[WorkerRequest]] = {}
        self._mean_seconds = dict(zip(Lane, INITIAL_SECONDS, strict=True))

    def __iter__(self) -> Iterator[WorkerRequest]:
        """Iterate over all waiting requests."""
        flows = chain.from_iterable(flows.values() for flows in self._flows.values())
        return chain.from_iterable((*flows, *self._followers.values()))

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return sum(1 for _ in self)

    def count(self, lane: Lane) -> int:
        """Return the number of tasks that wait in a lane; requests with the same key count once."""
        return _count_tasks(chain.from_iterable(self._flows[lane].values()))

    def add(self, request: WorkerRequest, now: float, free: int) -> None:
        """Add a request.

        Args:
            request: The request.
            now: The present.
            free: The number of worker processes that could take requests of its lane, waiting ones included.

        Raises:
            UnavailableError: The lane is full, or the request would not get its turn before its deadline.
        """
        if request.key is not None and request.key in self._followers:
            self._followers[request.key].append(request)
            return
        flows = self._flows[request.lane]
        own = flows.get(request.flow, ())
        if request.key is None or all(request.key != other.key for other in self):
            self._require_place(request, _count_tasks(own), free)
            self._require_turn(request, len(own), now, free)
        flows.setdefault(request.flow, deque()).append(request)

    def next(self, lane: Lane) -> WorkerRequest | None:
        """Return the request of a lane whose turn it is."""
        return next((requests[0] for requests in self._flows[lane].values()), None)

    def start(self, request: WorkerRequest) -> None:
        """Remove a request whose task starts. Others with its key wait for the result from now on."""
        self.remove(request)
        flows = self._flows[request.lane]
        if request.flow in flows:
            flows.move_to_end(request.flow)
        if request.key is not None:
            followers = [other for other in self if other.key == request.key]
            for other in followers:
                self.remove(other)
            self._followers[request.key] = followers

    def remove(self, request: WorkerRequest) -> None:
        """Remove a waiting request."""
        followers = self._followers.get(request.key or "", [])
        if request in followers:
            followers.remove(request)
            return
        flows = self._flows[request.lane]
        flows[request.flow].remove(request)
        if not flows[request.flow]:
            del flows[request.flow]

    def complete(self, key: str, *, shared: bool) -> list[WorkerRequest]:
        """End the task of a key.

        Args:
            key: The key.
            shared: Whether the requests that wait for its result get what the task got, a result or an error.

        Returns:
            These requests, removed. If it is not shared, the first of them runs next in its flow.
        """
        followers = self._followers.pop(key, [])
        if shared:
            return followers
        for request in reversed(followers):
            self._flows[request.lane].setdefault(request.flow, deque()).appendleft(request)
        return []

    def record(self, lane: Lane, seconds: float) -> None:
        """Count the duration of a task that has ended."""
        self._mean_seconds[lane] += (seconds - self._mean_seconds[lane]) / MEAN_OF_TASKS

    def retry_after(self, request: WorkerRequest, seconds: float = 0.0) -> int:
        """Return the value of `Retry-After` for a request that is rejected.

        Args:
            request: The request.
            seconds: When it would be admitted; at least when each flow has had a turn.
        """
        return max(1, math.ceil(max(seconds, self._seconds_of(len(self._flows[request.lane]), request))))

    def _seconds_of(self, tasks: int, request: WorkerRequest) -> float:
        """Return the time after which tasks of a request's lane have probably ended."""
        return tasks * self._mean_seconds[request.lane] / self._workers

    def _require_place(self, request: WorkerRequest, own: int, free: int) -> None:
        tasks = self.count(request.lane)
        places = self._places - max(0, tasks - free)
        if tasks >= free and not may_take(max(0, own - free), places):
            raise UnavailableError(
                f"expected at most {self._places} requests to wait for a worker, and of one account or "
                "client as many as others leave free",
                retry_after=self.retry_after(request),
            )

    def _require_turn(self, request: WorkerRequest, own: int, now: float, free: int) -> None:
        flows = self._flows[request.lane]
        others = (len(requests) for flow, requests in flows.items() if flow != request.flow)
        before = own + sum(min(count, own + 1) for count in others)
        wait = self._seconds_of(before + 1 - free, request)
        timeout = request.until - now
        if before >= free and wait > timeout:
            raise UnavailableError(
                f"expected a free worker within {timeout:.3g} seconds but too many tasks wait before",
                retry_after=self.retry_after(request, wait - timeout),
            )


def _count_tasks(requests: Iterable[WorkerRequest]) -> int:
    return len({request.key or request for request in requests})
