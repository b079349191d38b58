"""What the image executor needs of a pool, be it of this process or shared by several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from attrs import frozen

from imagehost_core.errors import UnavailableError
from imagehost_core.workers.admission import WorkerRequest
from imagehost_core.workers.failures import SharedFailure
from imagehost_core.workers.messages import TaskError
from imagehost_core.workers.process import Worker
from imagehost_core.workers.watchdog import Watchdog


@frozen
class PoolLoad:
    """The load of a process pool.

    Attributes:
        busy: Number of worker processes that run a task.
        idle: Number of worker processes without a task.
        waiting: Number of requests in the queue.
    """

    busy: int
    idle: int
    waiting: int


class WorkerPool(ABC):
    """A pool that lends worker processes: `ProcessPool` or `BorrowedPool`.

    Attributes:
        watchdog: The timers of the tasks' deadlines.
    """

    watchdog: Watchdog

    @property
    @abstractmethod
    def load(self) -> PoolLoad:
        """The current load."""

    @property
    @abstractmethod
    def worker_pids(self) -> tuple[int, ...]:
        """The process IDs of all busy and idle worker processes, in ascending order."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the pool is closed."""

    @abstractmethod
    def start(self) -> None:
        """Start a worker process in the background, unless there is one."""

    @abstractmethod
    def submit(self, request: WorkerRequest) -> Future[Worker | None]:
        """Queue a request for a worker process.

        Cancelling the future takes the request out of the queue.

        Returns:
            A worker process, which the caller must `release`; or `None` when another task with the same key
            has succeeded meanwhile. A caller that gets one for a request with a key must also `complete` it.
            The future raises `UnavailableError` if none was free in time or probably will be, the queue is
            full, or none can be started; `SharedFailure` when another task with the same key has failed.
        """

    @abstractmethod
    def release(self, worker: Worker) -> None:
        """Take back a worker process; one that was lost or is due for replacement is replaced."""

    @abstractmethod
    def complete(self, key: str, *, succeeded: bool, error: TaskError | None = None) -> None:
        """Mark the result of a key as available, or as failed.

        Args:
            key: The key.
            succeeded: Whether the result is available.
            error: After a failure, the error for those that wait for the result; without it, the next
                request with the key runs.
        """

    @abstractmethod
    def close(self) -> None:
        """End all use of worker processes. Callers that wait for one, or for a result, get an error."""

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
            UnavailableError: None was free in time, the queue is full, or none can be started.
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
