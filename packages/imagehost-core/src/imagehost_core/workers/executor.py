"""The pool: pixel work done in caged processes, each stopped for good when its time is up.

A decoder that hangs, crashes, or asks for too much memory costs the one request that brought it.
The pool can be called from many threads, and from a process forked off the one that made it.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar, overload

from attrs import frozen

from imagehost_core.errors import InternalError
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, IngestResult, RenderJob, RenderResult
from imagehost_core.sandbox.enter import SandboxLimits, SandboxStatus
from imagehost_core.workers import failures as mishaps
from imagehost_core.workers import messages as wire
from imagehost_core.workers.admission import JobClass
from imagehost_core.workers.blob_files import BlobFiles
from imagehost_core.workers.frames import FrameError, Readable
from imagehost_core.workers.pool import PoolLoad, ProcessPool
from imagehost_core.workers.process import (
    ExitInfo,
    Receive,
    Worker,
    WorkerLost,
    WorkerNotReady,
    WorkerSpec,
    worker_errors,
)

TASKS = "imagehost_core.workers.tasks"
"""The module of the tasks that `ingest` and `render` ask for."""
MAX_TASKS_PER_WORKER = 1000
"""After how many orders a worker is replaced: whatever leaks, leaks no longer than this."""
MAX_WORKER_BYTES = 2**30
"""A worker that held more than this, in bytes, is replaced after its order: it takes 0.3 s to start
one, and seconds to need that much."""

EXIT_GRACE_SECONDS = 1.0
"""How long a worker that closed its pipe may take to end, so that we learn by what it ended."""
MIN_WORK_SHARE = 0.5
"""The share of the deadline that an order must have had for the picture to be called too slow. The
verdict on an upload must not hang on how busy the server is."""

Outcome = TypeVar("Outcome")
Blob = TypeVar("Blob")


@frozen
class TaskCall(Generic[Outcome]):
    """A task of the table, and what it is asked.

    Attributes:
        task: Its name.
        arguments: What it gets before the source, as attrs objects, enums or plain values.
        outcome: What it makes beside the blobs.
        blobs: Says of an outcome how many blobs belong to it.
    """

    task: str
    arguments: tuple[object, ...]
    outcome: type[Outcome]
    blobs: Callable[[Outcome], int]

    def parse_result(self, answer: wire.TaskResult, lengths: tuple[int, ...]) -> Outcome:
        """Return the outcome that an answer holds.

        Raises:
            WorkerLost: It is none of this call.
        """
        with worker_errors():
            made = wire.from_json(answer.outcome, self.outcome)
        if len(lengths) != self.blobs(made):
            raise WorkerLost(f"expected {self.blobs(made)} blobs but received {len(lengths)}")
        return made


class ImageExecutor:
    """Up to `size` worker processes, and the calls that go to them.

    Which call is served next, and which may wait, is told by `imagehost_core.workers.admission`. While all
    processes are at work there can be one more for light work, and one for uploads.

    Nothing is started before the first call, or `start`. Close it in the end, or use it in a `with`
    statement; a pool that is forgotten is closed when it is collected, or when Python ends.

    Args:
        size: The most processes at a time: how many pictures are worked on at once.
        limits: What each process may use.
        queue: The most calls that may wait for a process; a call beyond is refused at once.
        max_orders: After how many calls a process is replaced.
        max_bytes: A process that ever held more memory than this is replaced after its call.
        tasks: The module of the table of tasks; see `imagehost_core.workers.task`.
    """

    def __init__(
        self,
        size: int,
        *,
        limits: SandboxLimits = SandboxLimits(),  # noqa: B008 - it is frozen
        queue: int = 64,
        max_orders: int = MAX_TASKS_PER_WORKER,
        max_bytes: int = MAX_WORKER_BYTES,
        tasks: str = TASKS,
    ) -> None:
        if size < 1 or queue < 0 or max_orders < 1:
            raise ValueError(
                f"expected at least 1 for size and max_orders, and 0 for queue, "
                f"but received {size}, {max_orders} and {queue}"
            )
        recipe = WorkerSpec(tasks, limits)
        self._pool = ProcessPool(recipe, size=size, queue=queue, max_orders=max_orders, max_bytes=max_bytes)
        self._close = weakref.finalize(self, self._pool.close)

    def start(self) -> None:
        """Start all processes now, so that the first call finds a warm one. Returns at once."""
        self._pool.start()

    def close(self) -> None:
        """End all processes; calls that are under way end with `UnavailableError`."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def load(self) -> PoolLoad:
        """How many processes are busy and idle, and how many calls wait."""
        return self._pool.load

    def status(self, *, deadline: float = 10.0) -> SandboxStatus:
        """Return what the cage of a process is made of on this system.

        Args:
            deadline: How long to wait for one, in seconds.

        Raises:
            UnavailableError: None was free by then.
            InternalError: None can be started; the cause says why.
        """
        with mishaps.mapped_to(mishaps.RENDER_ERRORS), self._acquired(deadline, JobClass.LIGHT) as worker:
            return worker.ready()

    @overload
    def ingest(
        self, job: IngestJob, source: Readable, length: int, *, deadline: float, into: Path
    ) -> tuple[IngestResult, list[Path]]: ...
    @overload
    def ingest(
        self, job: IngestJob, source: Readable, length: int, *, deadline: float, into: None = None
    ) -> tuple[IngestResult, list[bytes]]: ...
    def ingest(
        self, job: IngestJob, source: Readable, length: int, *, deadline: float, into: Path | None = None
    ) -> tuple[IngestResult, list[Path]] | tuple[IngestResult, list[bytes]]:
        """Make of an upload what is stored: the master, then the reductions.

        Args:
            job: What is to be made.
            source: The upload; it is read in chunks from where it stands.
            length: How long the image in it is, in bytes. What follows is not sent.
            deadline: After how many seconds, waiting included, the work is stopped for good.
            into: A folder in which each blob becomes a file; without it they are returned as bytes.
                After an error none of the files is left.

        Raises:
            ValidationError: The image is damaged; or decoding it takes too long, needs too much
                memory, or ends the decoder.
            UnavailableError: There was no worker in time, or too many calls wait for one.
            InternalError: The worker made a mistake; the cause is its traceback.
        """
        call = TaskCall("ingest", (job,), IngestResult, lambda made: 1 + len(made.derivatives))
        with mishaps.mapped_to(mishaps.UPLOAD_ERRORS):
            if into is None:
                return self.run(
                    call, source, length, deadline=deadline, receive=b"".join, weight=JobClass.UPLOAD
                )
            with BlobFiles(into) as spool:
                return self.run(
                    call, source, length, deadline=deadline, receive=spool.write, weight=JobClass.UPLOAD
                )

    def render(
        self,
        job: RenderJob,
        source_format: Format,
        source: Readable,
        length: int,
        *,
        deadline: float,
        weight: JobClass = JobClass.HEAVY,
    ) -> tuple[RenderResult, bytes]:
        """Make a variant of a master, or of one of its reductions.

        Args:
            job: What is to be made.
            source_format: What `source` holds.
            source: The stored picture; it is read in chunks from where it stands.
            length: How long it is, in bytes.
            deadline: After how many seconds, waiting included, the work is stopped for good.
            weight: What it is expected to cost (`imagehost_core.workers.weigh`).

        Raises:
            UnavailableError: There was no worker in time, or too many calls wait for one; or the work
                took too long, needed too much memory, or ended the worker.
            InternalError: The worker made a mistake; the cause is its traceback.
        """
        call = TaskCall("render", (job, source_format), RenderResult, lambda _made: 1)
        with mishaps.mapped_to(mishaps.RENDER_ERRORS):
            made, (variant,) = self.run(
                call, source, length, deadline=deadline, receive=b"".join, weight=weight
            )
        return made, variant

    def run(
        self,
        call: TaskCall[Outcome],
        source: Readable,
        length: int,
        *,
        deadline: float,
        receive: Receive[Blob],
        weight: JobClass = JobClass.HEAVY,
    ) -> tuple[Outcome, list[Blob]]:
        """Have any task of the table done.

        Args:
            call: The task and its arguments.
            source: What it works on; it is read in chunks from where it stands.
            length: How long that is, in bytes.
            deadline: After how many seconds, waiting included, the work is stopped for good.
            receive: Called for each blob with its pieces, which it must use up.
            weight: What it is expected to cost.

        Raises:
            WorkerFailure: There was no answer.
            ImageHostError: What the task raised; `UnavailableError` where there is no worker,
                `InternalError` where the source is shorter than `length`.
            OSError: The source cannot be read, or `receive` cannot write.
        """
        with self._acquired(deadline, weight) as worker:
            try:
                answer, lengths = worker.request(call.task, wire.to_json(call.arguments), source, length)
            except FrameError as cause:
                raise InternalError from cause
            if answer.failure is None:
                made = call.parse_result(answer, lengths)
                return made, worker.read_blobs(lengths, receive)
            if answer.failure.code == wire.OUT_OF_MEMORY:
                raise mishaps.WorkerOutOfMemory("the task asked for more memory than the cage has", deadline)
            with worker_errors():
                error = wire.to_exception(answer.failure)
        raise error

    @contextmanager
    def _acquired(self, deadline: float, weight: JobClass = JobClass.HEAVY) -> Iterator[Worker]:
        """Have a warm worker for oneself, which is killed when the deadline comes."""
        until = time.monotonic() + deadline
        with self._pool.acquire(until, weight) as worker:
            alarm = self._pool.watchdog.call_at(until, worker.kill)
            fair = False
            try:
                worker.ready()
                fair = until - time.monotonic() >= MIN_WORK_SHARE * deadline
                yield worker
            except WorkerLost as error:
                late = not self._pool.watchdog.cancel(alarm)
                ending = worker.end(EXIT_GRACE_SECONDS)
                too_late = mishaps.DeadlineExceeded if fair else mishaps.QueuedTooLong
                kind = too_late if late else self._classify_loss(error, ending)
                raise kind(ending.message, deadline) from error
            finally:
                # It may have been killed between its answer and here.
                worker.retired |= not self._pool.watchdog.cancel(alarm)

    def _classify_loss(self, error: WorkerLost, ending: ExitInfo) -> type[mishaps.WorkerFailure]:
        """Return what happened to a worker that was lost before the deadline."""
        if self._pool.closed or (ending.signal == "SIGKILL" and not ending.killed_by_pool):
            return mishaps.WorkerKilled
        return mishaps.WorkerStartFailed if isinstance(error, WorkerNotReady) else mishaps.WorkerCrashed
