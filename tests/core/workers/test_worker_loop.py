"""A worker does one order after the other, and every trouble of a task is an answer."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import imagehost_core
from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.sandbox.enter import SandboxLimits
from imagehost_core.workers import frames, main
from imagehost_core.workers import messages as wire
from imagehost_core.workers.frames import FrameError, Head
from imagehost_core.workers.process import BOOTSTRAP
from imagehost_core.workers.resource_usage import ResourceMeter
from imagehost_core.workers.task import Task, load_tasks


def shout(text: str, data: bytes) -> tuple[str, list[bytes]]:
    return text.upper(), [data, data[::-1]]


def starve(data: bytes) -> tuple[str, list[bytes]]:
    raise MemoryError


def refuse(data: bytes) -> tuple[str, list[bytes]]:
    raise ValidationError(errors=[FieldError("the image", "another", "this")])


TASKS = {"shout": Task((str,), shout), "starve": Task((), starve), "refuse": Task((), refuse)}


def order(number: int, task: str, arguments: list[object], data: bytes = b"") -> bytes:
    stream = io.BytesIO()
    frames.write_head(
        stream, Head(wire.encode(wire.TaskRequest(number, task, wire.to_json(arguments))), (len(data),))
    )
    return stream.getvalue() + data


def served(*orders: bytes) -> list[tuple[wire.TaskResult, list[bytes]]]:
    answers = io.BytesIO()
    main.run_loop(io.BytesIO(b"".join(orders)), answers, TASKS, lambda: wire.ResourceUsage(2**20, 0.5))
    answers.seek(0)
    received = []
    while (head := frames.read_head(answers)) is not None:
        blobs = [frames.read_blob(answers, length) for length in head.lengths]
        received.append((wire.decode(head.header, wire.TaskResult), blobs))
    return received


def test_orders_are_answered_one_after_the_other_until_there_are_no_more() -> None:
    first, second = served(order(1, "shout", ["one"], b"ab"), order(2, "shout", ["two"]))
    assert (first[0].number, first[0].outcome, first[1]) == (1, wire.Json("ONE"), [b"ab", b"ba"])
    assert (second[0].number, second[0].outcome, second[1]) == (2, wire.Json("TWO"), [b"", b""])
    assert first[0].usage == second[0].usage == wire.ResourceUsage(2**20, 0.5)


def test_an_error_of_a_task_is_an_answer_and_the_next_order_is_done() -> None:
    refused, starved, unknown, done = served(
        order(1, "refuse", []), order(2, "starve", []), order(3, "dance", []), order(4, "shout", ["on"])
    )
    assert refused[0].failure == wire.from_exception(
        ValidationError(errors=[FieldError("the image", "another", "this")])
    )
    assert starved[0].failure == wire.TaskError(wire.OUT_OF_MEMORY)
    assert unknown[0].failure is not None
    assert unknown[0].failure.code == "INTERNAL_ERROR"
    assert done[0].outcome == wire.Json("ON")


def test_the_meter_tells_how_much_was_held_and_for_how_long_the_processor_was_had() -> None:
    meter = ResourceMeter()
    before = meter.read()
    held = bytearray(os.urandom(2**20) * (before.peak_bytes // 2**20 + 64))
    after = meter.read()
    meter.close()
    assert after.peak_bytes - before.peak_bytes > 2**20
    assert 0 < before.cpu_seconds < after.cpu_seconds
    assert held


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not say")
def test_the_meter_reads_another_gauge_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _path: False)
    meter = ResourceMeter()
    assert meter.read().peak_bytes > 2**20
    meter.close()


@pytest.mark.parametrize("arguments", [[], ["a", "b"], "ab", None])
def test_a_task_refuses_arguments_of_another_number(arguments: object) -> None:
    with pytest.raises(FrameError, match="expected 1 arguments"):
        TASKS["shout"](wire.to_json(arguments), b"")


def test_what_is_no_order_ends_the_loop() -> None:
    with pytest.raises(FrameError):
        served(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(FrameError):
        served(order(1, "shout", ["a"], b"abc")[:-1])


def test_the_table_of_the_pool_gets_warm() -> None:
    assert set(load_tasks("imagehost_core.workers.tasks")) == {"ingest", "render"}


def start(parent: int, tasks: str = "hostile_tasks") -> list[str]:
    """Return the command of a worker that is caged so little that its coverage can be measured."""
    limits = SandboxLimits(file_bytes=0, open_files=256, landlock=False, seccomp=False)
    told = wire.encode(
        main.WorkerArgs(sys.path, list(imagehost_core.__path__), tasks, parent, limits)
    ).decode()
    return [sys.executable, "-I", "-c", BOOTSTRAP, told]


def test_a_worker_says_that_it_is_ready_and_keeps_what_is_printed_out_of_its_answers(hostile: str) -> None:
    orders = order(1, "act", ["chatter"], b"blob")
    done = subprocess.run(start(os.getpid()), input=orders, capture_output=True, check=True)
    answers = io.BytesIO(done.stdout)
    ready = frames.read_head(answers)
    assert ready is not None
    assert "RLIMIT_CORE" in wire.decode(ready.header, wire.Ready).sandbox.in_force
    head = frames.read_head(answers)
    assert head is not None
    assert wire.decode(head.header, wire.TaskResult).outcome == wire.Json("printed")
    assert answers.read() == b"blob"
    assert b"codec: 1 of 1 done" in done.stderr
    assert b"codec: a warning" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell a process its parent's end")
def test_a_worker_whose_parent_is_gone_already_does_not_start(hostile: str) -> None:
    done = subprocess.run(start(parent=1), input=b"", capture_output=True)
    assert done.returncode == 1
    assert b"expected 1 for the parent" in done.stderr
    assert done.stdout == b""
