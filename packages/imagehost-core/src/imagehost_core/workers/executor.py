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
from imagehost_core.jobs import Ingested, IngestJob, Rendered, RenderJob
from imagehost_core.sandbox.enter import CageLimits, CageStatus
from imagehost_core.workers import failures as mishaps
from imagehost_core.workers import messages as wire
from imagehost_core.workers.admission import Weight
from imagehost_core.workers.blob_files import Spool
from imagehost_core.workers.frames import FrameError, Readable
from imagehost_core.workers.pool import Crew, Load
from imagehost_core.workers.process import (
    Ending,
    LostError,
    NotReadyError,
    Receive,
    Recipe,
    Worker,
    blaming_worker,
)

TASKS = "imagehost_core.workers.tasks"
"""The module of the tasks that `ingest` and `render` ask for."""
MAX_ORDERS = 1000
"""After how many orders a worker is replaced: whatever leaks, leaks no longer than this."""
MAX_BYTES = 2**30
"""A worker that held more than this, in bytes, is replaced after its order: it takes 0.3 s to start
one, and seconds to need that much."""

PATIENCE_SECONDS = 1.0
"""How long a worker that closed its pipe may take to end, so that we learn by what it ended."""
FAIR_SHARE = 0.5
"""The share of the deadline that an order must have had for the picture to be called too slow. The
verdict on an upload must not hang on how busy the server is."""

Outcome = TypeVar("Outcome")
Blob = TypeVar("Blob")


@frozen
class Call(Generic[Outcome]):
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

    def made(self, answer: wire.Answer, lengths: tuple[int, ...]) -> Outcome:
        """Return the outcome that an answer holds.

        Raises:
            LostError: It is none of this call.
        """
        with blaming_worker():
            made = wire.read(answer.outcome, self.outcome)
        if len(lengths) != self.blobs(made):
            raise LostError(f"expected {self.blobs(made)} blobs but received {len(lengths)}")
        return made


class WorkerPool:
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
        limits: CageLimits = CageLimits(),  # noqa: B008 - it is frozen
        queue: int = 64,
        max_orders: int = MAX_ORDERS,
        max_bytes: int = MAX_BYTES,
        tasks: str = TASKS,
    ) -> None:
        if size < 1 or queue < 0 or max_orders < 1:
            raise ValueError(
                f"expected at least 1 for size and max_orders, and 0 for queue, "
                f"but received {size}, {max_orders} and {queue}"
            )
        recipe = Recipe(tasks, limits)
        self._crew = Crew(recipe, size=size, queue=queue, max_orders=max_orders, max_bytes=max_bytes)
        self._close = weakref.finalize(self, self._crew.close)

    def start(self) -> None:
        """Start all processes now, so that the first call finds a warm one. Returns at once."""
        self._crew.start()

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
    def load(self) -> Load:
        """How many processes are busy and idle, and how many calls wait."""
        return self._crew.load

    def status(self, *, deadline: float = 10.0) -> CageStatus:
        """Return what the cage of a process is made of on this system.

        Args:
            deadline: How long to wait for one, in seconds.

        Raises:
            UnavailableError: None was free by then.
            InternalError: None can be started; the cause says why.
        """
        with mishaps.judged(mishaps.RENDER), self._hired(deadline, Weight.LIGHT) as worker:
            return worker.ready()

    @overload
    def ingest(
        self, job: IngestJob, source: Readable, length: int, *, deadline: float, into: Path
    ) -> tuple[Ingested, list[Path]]: ...
    @overload
    def ingest(
        self, job: IngestJob, source: Readable, length: int, *, deadline: float, into: None = None
    ) -> tuple[Ingested, list[bytes]]: ...
    def ingest(
        self, job: IngestJob, source: Readable, length: int, *, deadline: float, into: Path | None = None
    ) -> tuple[Ingested, list[Path]] | tuple[Ingested, list[bytes]]:
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
        call = Call("ingest", (job,), Ingested, lambda made: 1 + len(made.rungs))
        with mishaps.judged(mishaps.UPLOAD):
            if into is None:
                return self.run(
                    call, source, length, deadline=deadline, receive=b"".join, weight=Weight.UPLOAD
                )
            with Spool(into) as spool:
                return self.run(
                    call, source, length, deadline=deadline, receive=spool.add, weight=Weight.UPLOAD
                )

    def render(
        self,
        job: RenderJob,
        source_format: Format,
        source: Readable,
        length: int,
        *,
        deadline: float,
        weight: Weight = Weight.HEAVY,
    ) -> tuple[Rendered, bytes]:
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
        call = Call("render", (job, source_format), Rendered, lambda _made: 1)
        with mishaps.judged(mishaps.RENDER):
            made, (variant,) = self.run(
                call, source, length, deadline=deadline, receive=b"".join, weight=weight
            )
        return made, variant

    def run(
        self,
        call: Call[Outcome],
        source: Readable,
        length: int,
        *,
        deadline: float,
        receive: Receive[Blob],
        weight: Weight = Weight.HEAVY,
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
            MishapError: There was no answer.
            ImageHostError: What the task raised; `UnavailableError` where there is no worker,
                `InternalError` where the source is shorter than `length`.
            OSError: The source cannot be read, or `receive` cannot write.
        """
        with self._hired(deadline, weight) as worker:
            try:
                answer, lengths = worker.ask(call.task, wire.show(call.arguments), source, length)
            except FrameError as cause:
                raise InternalError from cause
            if answer.failure is None:
                made = call.made(answer, lengths)
                return made, worker.take(lengths, receive)
            if answer.failure.code == wire.OUT_OF_MEMORY:
                raise mishaps.OutOfMemoryError("the task asked for more memory than the cage has", deadline)
            with blaming_worker():
                error = wire.rebuilt(answer.failure)
        raise error

    @contextmanager
    def _hired(self, deadline: float, weight: Weight = Weight.HEAVY) -> Iterator[Worker]:
        """Have a warm worker for oneself, which is killed when the deadline comes."""
        until = time.monotonic() + deadline
        with self._crew.hire(until, weight) as worker:
            alarm = self._crew.keeper.at(until, worker.kill)
            fair = False
            try:
                worker.ready()
                fair = until - time.monotonic() >= FAIR_SHARE * deadline
                yield worker
            except LostError as error:
                late = not self._crew.keeper.cancel(alarm)
                ending = worker.end(PATIENCE_SECONDS)
                too_late = mishaps.TooSlowError if fair else mishaps.HurriedError
                kind = too_late if late else self._mishap(error, ending)
                raise kind(ending.words, deadline) from error
            finally:
                # It may have been killed between its answer and here.
                worker.worn |= not self._crew.keeper.cancel(alarm)

    def _mishap(self, error: LostError, ending: Ending) -> type[mishaps.MishapError]:
        """Return what happened to a worker that was lost before the deadline."""
        if self._crew.closed or (ending.signal == "SIGKILL" and not ending.by_us):
            return mishaps.KilledError
        return mishaps.NotStartedError if isinstance(error, NotReadyError) else mishaps.CrashedError
