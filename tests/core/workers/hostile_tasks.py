"""A table of tasks as a codec may behave that hostile bytes have taken over.

The first line of the blob names what is done; the answer says what came of it.
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
from imagehost_core.transform.geometry import Size
from imagehost_core.workers import frames
from imagehost_core.workers import messages as wire
from imagehost_core.workers.frames import Head
from imagehost_core.workers.task import Task

HOARD: list[bytearray] = []


def outcome(act: Callable[[], object]) -> str:
    """Return what an act returns, or the name of the system's refusal."""
    try:
        return str(act())
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    except ValueError as error:
        return str(error)


def sleep() -> None:
    time.sleep(3600)


def spin() -> None:
    """Hold the interpreter's lock in one long call of C, as a codec may."""
    sum(range(10**14))


def hoard() -> None:
    while True:
        HOARD.append(bytearray(2**26))


def crash() -> None:
    ctypes.string_at(0)


def leave() -> None:
    os._exit(3)


def leave_with_many_words() -> None:
    os.write(2, b"word " * 5_000 + b"the end")
    os._exit(4)


def killed_from_outside() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def chatter() -> str:
    """Print as native code does, to where the answers once went."""
    os.write(1, b"codec: 1 of 1 done\n" * 100)
    os.write(2, b"codec: a warning\n" * 100)
    return "printed"


def babble() -> None:
    """Write rubbish to every descriptor that there is."""
    for descriptor in range(3, 16):
        outcome(partial(os.write, descriptor, b"\xff" * 4096))
    time.sleep(3600)


def forge() -> None:
    """Answer an order that was not given, in a frame that is right."""
    answer = wire.encode(wire.TaskResult(99, wire.ResourceUsage(0, 0.0), wire.Json("forged")))
    forged = io.BytesIO()
    frames.write_head(forged, Head(answer, (0,)))
    for descriptor in range(3, 16):
        outcome(partial(os.write, descriptor, forged.getvalue()))
    time.sleep(3600)


def write_without_end() -> None:
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
    done: list[str] = []
    worker = threading.Thread(target=lambda: done.append("threaded"))
    worker.start()
    worker.join()
    return done[0]


def fork_and_sleep() -> None:
    """Leave a child behind that holds on to the pipes."""
    os.fork()
    time.sleep(3600)


def isolated() -> str:
    return str(bool(sys.flags.isolated))


def look_around() -> str:
    return ",".join(sorted(os.environ))


def open_descriptors() -> str:
    return str(sum(outcome(partial(os.lseek, number, 0, 1)) != "EBADF" for number in range(64)))


def hold_much() -> str:
    return str(len(bytearray(os.urandom(2**20) * 200)))


def burn() -> None:
    """Use a twentieth of a second of the processor."""
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass


def fail() -> None:
    raise LookupError("a secret of the server")


def refuse() -> None:
    raise ValidationError(errors=[FieldError("the image", "a whole one", "half of one")])


def refuse_busy() -> None:
    raise UnavailableError("expected less", retry_after=7)


def refuse_rate() -> None:
    raise RateLimitError("expected fewer", retry_after=9)


MISCHIEF = (sleep, spin, hoard, crash, leave, leave_with_many_words, killed_from_outside)
NOISE = (chatter, babble, forge, fork_and_sleep, write_without_end)
ESCAPES = (open_to_read, open_to_write, listen, fork, execute, signal_parent, raise_limit, thread)
REPORTS = (isolated, look_around, open_descriptors, hold_much, burn)
ERRORS = (fail, refuse, refuse_busy, refuse_rate)
ALL = (*MISCHIEF, *NOISE, *ESCAPES, *REPORTS, *ERRORS)
ACTS: dict[str, Callable[[], object]] = {act.__name__: act for act in ALL}
ACTS["pid"] = os.getpid
PARENT = os.getppid()


def act(text: str, data: bytes) -> tuple[str, list[bytes]]:
    """Do what the text names and return the blob as it came."""
    return outcome(ACTS[text]) if text else "", [data]


def ingest(job: IngestJob, data: bytes) -> tuple[IngestResult, list[bytes]]:
    """Do what the upload names; else store it as it is, with as many rungs as were asked for."""
    if (name := data.split(b"\n")[0].decode(errors="replace")) in ACTS:
        outcome(ACTS[name])
    rungs = tuple(Size(side, side) for side in job.derivative_sides)
    made = IngestResult(
        format=job.format,
        size=Size(1, 1),
        frames=1,
        has_alpha=False,
        placeholder="",
        unchanged=False,
        derivatives=rungs,
    )
    fewer = 1 if data == b"too few" else 1 + len(rungs)
    return made, [data] * fewer


def render(job: RenderJob, source_format: Format, data: bytes) -> tuple[RenderResult, list[bytes]]:
    """Do what the master names; else return it, after the name of its format."""
    if (name := data.split(b"\n")[0].decode(errors="replace")) in ACTS:
        outcome(ACTS[name])
    return RenderResult(job.plan.output, 1), [source_format.value.encode() + b":" + data]


TASKS = {
    "act": Task((str,), act),
    "ingest": Task((IngestJob,), ingest),
    "render": Task((RenderJob, Format), render),
    "lie": Task((), lambda _data: ({"not": "an outcome"}, [])),
}


def warm_up() -> None:
    """Nothing is left to bring to life."""
