"""What the image executor needs of a pool, be it of this process or shared by several."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Protocol

from attrs import frozen

from imagehost_core.workers.admission import WorkerRequest
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


class WorkerPool(Protocol):
    """A pool that lends worker processes: `ProcessPool` or `BorrowedPool`."""

    @property
    def watchdog(self) -> Watchdog:
        """The timers of the tasks' deadlines."""

    @property
    def load(self) -> PoolLoad:
        """The current load."""

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process IDs of all worker processes."""

    @property
    def closed(self) -> bool:
        """Whether the pool is closed."""

    def start(self) -> None:
        """Start a worker process in the background, unless there is one."""

    def submit(self, request: WorkerRequest) -> Future[Worker | None]:
        """Queue a request, as `ProcessPool.submit` does."""

    def release(self, worker: Worker) -> None:
        """Take back a worker process."""

    def complete(self, key: str, *, succeeded: bool) -> None:
        """Mark the result of a key as available, or as failed."""

    def abandon(self, request: WorkerRequest, future: Future[Worker | None]) -> None:
        """Cancel a request, or give back its worker process."""

    def acquire(self, request: WorkerRequest) -> AbstractContextManager[Worker]:
        """Acquire a worker process for a block."""

    def close(self) -> None:
        """End all use of worker processes."""
