"""A worker process: its start and end, and the exchange of messages through two pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

from attrs import frozen

from imagehost_core._util.machine import has_cpu_group, open_memory_file
from imagehost_core.observer import Observer, WorkerExited, WorkerStarted, ignore
from imagehost_core.sandbox import SandboxLimits, SandboxStatus
from imagehost_core.workers import frames, messages
from imagehost_core.workers.frames import FrameError, Head
from imagehost_core.workers.lanes import Lane
from imagehost_core.workers.messages import Json, Ready, ResourceUsage, TaskRequest, TaskResult, WorkerArgs

T = TypeVar("T")
Receive = Callable[[Iterator[bytes]], T]
"""Consumes the chunks of one blob of a result."""


def _program_id() -> tuple[int, int] | None:
    """Return what differs for another file in the place of this one, or `None` if it is no file."""
    try:
        status = Path(__file__).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


IMPORTED_ID = _program_id()


def is_replaced() -> bool:
    """Return whether this package was replaced since its import: a new process would run another version."""
    return _program_id() != IMPORTED_ID


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


BOOTSTRAP = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])["path"]
from imagehost_core.workers.main import main
main(sys.argv[1])
"""
"""The script of the new interpreter. It starts in isolated mode (-I), so that neither environment variables
nor files in the current directory change its imports, and then gets the parent's `sys.path`."""

INHERITED_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""The environment variables that a worker process inherits: paths of system libraries, no secrets."""
SET_VARIABLES = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(32 * 2**20),
}
"""Settings of glibc's allocator. It reserves 64 MiB of address space for each arena, and by default has 8
arenas a CPU. And it keeps up to 32 MiB between images instead of returning them to the kernel, which would
zero the pages again: a sixth of the time of a thumbnail."""

if sys.platform == "win32":
    CLOCK_TICKS = 100
else:
    CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
    """The unit of CPU times in proc(5), per second."""

NICENESS = {Lane.LIGHT: 0, Lane.HEAVY: 10}
"""The niceness of worker processes by lane (POSIX: 0 to 19), where it counts within this host only. With 10
they have a tenth of the CPU share of the light one and of the threads that serve requests, and the whole CPU
when those are idle. Elsewhere it is 0: any other program of the machine would starve uploads."""

STDERR_TAIL_BYTES = 4096
"""The most bytes of a worker process's standard error that are logged, from its end."""


class Worker:
    """A worker process, which runs one task at a time.

    `ready`, `request` and `read_blobs` must be called by one thread at a time, `kill` by any.

    Args:
        spec: Its configuration. On Linux the process ends with the thread that calls this.
        lane: The lane that decides its priority: a process of the light lane runs light tasks only, at the
            normal priority, and one of the heavy lane any task, at a low one.

    Attributes:
        lane: Its lane.
        sandbox: The status of its sandbox; `None` until it is known to be ready.
        task_count: Number of tasks it was sent.
        usage: Its resource usage as of the last result.
        retired: Whether it must be replaced after the current task.
        interrupted: Whether an exchange of messages has begun and not ended, so that it must be replaced.
        idle_since: When it started or finished its last task, on the clock of `time.monotonic()`.
    """

    def __init__(self, spec: WorkerSpec, lane: Lane = Lane.HEAVY) -> None:
        path = [str(Path(entry).absolute()) for entry in sys.path]
        niceness = NICENESS[lane] if has_cpu_group() else 0
        args = WorkerArgs(path, spec.tasks, os.getpid(), niceness, spec.limits)
        inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
        self._stderr: IO[bytes] = open_memory_file()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with our own script
                [sys.executable, "-I", "-X", "utf8", "-c", BOOTSTRAP, messages.encode(args).decode()],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=inherited | SET_VARIABLES,
                cwd=Path(sys.executable).anchor,
                process_group=0,  # for `kill`; in the session of the server, whose share of the CPU it takes
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except BaseException:
            self._stderr.close()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._results = self._process.stdin, self._process.stdout
        self.lane = lane
        self.sandbox: SandboxStatus | None = None
        self.retired = self.interrupted = False
        self.task_count = 0
        self.usage = ResourceUsage(0, 0.0)
        self.idle_since = time.monotonic()
        self._exit_lock = threading.Lock()
        self._exit_info: ExitInfo | None = None
        self._killed = False
        self._observe = spec.observe
        self._observe(WorkerStarted())

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Return whether the process is running. One that is still starting counts: `ready` checks it."""
        with self._exit_lock:
            return self.sandbox is None or self._process.poll() is None

    def kill(self) -> None:
        """Kill the process and its children at once; a thread that is blocked on it gets an error."""
        with self._exit_lock:
            self._kill()

    def end(self, grace: float = 0) -> ExitInfo:
        """End the process, if it has not exited, and release its resources in this one.

        Args:
            grace: Seconds to wait for it to exit before it is killed.
        """
        with self._exit_lock:
            if self._exit_info is None:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(grace)
                self._kill()
                self._exit_info = self._reap(self._process.wait())
            return self._exit_info

    def detach(self) -> None:
        """Release a process of the parent after a fork, without ending it."""
        self._process.returncode = 0
        self._close()

    def seconds_without_core(self) -> float:
        """Return for how long the process has been ready to run while other work had all cores.

        Linux counts it (*schedstat* in proc(5)); elsewhere it is 0.
        """
        try:
            _, waited, _ = Path(f"/proc/{self.pid}/schedstat").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return 0.0
        return int(waited) / 1e9

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of the process up to now: *stat* of proc(5); `None` where there is none."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except (OSError, ValueError):
            return None
        user, system = fields[11:13]
        return (int(user) + int(system)) / CLOCK_TICKS

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

    def _kill(self) -> None:
        if self._process.returncode is not None:
            return
        self._killed = True
        if sys.platform == "win32":
            self._process.kill()
        else:
            # The process leads its own group, and its process ID is not reused before `wait`.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _reap(self, status: int) -> ExitInfo:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - STDERR_TAIL_BYTES))
        stderr = self._stderr.read().decode(errors="replace").strip()
        self._close()
        name = _signal_name(status)
        lost = "killed" if name == "SIGKILL" else "crashed"
        self._observe(WorkerExited("ended" if self._killed else lost))
        cause = f"signal={name}" if name else f"status={status}"
        message = f"worker process exited pid={self.pid} {cause}"
        return ExitInfo(name, self._killed, f"{message}: {stderr}" if stderr else message)

    def _close(self) -> None:
        self._requests.close()
        self._results.close()
        self._stderr.close()


@contextmanager
def worker_errors() -> Iterator[None]:
    """Raise `WorkerLost` for errors of the pipes, to separate them from errors of the caller's streams."""
    try:
        yield
    except (OSError, FrameError) as error:
        raise WorkerLost("the worker process exited or sent an invalid message") from error


def _signal_name(status: int) -> str | None:
    if status >= 0:
        return None
    try:
        return signal.Signals(-status).name
    except ValueError:
        return str(-status)
