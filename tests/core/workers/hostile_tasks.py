"""A task table whose tasks behave like a codec that was exploited by the file it decodes.

The first argument, or the first line of the blob, names an action; the result says what came of it.
"""

from __future__ import annotations

import ctypes
import errno
import io
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from imagehost_core.errors import FieldError, RateLimitError, UnavailableError, ValidationError
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, IngestResult, RenderJob, RenderResult
from imagehost_core.transform import Size
from imagehost_core.workers import frames, messages
from imagehost_core.workers.frames import Head
from imagehost_core.workers.tasks import Task

ALLOCATED: list[bytearray] = []


def outcome(action: Callable[[], object]) -> str:
    """Return the result of an action as text, or the name of the error number of its `OSError`."""
    try:
        return str(action())
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    except ValueError as error:
        return str(error)


def sleep() -> None:
    time.sleep(3600)


def spin() -> None:
    """Hold the GIL in one long call of C code, as a codec can."""
    sum(range(10**14))


def exhaust_memory() -> None:
    while True:
        ALLOCATED.append(bytearray(2**26))


def segfault() -> None:
    ctypes.string_at(0)


def exit_3() -> None:
    os._exit(3)


def exit_4_after_long_stderr() -> None:
    os.write(2, b"word " * 5_000 + b"the end")
    os._exit(4)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def print_output() -> str:
    """Print as native code does, to the original standard output and standard error."""
    os.write(1, b"codec: 1 of 1 done\n" * 100)
    os.write(2, b"codec: a warning\n" * 100)
    return "printed"


def write_garbage() -> None:
    """Write invalid frames to every open descriptor."""
    for descriptor in range(3, 16):
        outcome(partial(os.write, descriptor, b"\xff" * 4096))
    time.sleep(3600)


def forge_result() -> None:
    """Send the result of a task that was not requested, in a valid frame."""
    result = messages.TaskResult(99, messages.ResourceUsage(0, 0.0), messages.Json("forged"))
    forged = io.BytesIO()
    frames.write_head(forged, Head(messages.encode(result), (0,)))
    for descriptor in range(3, 16):
        outcome(partial(os.write, descriptor, forged.getvalue()))
    time.sleep(3600)


def fill_stderr() -> None:
    while True:
        os.write(2, b"x" * 4096)


def open_to_read() -> str:
    return Path(sys.executable).read_bytes()[:4].hex()


def open_to_write() -> str:
    Path("/tmp/imagehost-hostile").write_bytes(b"mine")
    Path("/tmp/imagehost-hostile").unlink()
    return "written"


def listen() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return "bound"


def fork() -> str:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "forked"


def execute() -> str:
    return subprocess.run(
        [sys.executable, "-c", "print('run')"], capture_output=True, text=True
    ).stdout.strip()


def signal_parent() -> str:
    os.kill(PARENT, 0)
    return "signalled"


def raise_limit() -> str:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit + 1, limit + 1))
    return "raised"


def thread() -> str:
    results: list[str] = []
    worker = threading.Thread(target=lambda: results.append("threaded"))
    worker.start()
    worker.join()
    return results[0]


def fork_and_sleep() -> None:
    """Leave a child process that keeps the pipes open."""
    os.fork()
    time.sleep(3600)


def isolated() -> str:
    return str(bool(sys.flags.isolated))


def environment() -> str:
    return ",".join(sorted(os.environ))


def open_descriptors() -> str:
    return str(sum(outcome(partial(os.lseek, number, 0, 1)) != "EBADF" for number in range(64)))


def hold_200_mib() -> str:
    return str(len(bytearray(os.urandom(2**20) * 200)))


def use_cpu() -> None:
    """Use a twentieth of a second of CPU time."""
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass


def raise_unexpected() -> None:
    raise LookupError("a secret of the server")


def raise_validation_error() -> None:
    raise ValidationError(errors=[FieldError("the image", "a whole one", "half of one")])


def raise_unavailable() -> None:
    raise UnavailableError("expected less", retry_after=7)


def raise_rate_limit() -> None:
    raise RateLimitError("expected fewer", retry_after=9)


FAILURES = (sleep, spin, exhaust_memory, segfault, exit_3, exit_4_after_long_stderr, kill_self)
OUTPUT = (print_output, write_garbage, forge_result, fork_and_sleep, fill_stderr)
ESCAPES = (open_to_read, open_to_write, listen, fork, execute, signal_parent, raise_limit, thread)
REPORTS = (isolated, environment, open_descriptors, hold_200_mib, use_cpu)
ERRORS = (raise_unexpected, raise_validation_error, raise_unavailable, raise_rate_limit)
ALL = (*FAILURES, *OUTPUT, *ESCAPES, *REPORTS, *ERRORS)
ACTIONS: dict[str, Callable[[], object]] = {action.__name__: action for action in ALL}
ACTIONS["pid"] = os.getpid
PARENT = os.getppid()


def act(action: str, data: bytes) -> tuple[str, list[bytes]]:
    """Run the named action and return the blob unchanged."""
    return outcome(ACTIONS[action]) if action else "", [data]


def ingest(job: IngestJob, data: bytes) -> tuple[IngestResult, list[bytes]]:
    """Run the action that the upload names; else return it unchanged, once for each requested derivative."""
    if (name := data.split(b"\n")[0].decode(errors="replace")) in ACTIONS:
        outcome(ACTIONS[name])
    derivatives = tuple(Size(side, side) for side in job.derivative_sides or ())
    result = IngestResult(
        format=job.format,
        size=Size(1, 1),
        frames=1,
        has_alpha=False,
        placeholder="",
        unchanged=False,
        derivatives=derivatives,
    )
    blobs = 1 if data == b"too few" else 1 + len(derivatives)
    return result, [data] * blobs


def render(job: RenderJob, source_format: Format, data: bytes) -> tuple[RenderResult, list[bytes]]:
    """Run the action that the master names; else return it after the name of its format."""
    if (name := data.split(b"\n")[0].decode(errors="replace")) in ACTIONS:
        outcome(ACTIONS[name])
    return RenderResult(job.plan.output, 1), [source_format.value.encode() + b":" + data]


TASKS = {
    "act": Task((str,), act),
    "ingest": Task((IngestJob,), ingest),
    "render": Task((RenderJob, Format), render),
    "invalid_result": Task((), lambda _data: ({"not": "a result"}, [])),
}


def warm_up() -> None:
    """Do nothing: these tasks need no initialisation."""
