"""Tests of the program of a worker process: it runs one task after the other and reports their errors."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.workers import frames, main, messages
from imagehost_core.workers.frames import FrameError, Head
from imagehost_core.workers.main import ResourceMeter
from imagehost_core.workers.process import BOOTSTRAP
from imagehost_core.workers.tasks import Task, load_tasks


def upper(text: str, data: bytes) -> tuple[str, list[bytes]]:
    return text.upper(), [data, data[::-1]]


def raise_memory_error(data: bytes) -> tuple[str, list[bytes]]:
    raise MemoryError


def raise_validation_error(data: bytes) -> tuple[str, list[bytes]]:
    raise ValidationError(errors=[FieldError("the image", "another", "this")])


TASKS = {
    "upper": Task((str,), upper),
    "memory_error": Task((), raise_memory_error),
    "validation_error": Task((), raise_validation_error),
}


def encode_request(number: int, task: str, arguments: list[object], data: bytes = b"") -> bytes:
    stream = io.BytesIO()
    frames.write_head(
        stream,
        Head(messages.encode(messages.TaskRequest(number, task, messages.to_json(arguments))), (len(data),)),
    )
    return stream.getvalue() + data


def run_requests(*requests: bytes) -> list[tuple[messages.TaskResult, list[bytes]]]:
    results = io.BytesIO()
    main.run_loop(io.BytesIO(b"".join(requests)), results, TASKS, lambda: messages.ResourceUsage(2**20, 0.5))
    results.seek(0)
    received = []
    while (head := frames.read_head(results)) is not None:
        blobs = [frames.read_blob(results, length) for length in head.lengths]
        received.append((messages.decode(head.header, messages.TaskResult), blobs))
    return received


def test_requests_are_processed_in_order_until_the_stream_ends() -> None:
    first, second = run_requests(
        encode_request(1, "upper", ["one"], b"ab"), encode_request(2, "upper", ["two"])
    )
    assert (first[0].number, first[0].value, first[1]) == (1, messages.Json("ONE"), [b"ab", b"ba"])
    assert (second[0].number, second[0].value, second[1]) == (2, messages.Json("TWO"), [b"", b""])
    assert first[0].usage == second[0].usage == messages.ResourceUsage(2**20, 0.5)


@pytest.mark.skipif(sys.platform == "win32", reason="NOT TESTED: Windows has no interval timers")
def test_each_task_has_the_whole_cpu_time() -> None:
    left: list[float] = []

    def measure(_blob: bytes) -> tuple[str, list[bytes]]:
        left.append(signal.getitimer(signal.ITIMER_PROF)[0])
        return "", []

    requests = encode_request(1, "measure", []) + encode_request(2, "measure", [])
    tasks, usage = {"measure": Task((), measure)}, messages.ResourceUsage(0, 0)
    main.run_loop(io.BytesIO(requests), io.BytesIO(), tasks, lambda: usage, 1_000)
    assert left == [pytest.approx(1_000, abs=10)] * 2
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0, "there is no limit between tasks"


def test_an_error_of_a_task_is_a_result_and_the_next_task_runs() -> None:
    invalid, out_of_memory, unknown, success = run_requests(
        encode_request(1, "validation_error", []),
        encode_request(2, "memory_error", []),
        encode_request(3, "no_such_task", []),
        encode_request(4, "upper", ["on"]),
    )
    assert invalid[0].error == messages.from_exception(
        ValidationError(errors=[FieldError("the image", "another", "this")])
    )
    assert out_of_memory[0].error == messages.TaskError(messages.OUT_OF_MEMORY)
    assert unknown[0].error is not None
    assert unknown[0].error.code == "INTERNAL_ERROR"
    assert success[0].value == messages.Json("ON")


METER = """
from imagehost_core.workers.main import ResourceMeter
meter = ResourceMeter()
before = meter.read()
allocated = bytes(range(256)) * (before.peak_bytes // 256 + 2**18)
after = meter.read()
meter.close()
assert after.peak_bytes - before.peak_bytes > 2**20
assert 0 < before.cpu_seconds < after.cpu_seconds
"""
"""A program of little memory: beyond the peak of a process with all tests, memory takes seconds."""


def test_the_meter_reports_peak_memory_and_cpu_time() -> None:
    subprocess.run([sys.executable, "-c", METER], check=True)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report it")
def test_the_meter_uses_getrusage_on_systems_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _path: False)
    meter = ResourceMeter()
    assert meter.read().peak_bytes > 2**20
    meter.close()


@pytest.mark.parametrize("arguments", [[], ["a", "b"], "ab", None])
def test_a_task_rejects_the_wrong_number_of_arguments(arguments: object) -> None:
    with pytest.raises(FrameError, match="expected 1 arguments"):
        TASKS["upper"](messages.to_json(arguments), b"")


def test_an_invalid_request_ends_the_loop() -> None:
    with pytest.raises(FrameError):
        run_requests(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(FrameError):
        run_requests(encode_request(1, "upper", ["a"], b"abc")[:-1])


def test_the_default_task_table_loads_and_warms_up() -> None:
    assert set(load_tasks("imagehost_core.workers.tasks")) == {"ingest", "render", "render_upload"}


def worker_command(parent: int, tasks: str = "hostile_tasks") -> list[str]:
    """Return the command of a worker process with a sandbox that allows measuring its coverage."""
    limits = SandboxLimits(file_bytes=0, open_files=256, landlock=False, seccomp=False)
    args = messages.encode(messages.WorkerArgs(sys.path, tasks, parent, 10, limits)).decode()
    return [sys.executable, "-I", "-c", BOOTSTRAP, args]


def test_a_worker_process_reports_that_it_is_ready_and_keeps_printed_output_out_of_its_results(
    hostile_tasks: str,
) -> None:
    requests = encode_request(1, "act", ["print_output"], b"blob")
    completed = subprocess.run(
        worker_command(os.getpid()),
        input=requests,
        capture_output=True,
        check=True,
    )
    results = io.BytesIO(completed.stdout)
    ready = frames.read_head(results)
    assert ready is not None
    assert "RLIMIT_CORE" in messages.decode(ready.header, messages.Ready).sandbox.applied
    head = frames.read_head(results)
    assert head is not None
    assert messages.decode(head.header, messages.TaskResult).value == messages.Json("printed")
    assert results.read() == b"blob"
    assert b"codec: 1 of 1 done" in completed.stderr
    assert b"codec: a warning" in completed.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no parent-death signal")
def test_a_worker_process_whose_parent_has_ended_does_not_start(hostile_tasks: str) -> None:
    completed = subprocess.run(worker_command(parent=1), input=b"", capture_output=True)
    assert completed.returncode == 1
    assert b"expected 1 for the parent" in completed.stderr
    assert completed.stdout == b""
