"""Iterators of a batch upload's results, in the order in which they finish."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar

from imagehost_client._batches import Batch, Group, JobQueue, UploadResult, prepare, run_group
from imagehost_client._exchange import CallCancelledError, Calls, Environment
from imagehost_client._journal import Journal

if TYPE_CHECKING:
    from typing import Self

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

__all__ = ["AsyncUploadIterator", "UploadInterrupted", "UploadIterator", "UploadResult"]

T = TypeVar("T")

POLL_SECONDS = 0.2
"""The longest wait for a result without a check for Ctrl-C, which not all systems let interrupt a wait."""
CANCEL_SECONDS = 0.2
"""The time that cancelled uploads have to end; those that wait for a response end later, unobserved."""


class UploadInterrupted(KeyboardInterrupt):
    """Ctrl-C during a batch upload.

    Attributes:
        results: The results of the files that were finished, in the order of the sources. Of the others,
            those in progress may have been stored.
        total: The number of files; 0 if they were not counted yet.
        pending: The number of files in progress, which the host may still store.
    """

    def __init__(self, results: list[UploadResult], total: int, pending: int = 0) -> None:
        stored = sum(result.image is not None for result in results)
        still = f"; the host may still store {pending} in progress" if pending else ""
        super().__init__(f"{stored} of {total} files stored{still}")
        self.results = results
        self.total = total
        self.pending = pending


class CallsRunner(Protocol):
    """A function that runs calls one after another, until an event is set."""

    def __call__(self, calls: Calls[T], cancelled: threading.Event | None = None, /) -> T:
        """Run the calls, and return their result."""


class AsyncCallsRunner(Protocol):
    """A function that runs calls one after another."""

    def __call__(self, calls: Calls[T], /) -> Awaitable[T]:
        """Run the calls, and return their result."""


class _UploadResults:
    """The results of a batch upload.

    Attributes:
        by_position: The results so far, by the position of their source.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.by_position: dict[int, UploadResult] = {}

    @property
    def total(self) -> int:
        """The number of files; 0 before they are counted."""
        return self._batch.total

    @property
    def results(self) -> list[UploadResult]:
        """The results so far, in the order of the sources."""
        return [result for _, result in sorted(self.by_position.items())]

    def interrupted(self) -> UploadInterrupted:
        """Return the exception for an interruption now."""
        pending = self._batch.state.taken - len(self.by_position)
        return UploadInterrupted(self.results, self.total, pending)


class UploadIterator(_UploadResults):
    """The results of a batch upload, each as soon as its file is finished.

    Uploads begin with the first result that is requested. `close`, the end of a `with` block or an exception
    cancels the uploads that are not finished.

    Attributes:
        total: The number of files; 0 before the first result is requested.
    """

    def __init__(self, batch: Batch, run: CallsRunner, environment: Environment) -> None:
        super().__init__(batch)
        self._iterator = _upload_in_threads(batch, run, environment, self.by_position)

    def close(self) -> None:
        """Cancel the uploads that are not finished."""
        self._iterator.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> UploadResult:
        try:
            return next(self._iterator)
        except KeyboardInterrupt:
            raise self.interrupted() from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncUploadIterator(_UploadResults):
    """The results of a batch upload, each as soon as its file is finished.

    It is used in an `async with` block. Its end, an exception or a cancellation cancels the uploads that
    are not finished.
    """

    def __init__(self, batch: Batch, run: AsyncCallsRunner, environment: Environment) -> None:
        super().__init__(batch)
        self._environment = environment
        self._run = run
        self._context: AbstractAsyncContextManager[MemoryObjectReceiveStream[UploadResult]] | None = None
        self._stream: MemoryObjectReceiveStream[UploadResult] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> UploadResult:
        from anyio import EndOfStream  # comes with httpx2

        if self._stream is None:
            raise RuntimeError("expected `async with` for upload_iter but received iteration without it")
        try:
            return await self._stream.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        self._context = self._upload()
        self._stream = await self._context.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._context is not None
        await self._context.__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def _upload(self) -> AsyncIterator[MemoryObjectReceiveStream[UploadResult]]:
        """Run the uploads in tasks until the block ends.

        An exception of the block is raised outside of the task group, which would wrap it.
        """
        from anyio import create_memory_object_stream, create_task_group
        from anyio.to_thread import run_sync

        batch, failure = self._batch, None
        with await run_sync(Journal, batch.journal, self._environment.new_key) as journal:
            jobs = await self._run(prepare(await run_sync(batch.plan), journal, batch.config))
            send, receive = create_memory_object_stream[UploadResult](len(jobs) or 1)
            queue = JobQueue(jobs, batch, self._environment)
            try:
                with receive:
                    async with create_task_group() as group:
                        for _ in range(min(batch.parallel, len(jobs))):
                            group.start_soon(self._work, queue, journal, send.clone())
                        send.close()
                        try:
                            yield receive
                        except Exception as error:
                            failure = error
                        group.cancel_scope.cancel()
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
        if failure is not None:
            raise failure

    async def _work(
        self, queue: JobQueue, journal: Journal, results: MemoryObjectSendStream[UploadResult]
    ) -> None:
        """Upload one group after another, and send their results."""
        state, retry = self._batch.state, self._batch.config.retry
        with results:
            while group := queue.take():
                finished = await self._run(run_group([job for _, job in group], journal, state, retry))
                for (index, _), result in zip(group, finished, strict=True):
                    self.by_position[index] = result
                    results.send_nowait(result)


def _upload_in_threads(
    batch: Batch, run: CallsRunner, environment: Environment, results: dict[int, UploadResult]
) -> Generator[UploadResult]:
    """Run the uploads in threads, and return their results as they finish.

    The threads are daemons: a process that ends does not wait for one that waits for a mute host.
    """
    finished: SimpleQueue[tuple[int, UploadResult] | BaseException] = SimpleQueue()
    cancelled = threading.Event()
    with Journal(batch.journal, environment.new_key) as journal:
        jobs = run(prepare(batch.plan(), journal, batch.config))
        queue = JobQueue(jobs, batch, environment)
        lock = threading.Lock()

        def take() -> Group:
            with lock:
                return [] if cancelled.is_set() else queue.take()

        def work() -> None:
            try:
                while group := take():
                    calls = run_group([job for _, job in group], journal, batch.state, batch.config.retry)
                    for (index, _), result in zip(group, run(calls, cancelled), strict=True):
                        finished.put((index, result))
            except CallCancelledError:
                pass
            except BaseException as error:
                finished.put(error)

        threads = [
            threading.Thread(target=work, name=f"imagehost-upload-{number}", daemon=True)
            for number in range(min(batch.parallel, len(jobs)))
        ]
        try:
            for thread in threads:
                thread.start()
            for _ in jobs:
                outcome = _get(finished)
                if isinstance(outcome, BaseException):
                    raise outcome
                index, result = outcome
                results[index] = result
                yield result
        finally:
            cancelled.set()
            _join(threads)
            while not finished.empty():
                outcome = finished.get()
                if not isinstance(outcome, BaseException):
                    results[outcome[0]] = outcome[1]


def _get(queue: SimpleQueue[T]) -> T:
    while True:
        try:
            return queue.get(timeout=POLL_SECONDS)
        except Empty:
            continue


def _join(threads: list[threading.Thread]) -> None:
    """Wait for threads that end soon."""
    from time import monotonic

    deadline = monotonic() + CANCEL_SECONDS
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline - monotonic()))
