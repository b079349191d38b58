"""One worker process, seen from the pool: start it, give it an order, end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

from attrs import frozen

from imagehost_core.sandbox.enter import SandboxLimits, SandboxStatus
from imagehost_core.workers import frames
from imagehost_core.workers import messages as wire
from imagehost_core.workers.frames import FrameError, Head
from imagehost_core.workers.main import WorkerArgs

BOOTSTRAP = """
import json, sys, types
told = json.loads(sys.argv[1])
sys.path[:] = told["path"]
core = sys.modules["imagehost_core"] = types.ModuleType("imagehost_core")
core.__path__ = told["package"]
from imagehost_core.workers.main import main
main(sys.argv[1])
"""
"""What the new interpreter runs. It is started isolated (-I), so that no variable and no file of the
current folder changes what it imports, and finds what the parent can import all the same. The package
stands there without its public names: with them come the host and its database, which a worker has no
use for and which double the time that it takes to start."""

PASSED_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""What a worker gets of the environment: where the system's libraries are, and no secret."""
SET_VARIABLES = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(32 * 2**20),
}
"""What glibc is told. It sets 64 MiB of address space aside for each arena; by default there are 8 a
processor. And it keeps up to 32 MiB for the next picture, which it would give back after each and have
filled with zeros again: a sixth of the time of a thumbnail."""

STDERR_TAIL_BYTES = 4096
"""How much of what a worker said on its standard error goes to the log."""

T = TypeVar("T")
Receive = Callable[[Iterator[bytes]], T]
"""What is done with the pieces of each blob that comes back."""


class WorkerLost(Exception):
    """The worker has ended, or talks nonsense: there will be no answer from it."""


class WorkerNotReady(WorkerLost):
    """The worker never got so far as to take an order."""


@frozen
class ExitInfo:
    """How a worker ended.

    Attributes:
        signal: The name of the signal that ended it, or `None` for an ordinary end.
        by_us: Whether it was the pool that sent it.
        words: The same, and the last of what it said on its standard error, for the log.
    """

    signal: str | None
    killed_by_pool: bool
    message: str


@frozen
class WorkerSpec:
    """What a worker is made with: the module of its tasks, and what it may use."""

    tasks: str
    limits: SandboxLimits


class Worker:
    """A process of our own, which takes one order at a time.

    `ready`, `ask` and `take` belong to one thread at a time; `kill` may be called from any.

    Args:
        recipe: What it is made with. On Linux the process ends with the thread that starts it.

    Attributes:
        orders: How many it was given.
        usage: What it had used when it answered last.
        worn: Whether somebody found that it is to be replaced.
    """

    def __init__(self, recipe: WorkerSpec) -> None:
        path = [str(Path(entry).absolute()) for entry in sys.path]
        package = list(sys.modules["imagehost_core"].__path__)
        start = WorkerArgs(path, package, recipe.tasks, os.getpid(), recipe.limits)
        kept = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        try:
            self._process = subprocess.Popen(  # noqa: S603 - it runs this interpreter, and our own words
                [sys.executable, "-I", "-X", "utf8", "-c", BOOTSTRAP, wire.encode(start).decode()],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=kept | SET_VARIABLES,
                cwd=Path(sys.executable).anchor,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except BaseException:
            self._log.close()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._exit_info = threading.Lock()
        self._ended: ExitInfo | None = None
        self._killed = False
        self._sandbox: SandboxStatus | None = None
        self.retired = False
        self.task_count = 0
        self.usage = wire.ResourceUsage(0, 0.0)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the process is still there. One that is only starting counts: `ready` will tell."""
        with self._exit_info:
            return self._sandbox is None or self._process.poll() is None

    def ready(self) -> SandboxStatus:
        """Wait until the worker can take orders; return what its cage is made of.

        Raises:
            WorkerNotReady: It ended before.
        """
        if self._sandbox is None:
            try:
                with worker_errors():
                    self._sandbox = wire.decode(self._head().header, wire.Ready).sandbox
            except WorkerLost as error:
                raise WorkerNotReady("the worker did not start") from error
        return self._sandbox

    def request(
        self, task: str, arguments: wire.Json, source: frames.Readable, length: int
    ) -> tuple[wire.TaskResult, tuple[int, ...]]:
        """Give the worker an order; return its answer, and the lengths of the blobs that `take` takes.

        After any exception the worker is of no more use: `end` it.

        Args:
            task: The task's name.
            arguments: What the task gets before its blob: a list.
            source: Where the blob is read from, in chunks.
            length: How long the blob is, in bytes.

        Raises:
            WorkerLost: The worker has ended, or its answer is none.
            FrameError: The source ends before `length`.
        """
        self.ready()
        self.task_count += 1
        with worker_errors():
            frames.write_head(
                self._requests,
                Head(wire.encode(wire.TaskRequest(self.task_count, task, arguments)), (length,)),
            )
        for chunk in frames.chunks(source, length):
            with worker_errors():
                frames.write(self._requests, chunk)
        head = self._head()
        with worker_errors():
            answer = wire.decode(head.header, wire.TaskResult)
        if answer.number != self.task_count or (answer.failure is not None and head.lengths):
            raise WorkerLost("the worker answered another order")
        self.usage = answer.usage
        return answer, head.lengths

    def read_blobs(self, lengths: tuple[int, ...], receive: Receive[T]) -> list[T]:
        """Return what `receive` makes of each blob of an answer.

        Args:
            lengths: The lengths of all the blobs, in bytes.
            receive: Called for each blob with its pieces, which it must use up.

        Raises:
            WorkerLost: The worker ended before the blobs did.
        """
        return [receive(self._pieces(length)) for length in lengths]

    def kill(self) -> None:
        """End the process at once, with all that it started. Whoever waits for it is told."""
        with self._exit_info:
            self._kill()

    def end(self, patience: float = 0) -> ExitInfo:
        """End the process, if it has not ended, and give back all that it took of this one.

        Args:
            patience: How long it may take to end by itself, in seconds.
        """
        with self._exit_info:
            if self._ended is None:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(patience)
                self._kill()
                self._ended = self._reap(self._process.wait())
            return self._ended

    def detach(self) -> None:
        """Let go of a process that belongs to the parent, after a fork: it is not ours to end."""
        self._process.returncode = 0
        self._close()

    def _kill(self) -> None:
        if self._process.returncode is not None:
            return
        self._killed = True
        if sys.platform == "win32":
            self._process.kill()
        else:
            # It leads a group of its own, and keeps its number until it is waited for.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _reap(self, status: int) -> ExitInfo:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - STDERR_TAIL_BYTES))
        said = self._log.read().decode(errors="replace").strip()
        self._close()
        name = _signal_name(status)
        words = f"worker {self.pid} ended with {name or f'status {status}'}"
        return ExitInfo(name, self._killed, f"{words}: {said}" if said else words)

    def _close(self) -> None:
        for stream in (self._requests, self._answers, self._log):
            stream.close()

    def _head(self) -> Head:
        with worker_errors():
            head = frames.read_head(self._answers)
        if head is None:
            raise WorkerLost("the worker has ended")
        return head

    def _pieces(self, length: int) -> Iterator[bytes]:
        pieces = frames.chunks(self._answers, length)
        while True:
            with worker_errors():
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece


@contextmanager
def worker_errors() -> Iterator[None]:
    """Tell trouble with what a worker says from trouble with anything else that is read or written."""
    try:
        yield
    except (OSError, FrameError) as error:
        raise WorkerLost("the worker has ended, or talks nonsense") from error


def _signal_name(status: int) -> str | None:
    if status >= 0:
        return None
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
