"""The program of a worker process: import and warm up, enter the sandbox, then run tasks in a loop.

`process` starts it with two pipes: requests arrive on its original standard input, and results leave on
its original standard output. Both are moved to other descriptors first, so that output printed by a codec
cannot corrupt a result.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from imagehost_core.sandbox import enter_sandbox
from imagehost_core.sandbox.enter import exit_with_parent
from imagehost_core.sandbox.limits import cpu_time_limit
from imagehost_core.workers import frames, messages
from imagehost_core.workers.frames import Head
from imagehost_core.workers.messages import Json, Ready, ResourceUsage, TaskError, TaskRequest, TaskResult
from imagehost_core.workers.tasks import Task, load_tasks

if sys.platform != "win32":
    import resource

_PEAK = re.compile(rb"^VmHWM:\s*(\d+) kB$", re.MULTILINE)


def main(argument: str) -> None:
    """Run a worker process until the pipe of requests is closed.

    Args:
        argument: `WorkerArgs` as JSON.
    """
    args = messages.decode(argument.encode(), messages.WorkerArgs)
    exit_with_parent(args.parent)
    if sys.platform != "win32" and args.niceness:
        os.nice(args.niceness)
    requests, results = claim_pipes()
    faulthandler.enable()
    tasks = load_tasks(args.tasks)
    meter = ResourceMeter()
    status = enter_sandbox(args.limits)
    frames.write_head(results, Head(messages.encode(Ready(status))))
    run_loop(requests, results, tasks, meter.read, args.limits.task_cpu_seconds)


def claim_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the two pipes; redirect standard input to /dev/null and standard output to standard error."""
    requests = os.fdopen(os.dup(0), "rb")
    results = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, results


def run_loop(
    requests: frames.Readable,
    results: frames.Writable,
    tasks: Mapping[str, Task],
    usage: Callable[[], ResourceUsage],
    cpu_seconds: float = 0,
) -> None:
    """Run one task after the other until the stream of requests ends.

    Args:
        requests: Stream of task requests.
        results: Stream to write the task results to.
        tasks: The task table.
        usage: Returns the resource usage up to now.
        cpu_seconds: The CPU time after which a task kills this process, in seconds; 0 means no limit.

    Raises:
        FrameError: The stream holds something other than task requests.
    """
    while (head := frames.read_head(requests)) is not None:
        request = messages.decode(head.header, TaskRequest)
        sources = [frames.read_blob(requests, length) for length in head.lengths]
        with cpu_time_limit(cpu_seconds):
            value, error, blobs = _run_task(request, sources, tasks)
        result = TaskResult(request.number, usage(), value, error)
        frames.write_head(results, Head(messages.encode(result), tuple(map(len, blobs))))
        for blob in blobs:
            frames.write(results, blob)


def _run_task(
    request: TaskRequest, sources: list[bytes], tasks: Mapping[str, Task]
) -> tuple[Json, TaskError | None, list[bytes]]:
    try:
        value, blobs = tasks[request.task](request.arguments, *sources)
    except Exception as error:
        return Json(None), messages.from_exception(error), []
    return value, None, blobs


class ResourceMeter:
    """A reader of this process's peak memory and CPU time; create it before entering the sandbox.

    Linux reports the peak resident size in two places. `ru_maxrss` starts with the value of the parent,
    whose memory a new process shares before exec; `VmHWM` does not, so its file is kept open from here on.
    """

    def __init__(self) -> None:
        status = Path("/proc/self/status")
        self._status = status.open("rb", buffering=0) if status.exists() else None

    def read(self) -> ResourceUsage:
        """Return the usage since the start of the process."""
        return ResourceUsage(self._peak_bytes(), time.process_time())

    def close(self) -> None:
        """Close the status file."""
        if self._status is not None:
            self._status.close()

    def _peak_bytes(self) -> int:
        if self._status is not None:
            self._status.seek(0)
            match = _PEAK.search(self._status.read())
            return int(match[1]) * 1024 if match else 0
        if sys.platform == "win32":
            return 0
        else:  # noqa: RET505 - for mypy, which reads one branch per system
            # In bytes on macOS, in KiB elsewhere (getrusage(2) of each).
            unit = 1 if sys.platform == "darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
