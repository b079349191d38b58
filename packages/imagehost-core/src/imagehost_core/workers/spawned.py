"""A worker process that this process starts and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from imagehost_core.observer import WorkerExited, WorkerStarted
from imagehost_core.workers import messages
from imagehost_core.workers.messages import WorkerArgs
from imagehost_core.workers.process import ExitInfo, Worker, WorkerSpec

BOOTSTRAP = """
import json, sys, types
args = json.loads(sys.argv[1])
sys.path[:] = args["path"]
core = sys.modules["imagehost_core"] = types.ModuleType("imagehost_core")
core.__path__ = args["package"]
from imagehost_core.workers.main import main
main(sys.argv[1])
"""
"""The script of the new interpreter. It starts in isolated mode (-I), so that neither environment variables
nor files in the current directory change its imports, and then gets the parent's `sys.path`. The root
package is replaced by an empty one: its public names would import the host and its database, which a worker
process does not need and which double its start time."""

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

STDERR_TAIL_BYTES = 4096
"""The most bytes of a worker process's standard error that are logged, from its end."""


class SpawnedWorker(Worker):
    """A worker process that is a child of this one.

    Args:
        spec: Its configuration. On Linux the process ends with the thread that calls this.

    Attributes:
        idle_since: When it started or finished its last task, on the clock of `time.monotonic()`.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        path = [str(Path(entry).absolute()) for entry in sys.path]
        package = list(sys.modules["imagehost_core"].__path__)
        args = WorkerArgs(path, package, spec.tasks, os.getpid(), spec.limits)
        inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with our own script
                [sys.executable, "-I", "-X", "utf8", "-c", BOOTSTRAP, messages.encode(args).decode()],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=inherited | SET_VARIABLES,
                cwd=Path(sys.executable).anchor,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except BaseException:
            self._stderr.close()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        super().__init__(self._process.stdin, self._process.stdout)
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
        self.close_pipes()
        self._stderr.close()


def _signal_name(status: int) -> str | None:
    if status >= 0:
        return None
    try:
        return signal.Signals(-status).name
    except ValueError:
        return str(-status)
