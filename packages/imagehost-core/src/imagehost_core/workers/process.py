"""A worker process as its user sees it: the exchange of messages through two pipes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TypeVar

from attrs import frozen

from imagehost_core.observer import Observer, ignore
from imagehost_core.sandbox import SandboxLimits, SandboxStatus
from imagehost_core.workers import frames, messages
from imagehost_core.workers.frames import FrameError, Head
from imagehost_core.workers.messages import Json, Ready, ResourceUsage, TaskRequest, TaskResult

T = TypeVar("T")
Receive = Callable[[Iterator[bytes]], T]
"""Consumes the chunks of one blob of a result."""


class WorkerLost(Exception):
    """The worker process exited or sent an invalid message; it will return no result."""


class WorkerNotReady(WorkerLost):
    """The worker process exited before it was ready for a task."""


@frozen
class ExitInfo:
    """The end of a worker process.

    Attributes:
        signal: Name of the signal that ended it, or `None` if it exited.
        killed_by_pool: Whether the pool sent that signal.
        message: Process ID, signal or exit status, and the end of its standard error, for the log.
    """

    signal: str | None
    killed_by_pool: bool
    message: str


@frozen
class WorkerSpec:
    """The configuration of new worker processes.

    Attributes:
        tasks: The module of their task table.
        limits: Their limits.
        observe: Receives the measurements of starts and exits.
    """

    tasks: str
    limits: SandboxLimits
    observe: Observer = ignore


class Worker(ABC):
    """A worker process, which runs one task at a time.

    `ready`, `request` and `read_blobs` must be called by one thread at a time, `kill` by any.

    Args:
        requests: The pipe to send tasks to.
        results: The pipe to read results from, unbuffered.

    Attributes:
        sandbox: The status of its sandbox; `None` until it is known to be ready.
        task_count: Number of tasks it was sent.
        usage: Its resource usage as of the last result.
        retired: Whether it must be replaced after the current task.
        interrupted: Whether an exchange of messages has begun and not ended, so that it must be replaced.
    """

    def __init__(self, requests: IO[bytes], results: IO[bytes]) -> None:
        self._requests, self._results = requests, results
        self.sandbox: SandboxStatus | None = None
        self.retired = False
        self.interrupted = False
        self.task_count = 0
        self.usage = ResourceUsage(0, 0.0)

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process ID."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the process at once; a thread that is blocked on it gets an error."""

    @abstractmethod
    def end(self, grace: float = 0) -> ExitInfo:
        """End the process, if it has not exited.

        Args:
            grace: Seconds to wait for it to exit before it is killed.
        """

    def pipes(self) -> tuple[int, int]:
        """Return the descriptors of the pipes of requests and of results."""
        return self._requests.fileno(), self._results.fileno()

    def close_pipes(self) -> None:
        """Close this process's ends of the pipes."""
        self._requests.close()
        self._results.close()

    def ready(self) -> SandboxStatus:
        """Wait until the process is ready for tasks; return the status of its sandbox.

        Raises:
            WorkerNotReady: It exited before.
        """
        if self.sandbox is None:
            self.interrupted = True
            try:
                with worker_errors():
                    self.sandbox = messages.decode(self._read_head().header, Ready).sandbox
            except WorkerLost as error:
                raise WorkerNotReady("the worker process did not start") from error
            self.interrupted = False
        return self.sandbox

    def request(
        self, task: str, arguments: Json, source: frames.Readable, length: int
    ) -> tuple[TaskResult, tuple[int, ...]]:
        """Send a task; return its result, and the lengths of the blobs to read with `read_blobs`.

        After any exception the process is unusable: `end` it.

        Args:
            task: Name of the task.
            arguments: The arguments before the blob: a list.
            source: Stream to read the blob from, in chunks.
            length: Length of the blob in bytes.

        Raises:
            WorkerLost: The process exited, or sent an invalid result.
            FrameError: The source ends before `length`.
        """
        self.ready()
        self.interrupted = True
        self.task_count += 1
        request = TaskRequest(self.task_count, task, arguments)
        with worker_errors():
            frames.write_head(self._requests, Head(messages.encode(request), (length,)))
        for chunk in frames.chunks(source, length):
            with worker_errors():
                frames.write(self._requests, chunk)
        head = self._read_head()
        with worker_errors():
            result = messages.decode(head.header, TaskResult)
        if result.number != self.task_count or (result.error is not None and head.lengths):
            raise WorkerLost("the worker process sent the result of another task")
        self.usage = result.usage
        self.interrupted = bool(head.lengths)
        return result, head.lengths

    def read_blobs(self, lengths: tuple[int, ...], receive: Receive[T]) -> list[T]:
        """Return what `receive` returns for each blob of a result.

        Args:
            lengths: Lengths of all blobs, in bytes.
            receive: Called with the chunks of each blob; it must consume them all.

        Raises:
            WorkerLost: The process exited before the end of the blobs.
        """
        blobs = [receive(self._read_chunks(length)) for length in lengths]
        self.interrupted = False
        return blobs

    def _read_head(self) -> Head:
        with worker_errors():
            head = frames.read_head(self._results)
        if head is None:
            raise WorkerLost("the worker process exited")
        return head

    def _read_chunks(self, length: int) -> Iterator[bytes]:
        chunks = frames.chunks(self._results, length)
        while True:
            with worker_errors():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk


@contextmanager
def worker_errors() -> Iterator[None]:
    """Raise `WorkerLost` for errors of the pipes, to separate them from errors of the caller's streams."""
    try:
        yield
    except (OSError, FrameError) as error:
        raise WorkerLost("the worker process exited or sent an invalid message") from error
