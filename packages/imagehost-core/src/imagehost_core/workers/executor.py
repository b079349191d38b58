"""The image executor: runs tasks in sandboxed worker processes and enforces their deadlines.

A decoder that hangs, crashes or exceeds its memory limit fails only the task that caused it. The executor
is thread-safe, and works in processes forked from the one that created it.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Generic, Self, TypeVar, cast

from attrs import frozen

from imagehost_core._util.clock import ElapsedClock
from imagehost_core.errors import InternalError, UnavailableError
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, IngestResult, RenderJob, RenderResult
from imagehost_core.observer import Observer, PoolLoad, TaskEnded, WorkerAcquired, ignore
from imagehost_core.sandbox import SandboxLimits, SandboxStatus
from imagehost_core.sandbox.limits import CPU_TIME_SIGNAL
from imagehost_core.steps import QueueSteps
from imagehost_core.workers import failures, messages
from imagehost_core.workers.costs import Cost
from imagehost_core.workers.frames import FrameError, Readable
from imagehost_core.workers.lanes import Lane, WorkerRequest
from imagehost_core.workers.memory import MemorySettings
from imagehost_core.workers.pool import ProcessPool
from imagehost_core.workers.process import (
    ExitInfo,
    Receive,
    Worker,
    WorkerLost,
    WorkerNotReady,
    WorkerSpec,
    worker_errors,
)
from imagehost_core.workers.watchdog import Watchdog

TASKS = "imagehost_core.workers.tasks"
"""The module of the default task table, which has the tasks of `ingest` and `render`."""
MAX_TASKS_PER_WORKER = 1000
"""The number of tasks after which a worker process is replaced, which bounds memory leaks of codecs."""
MAX_WORKER_BYTES = 2**30
"""A worker process that held more memory than this, in bytes, is replaced after its task: starting one takes
0.3 s, and using that much takes seconds."""
EXIT_GRACE_SECONDS = 1.0
"""Seconds that a worker process which closed its pipe has to exit, so that its exit status is known."""
MIN_WORK_SHARE = 0.5
"""The share of the deadline that a task must have had with a worker process to count as too slow. The result
of an upload must not depend on the load of the server."""
MAX_EXTENSION_SECONDS = 60.0
"""The longest time that a deadline is put off for a task that waits for a core."""

Result = TypeVar("Result")
Blob = TypeVar("Blob")

log = logging.getLogger("imagehost.workers")


@frozen
class TaskCall(Generic[Result]):
    """A call of a task.

    Attributes:
        task: Name in the task table.
        arguments: The arguments before the source: attrs objects, enums or plain values.
        result_type: Type of the result.
        blob_count: Returns the number of blobs that belong to a result.
        format: The format of the variant or of the upload, for measurements.
    """

    task: str
    arguments: tuple[object, ...]
    result_type: type[Result]
    blob_count: Callable[[Result], int]
    format: str = ""

    def parse_result(self, message: messages.TaskResult, lengths: tuple[int, ...]) -> Result:
        """Return the result in a message.

        Raises:
            WorkerLost: The message holds no result of this call.
        """
        with worker_errors():
            result = messages.from_json(message.value, self.result_type)
        if len(lengths) != self.blob_count(result):
            raise WorkerLost(f"expected {self.blob_count(result)} blobs but received {len(lengths)}")
        return result


class ImageExecutor:
    """An executor of image tasks on up to `size` worker processes, and one more for light tasks.

    `imagehost_core.workers.lanes` decides which task runs next and which can wait.

    The worker processes start with calls, and end when they are idle. Close the executor after use, or use it
    in a `with` statement; otherwise it is closed when it is garbage collected or the interpreter exits.

    Args:
        size: The most worker processes for heavy tasks.
        limits: Limits of each worker process.
        queue: The most tasks that can wait in each lane; further calls are rejected at once.
        max_tasks_per_worker: The number of tasks after which a worker process is replaced.
        max_worker_bytes: Peak memory, in bytes, above which a worker process is replaced.
        tasks: Module of the task table; see `imagehost_core.workers.tasks`.
        memory: The memory that tasks may use.
        observe: Receives the measurements of tasks and of worker processes.
    """

    def __init__(
        self,
        size: int,
        *,
        limits: SandboxLimits = SandboxLimits(),  # noqa: B008 - it is frozen
        queue: int = 64,
        max_tasks_per_worker: int = MAX_TASKS_PER_WORKER,
        max_worker_bytes: int = MAX_WORKER_BYTES,
        tasks: str = TASKS,
        memory: MemorySettings = MemorySettings(),  # noqa: B008 - it is frozen
        observe: Observer = ignore,
    ) -> None:
        if size < 1 or queue < 0 or max_tasks_per_worker < 1:
            raise ValueError(
                f"expected at least 1 for size and max_tasks_per_worker, and 0 for queue, "
                f"but received {size}, {max_tasks_per_worker} and {queue}"
            )
        self._pool = ProcessPool(
            WorkerSpec(tasks, limits, observe),
            size=size,
            queue=queue,
            max_tasks_per_worker=max_tasks_per_worker,
            max_worker_bytes=max_worker_bytes,
            memory=memory,
        )
        self._max_task_bytes = memory.max_task_bytes if memory.total_bytes else None
        self._cpu_seconds = limits.task_cpu_seconds
        self._observe = observe
        self._close = weakref.finalize(self, self._pool.close)

    def close(self) -> None:
        """End all worker processes; calls in progress raise `UnavailableError`."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def load(self) -> PoolLoad:
        """The numbers of busy and idle worker processes and of waiting calls."""
        return self._pool.load

    @property
    def is_healthy(self) -> bool:
        """Whether the last worker process that was started became ready; `False` before the first."""
        return self._pool.is_healthy is True

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process IDs of all busy and idle worker processes, in ascending order."""
        return self._pool.worker_pids

    def status(self, *, timeout_seconds: float = 10.0) -> SandboxStatus:
        """Return the sandbox status of a worker process; the wait for it is not measured.

        Args:
            timeout_seconds: Seconds to wait for a free one.

        Raises:
            UnavailableError: None was free in time.
            InternalError: None can be started; the cause has the details.
        """
        request = Cost(Lane.LIGHT, 0).request(timeout_seconds)
        with (
            failures.mapped_to(failures.RENDER_ERRORS),
            self._pool.acquire(request) as worker,
            self._using(worker, request, timeout_seconds),
        ):
            return worker.ready()

    def ingest(
        self,
        job: IngestJob,
        source: Readable,
        length: int,
        request: WorkerRequest,
        *,
        into: Path,
    ) -> tuple[IngestResult, list[Path]]:
        """Create the blobs to store for an upload: the master, then the derivatives.

        Args:
            job: The formats, qualities and sizes to create.
            source: The upload; it is read in chunks from its current position.
            length: Length of the image in bytes. Bytes after it are not read.
            request: The request of `costs.ingest_cost`, whose flow is who uploads.
            into: A directory to write each blob to as a file. After an error, some may be in it.

        Raises:
            ValidationError: The image is damaged, or the work on it takes too long, needs too much memory or
                crashes the decoder.
            UnavailableError: No worker process was free in time, or the queue is full.
            InternalError: The task failed unexpectedly; the cause has its traceback.
        """
        call = TaskCall(
            "ingest", (job,), IngestResult, lambda result: 1 + len(result.derivatives), job.format.value
        )
        with failures.mapped_to(failures.UPLOAD_ERRORS):
            return self.run(call, source, length, request, receive=_blob_writer(into))

    def render(
        self,
        job: RenderJob,
        source_format: Format,
        source: Readable,
        length: int,
        request: WorkerRequest,
        *,
        worker: Worker | None = None,
    ) -> tuple[RenderResult, bytes]:
        """Render a variant of a master or of one of its derivatives.

        Args:
            job: The variant to render.
            source_format: Format of the source.
            source: The stored image; it is read in chunks from its current position.
            length: Length of the source in bytes.
            request: The request of `costs.render_cost`.
            worker: The worker process from `wait`; without it, the call waits for one.

        Raises:
            UnavailableError: No worker process was free in time, or the queue is full; or the task took too
                long, needed too much memory or crashed the worker process.
            InternalError: The source is damaged or the task failed unexpectedly; the cause has its traceback.
        """
        call = TaskCall("render", (job, source_format), RenderResult, lambda _result: 1, job.format.value)
        with failures.mapped_to(failures.RENDER_ERRORS):
            result, (variant,) = self.run(call, source, length, request, receive=b"".join, worker=worker)
        return result, variant

    def render_upload(
        self, job: RenderJob, fmt: Format, data: bytes, request: WorkerRequest
    ) -> tuple[RenderResult, bytes]:
        """Render a file that is not stored, with the errors of an upload.

        Args:
            job: The variant to render.
            fmt: The format of the file.
            data: The file.
            request: The request of `costs.render_cost`.

        Raises:
            ValidationError: As for `ingest`.
            UnavailableError: As for `ingest`.
            InternalError: As for `ingest`.
        """
        call = TaskCall("render_upload", (job, fmt), RenderResult, lambda _result: 1, job.format.value)
        with failures.mapped_to(failures.UPLOAD_ERRORS):
            result, (variant,) = self.run(call, BytesIO(data), len(data), request, receive=b"".join)
        return result, variant

    def wait(self, request: WorkerRequest) -> QueueSteps[Worker | None]:
        """Wait for a worker process, in steps.

        Returns:
            A worker process, which the caller must `release` within `completing` of a request with a key; or
            `None` if another request with the same key has succeeded meanwhile.

        Raises:
            UnavailableError: None was free in time, the queue is full, or none can be started.
            ImageHostError: The error of another request with the same key, whose task has failed meanwhile.
        """
        with failures.mapped_to(failures.RENDER_ERRORS):
            self._require_memory(request)
        started = time.monotonic()
        future = self._pool.submit(request)
        try:
            yield cast("Future[object]", future)
        except BaseException:
            self._pool.abandon(request, future)
            raise
        try:
            with self._observing_wait(request, started):
                return future.result()
        except failures.SharedFailure as failure:
            error = messages.to_exception(failure.error)
        raise error

    def release(self, worker: Worker) -> None:
        """Give back a worker process of `wait`."""
        self._pool.release(worker)

    @contextmanager
    def completing(self, request: WorkerRequest) -> Iterator[None]:
        """Mark the result of a request with a key as available to others after the block.

        After an error they get the same one, unless it concerns this request only: then the next one runs.
        """
        assert request.key is not None
        succeeded, shared = False, None
        try:
            yield
            succeeded = True
        except Exception as error:
            shared = failures.shared_error(error)
            raise
        finally:
            self._pool.complete(request.key, succeeded=succeeded, error=shared)

    def run(
        self,
        call: TaskCall[Result],
        source: Readable,
        length: int,
        request: WorkerRequest,
        *,
        receive: Receive[Blob],
        worker: Worker | None = None,
    ) -> tuple[Result, list[Blob]]:
        """Run any task of the task table.

        Args:
            call: The task and its arguments.
            source: Input of the task; it is read in chunks from its current position.
            length: Length of the input in bytes.
            request: What to queue, unless there is a worker process.
            receive: Called with the chunks of each blob; it must consume them all.
            worker: The worker process to use, which the caller releases; without it, one is acquired.

        Raises:
            WorkerFailure: The worker process returned no result.
            ImageHostError: The error that the task raised; `UnavailableError` if no worker process is free,
                `InternalError` if the source is shorter than `length`.
            OSError: The source cannot be read, or `receive` cannot write.
        """
        self._require_memory(request)
        seconds = request.until - time.monotonic()
        with (
            nullcontext(worker) if worker else self._acquired(request) as worker,
            self._observing_task(call.task, request.lane, call.format),
            self._using(worker, request, seconds),
        ):
            try:
                message, lengths = worker.request(call.task, messages.to_json(call.arguments), source, length)
            except FrameError as cause:
                raise InternalError from cause
            if message.error is None:
                result = call.parse_result(message, lengths)
                return result, worker.read_blobs(lengths, receive)
            if message.error.code == messages.OUT_OF_MEMORY:
                worker.retired = True
                raise failures.WorkerOutOfMemory(
                    "the task exceeded the sandbox's memory limit",
                    request.timeout_seconds,
                    self._pool.spec.limits.memory_bytes,
                    "IMAGEHOST_RENDERING_MEMORY_LIMIT_BYTES",
                )
            with worker_errors():
                error = messages.to_exception(message.error)
        raise error

    def _require_memory(self, request: WorkerRequest) -> None:
        """Raise WorkerOutOfMemory if a task needs more memory than one may use alone."""
        if self._max_task_bytes is not None and request.memory_bytes > self._max_task_bytes:
            raise failures.WorkerOutOfMemory(
                f"the task may need {request.memory_bytes} bytes of memory, more than {self._max_task_bytes}",
                request.timeout_seconds,
                self._max_task_bytes,
                "IMAGEHOST_RENDERING_MEMORY_BUDGET_BYTES",
            )

    @contextmanager
    def _acquired(self, request: WorkerRequest) -> Iterator[Worker]:
        """Acquire a worker process for the block."""
        with ExitStack() as stack:
            with self._observing_wait(request, time.monotonic()):
                worker = stack.enter_context(self._pool.acquire(request))
            yield worker

    @contextmanager
    def _observing_wait(self, request: WorkerRequest, started: float) -> Iterator[None]:
        """Measure a wait for a worker process that ends with the block."""
        admitted = True
        try:
            yield
        except UnavailableError:
            admitted = False
            raise
        finally:
            seconds = time.monotonic() - started
            self._observe(WorkerAcquired(request.lane.value, seconds, admitted, request.flow))

    @contextmanager
    def _observing_task(self, task: str, lane: Lane, fmt: str) -> Iterator[None]:
        """Measure a block that runs a task."""
        started, outcome = time.monotonic(), "error"
        try:
            yield
            outcome = "ok"
        except failures.WorkerFailure as failure:
            outcome = failure.outcome
            raise
        finally:
            self._observe(TaskEnded(task, lane.value, fmt, time.monotonic() - started, outcome))

    @contextmanager
    def _using(self, worker: Worker, request: WorkerRequest, seconds: float) -> Iterator[None]:
        """Use a ready worker process, and kill it when the deadline passes within the block.

        Args:
            worker: The process.
            request: The request for it.
            seconds: The seconds up to the deadline when the call began.
        """
        timer = Deadline(
            self._pool.watchdog,
            request.until,
            worker.seconds_without_core,
            worker.kill,
            cpu_seconds=worker.cpu_seconds,
        )
        had_enough_time = False
        try:
            sandbox = worker.ready()
            if sandbox.unavailable and not self._pool.is_healthy:
                log.warning("worker sandbox is incomplete: unavailable=%r", sandbox.unavailable)
            self._pool.is_healthy = True
            had_enough_time = timer.until() - time.monotonic() >= MIN_WORK_SHARE * seconds > 0
            yield
        except WorkerLost as error:
            worker.retired = True
            if isinstance(error, WorkerNotReady):
                self._pool.is_healthy = False
            timed_out = not timer.cancel()
            exit_info = worker.end(EXIT_GRACE_SECONDS)
            is_too_slow = had_enough_time and not timer.was_starved
            overrun = failures.WorkerHung if timer.was_idle else failures.DeadlineExceeded
            too_late = overrun if is_too_slow else failures.QueuedTooLong
            kind = too_late if timed_out else self._classify_loss(error, exit_info)
            is_cpu_time = kind is failures.CpuTimeExceeded
            raise kind(
                exit_info.message, self._cpu_seconds if is_cpu_time else request.timeout_seconds
            ) from error
        finally:
            # The deadline may have passed after the result: the process is then killed, or about to be.
            worker.retired |= not timer.cancel()

    def _classify_loss(self, error: WorkerLost, exit_info: ExitInfo) -> type[failures.WorkerFailure]:
        """Return the failure of a worker process that was lost before the deadline."""
        if self._pool.closed or (exit_info.signal == "SIGKILL" and not exit_info.killed_by_pool):
            return failures.WorkerKilled
        if exit_info.signal == CPU_TIME_SIGNAL:
            return failures.CpuTimeExceeded
        return failures.WorkerStartFailed if isinstance(error, WorkerNotReady) else failures.WorkerCrashed


class Deadline:
    """A timer that kills a worker process at a deadline.

    The time in which other work had all cores is added to the deadline: a task must not fail because it has a
    low priority. Its own CPU time has a limit of its own.

    Args:
        watchdog: Runs the timer.
        until: The deadline, on the clock, in seconds.
        seconds_without_core: Returns for how long the process has waited for a core since it started.
        kill: Kills the process.
        clock: The clock of the watchdog.
        cpu_seconds: Returns the CPU time of the process, or `None` where it is not known.

    Attributes:
        was_starved: Whether the process was killed after the most time was added.
        was_idle: Whether the killed process had taken less CPU time than `MIN_WORK_SHARE` of the time.
    """

    def __init__(
        self,
        watchdog: Watchdog,
        until: float,
        seconds_without_core: Callable[[], float],
        kill: Callable[[], None],
        clock: ElapsedClock = time.monotonic,
        cpu_seconds: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._watchdog, self._until, self._clock = watchdog, until, clock
        self._seconds_without_core, self._kill = seconds_without_core, kill
        self._starved_before = seconds_without_core()
        self._cpu_seconds = cpu_seconds
        self._started = clock()
        self._cpu_seconds_before = cpu_seconds()
        self._lock = threading.Lock()
        self._is_cancelled = self._has_passed = self.was_starved = self.was_idle = False
        with self._lock:
            self._timer = watchdog.call_at(until, self.expire)

    def until(self) -> float:
        """Return the deadline with the time that was added up to now."""
        return self._until + min(self._starved_seconds(), MAX_EXTENSION_SECONDS)

    def cancel(self) -> bool:
        """Stop the timer; return whether the process was not killed."""
        with self._lock:
            self._is_cancelled = True
            self._watchdog.cancel(self._timer)
            return not self._has_passed

    def expire(self) -> None:
        """Kill the process, unless its deadline is put off."""
        with self._lock:
            if self._is_cancelled:
                return
            if (until := self.until()) > self._clock():
                self._timer = self._watchdog.call_at(until, self.expire)
                return
            self.was_starved = self._starved_seconds() > MAX_EXTENSION_SECONDS
            self.was_idle = self._is_idle()
            self._has_passed = True
        self._kill()

    def _is_idle(self) -> bool:
        now, before = self._cpu_seconds(), self._cpu_seconds_before
        if now is None or before is None:
            return False
        return now - before < MIN_WORK_SHARE * (self._clock() - self._started - self._starved_seconds())

    def _starved_seconds(self) -> float:
        return self._seconds_without_core() - self._starved_before


def _blob_writer(directory: Path) -> Receive[Path]:
    """Return a function that writes each blob to a file of its own in a directory, and returns its path."""
    numbers = count()

    def write(chunks: Iterator[bytes]) -> Path:
        path = directory / f"blob-{next(numbers)}"
        # Owner-only permissions: the file moves into the blob store as it is.
        path.touch(0o600, exist_ok=False)
        with path.open("wb") as file:
            file.writelines(chunks)
        return path

    return write
