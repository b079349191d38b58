"""A pool without processes, for tests of its queue."""

from __future__ import annotations

from imagehost_core.errors import UnavailableError
from imagehost_core.workers.admission import WorkerRequest
from imagehost_core.workers.queue import RequestQueue


class SimulatedPool:
    """A pool without processes, whose clock is `now`.

    Attributes:
        running: When the tasks will end, in the order of their starts.
        outcomes: What became of each request: its task has `ended`, it got the `result` of another, or it was
            `rejected`, `replaced` or `cancelled`.
        started: The requests whose tasks have started, in this order.
        results: The keys whose results are available.
    """

    def __init__(self, size: int, places: int) -> None:
        self.size, self.now = size, 0.0
        self.queue = RequestQueue(size, places)
        self.running: dict[WorkerRequest, float] = {}
        self.outcomes: dict[WorkerRequest, str] = {}
        self.started: list[WorkerRequest] = []
        self.results: set[str] = set()

    def submit(self, request: WorkerRequest) -> UnavailableError | None:
        try:
            replaced = self.queue.add(request, self.now)
        except UnavailableError as error:
            self.resolve(request, "rejected")
            return error
        for other, reason in replaced:
            assert reason.retry_after >= 1
            self.resolve(other, "replaced")
        self.dispatch()
        return None

    def resolve(self, request: WorkerRequest, outcome: str) -> None:
        assert request not in self.outcomes
        self.outcomes[request] = outcome

    def dispatch(self) -> None:
        while (request := self.queue.next()) is not None:
            try:
                self.queue.start(request, self.now)
            except UnavailableError:
                self.resolve(request, "rejected")
                continue
            self.running[request] = self.now + request.seconds
            self.started.append(request)

    def advance(self, seconds: float) -> None:
        """Let time pass: tasks end, and deadlines come."""
        until = self.now + seconds
        while True:
            deadlines = [request.until for request in self.queue.waiting]
            due = [moment for moment in (*self.running.values(), *deadlines) if moment <= until]
            if not due:
                break
            self.now = max(self.now, min(due))
            for request in [each for each, end in self.running.items() if end <= self.now]:
                self.end(request, succeeded=True)
            self.dispatch()
            for request in [each for each in self.queue.waiting if each.until <= self.now]:
                self.queue.expire(request, self.now)
                self.resolve(request, "rejected")
            self.dispatch()
        self.now = until

    def end(self, request: WorkerRequest, *, succeeded: bool, shared: bool = False) -> None:
        del self.running[request]
        self.resolve(request, "ended")
        self.queue.end(request, self.now, measured=succeeded)
        for late, _ in self.queue.remove_late(self.now):
            self.resolve(late, "rejected")
        if request.key is not None:
            self.results |= {request.key} if succeeded else set()
            for other in self.queue.complete(request.key, shared=succeeded or shared):
                assert other.key == request.key
                self.resolve(other, "result")
