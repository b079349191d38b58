"""The worker's own program: get warm, close the cage, then do one order after the other.

It is started by `process` and knows nothing but its two pipes. Requests come on what was its
standard input, and answers go to what was its standard output; both are moved away first, so that a
codec which prints does not speak into an answer.
"""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from attrs import frozen

from imagehost_core.sandbox import enter as cage
from imagehost_core.sandbox.enter import SandboxLimits
from imagehost_core.workers import frames
from imagehost_core.workers import messages as wire
from imagehost_core.workers.frames import Head
from imagehost_core.workers.resource_usage import ResourceMeter
from imagehost_core.workers.task import Task, load_tasks

NICENESS = 10
"""How much a worker leaves the processor to others (POSIX: 0 to 19): a tenth of a share beside whoever
answers requests, and all of it beside nobody. Warm pictures do not wait because others are made."""
AUTOGROUP = Path("/proc/self/autogroup")
"""Where Linux groups processes by their session (sched(7), *The autogroup feature*), niceness counts only
among those of one group, and a worker has a session of its own. The group has a niceness in this file."""
AUTOGROUP_TRIES = 6
AUTOGROUP_SECONDS = 0.11
"""Linux takes one such change in a tenth of a second from all who are not root."""


@frozen
class WorkerArgs:
    """What a worker is told when it is started, as JSON in its first argument.

    Attributes:
        path: `sys.path` of the program that starts it: what can be imported there can be here.
        package: The folders of `imagehost_core` in it.
        tasks: The module of the table of tasks.
        parent: The process number of that program.
        limits: What the worker may use.
    """

    path: list[str]
    package: list[str]
    tasks: str
    parent: int
    limits: SandboxLimits


def main(argument: str) -> None:
    """Live a worker's life: until the pipe of requests ends, or somebody ends it.

    Args:
        argument: A `Start` as JSON.
    """
    start = wire.decode(argument.encode(), WorkerArgs)
    cage.exit_with_parent(start.parent)
    lower_priority()
    requests, answers = claim_pipes()
    faulthandler.enable()
    tasks = load_tasks(start.tasks)
    meter = ResourceMeter()
    status = cage.enter_sandbox(start.limits)
    frames.write_head(answers, Head(wire.encode(wire.Ready(status))))
    run_loop(requests, answers, tasks, meter.read)


def lower_priority() -> None:
    """Leave the processor to others, as far as the system lets us say so."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    for _ in range(AUTOGROUP_TRIES):
        try:
            AUTOGROUP.write_text(f"{NICENESS}", encoding="ascii")
        except BlockingIOError:
            time.sleep(AUTOGROUP_SECONDS)
        except OSError:
            return
        else:
            return


def claim_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the two pipes, and leave nothing to read and the log to write in their usual places."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def run_loop(
    requests: frames.Readable,
    answers: frames.Writable,
    tasks: Mapping[str, Task],
    usage: Callable[[], wire.ResourceUsage],
) -> None:
    """Do one order after the other until there are no more.

    Args:
        requests: Where the orders come from.
        answers: Where the answers go.
        tasks: What can be ordered.
        usage: Says what was used so far.

    Raises:
        FrameError: What came is no order.
    """
    while (head := frames.read_head(requests)) is not None:
        order = wire.decode(head.header, wire.TaskRequest)
        sources = [frames.read_blob(requests, length) for length in head.lengths]
        outcome, failed, blobs = _run_task(order, sources, tasks)
        answer = wire.TaskResult(order.number, usage(), outcome, failed)
        frames.write_head(answers, Head(wire.encode(answer), tuple(map(len, blobs))))
        for blob in blobs:
            frames.write(answers, blob)


def _run_task(
    order: wire.TaskRequest, sources: list[bytes], tasks: Mapping[str, Task]
) -> tuple[wire.Json, wire.TaskError | None, list[bytes]]:
    try:
        outcome, blobs = tasks[order.task](order.arguments, *sources)
    except Exception as error:
        return wire.Json(None), wire.from_exception(error), []
    return outcome, None, blobs
