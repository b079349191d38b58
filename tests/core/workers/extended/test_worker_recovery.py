"""Tests of lost and retired worker processes, of invalid results, and of errors of tasks and sources."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable

import pytest
from tests.core.workers.image_uploads import heavy
from tests.waiting import wait_until

from imagehost_core.errors import ImageHostError, InternalError
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.transform import Size
from imagehost_core.workers import failures
from imagehost_core.workers.executor import ImageExecutor, TaskCall
from imagehost_core.workers.process import Worker

RunTask = Callable[..., str]
MakeExecutor = Callable[..., ImageExecutor]
HasExited = Callable[[int], bool]

SLEEP = TaskCall("act", ("sleep",), str, lambda _result: 1)
NOTHING = TaskCall("act", ("",), str, lambda _result: 1)
WRONG_TYPE = TaskCall("invalid_result", (), Size, lambda _result: 0)
WRONG_COUNT = TaskCall("act", ("",), str, lambda _result: 2)


def test_children_of_a_worker_process_are_killed_with_it(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    executor = make_executor(limits=SandboxLimits(seccomp=False))
    run_task(executor)
    with pytest.raises(failures.DeadlineExceeded):
        run_task(executor, "fork_and_sleep", timeout_seconds=0.5)


@pytest.mark.parametrize(
    ("action", "failure", "message"),
    [
        ("segfault", failures.WorkerCrashed, "signal=SIGSEGV: Fatal Python error: Segmentation fault"),
        ("exit_3", failures.WorkerCrashed, "status=3"),
        ("write_garbage", failures.WorkerCrashed, "signal=SIGKILL"),
        ("forge_result", failures.WorkerCrashed, "signal=SIGKILL"),
        ("kill_self", failures.WorkerKilled, "signal=SIGKILL"),
        ("exhaust_memory", failures.WorkerOutOfMemory, "exceeded the sandbox's memory limit"),
    ],
)
def test_a_lost_worker_process_fails_one_call_and_is_replaced(
    action: str,
    failure: type[failures.WorkerFailure],
    message: str,
    make_executor: MakeExecutor,
    run_task: RunTask,
    has_exited: HasExited,
) -> None:
    executor = make_executor(limits=SandboxLimits(memory_bytes=2**29, seccomp=action != "kill_self"))
    pid = int(run_task(executor, "pid"))
    with pytest.raises(failure, match=message):
        run_task(executor, action)
    assert has_exited(pid)
    assert int(run_task(executor, "pid")) != pid


def test_only_the_end_of_standard_error_is_reported(executor: ImageExecutor, run_task: RunTask) -> None:
    with pytest.raises(failures.WorkerCrashed, match=r"status=4: .* the end$") as caught:
        run_task(executor, "exit_4_after_long_stderr")
    assert len(str(caught.value)) < 5_000


def test_output_printed_by_a_codec_does_not_corrupt_results(
    executor: ImageExecutor, run_task: RunTask
) -> None:
    assert run_task(executor, "print_output") == "printed"
    assert run_task(executor, "print_output") == "printed"


def test_output_printed_by_a_codec_does_not_fill_the_disk(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    assert run_task(make_executor(limits=SandboxLimits(file_bytes=10_000)), "fill_stderr") == "EFBIG"


def test_a_result_of_the_wrong_type_or_with_too_few_blobs_counts_as_a_crash(executor: ImageExecutor) -> None:
    with pytest.raises(failures.WorkerCrashed):
        executor.run(
            TaskCall("invalid_result", (), Size, lambda _result: 0),
            io.BytesIO(),
            0,
            heavy(),
            receive=b"".join,
        )
    with pytest.raises(failures.WorkerCrashed):
        executor.run(
            TaskCall("act", ("",), str, lambda _result: 2),
            io.BytesIO(),
            0,
            heavy(),
            receive=b"".join,
        )


def test_an_error_of_a_task_is_raised_to_the_caller_and_the_process_is_kept(
    executor: ImageExecutor, run_task: RunTask
) -> None:
    pid = run_task(executor, "pid")
    for action, code in (
        ("raise_validation_error", "VALIDATION_ERROR"),
        ("raise_unavailable", "SERVICE_UNAVAILABLE"),
    ):
        with pytest.raises(ImageHostError) as caught:
            run_task(executor, action)
        assert caught.value.code == code
    with pytest.raises(InternalError) as unexpected:
        run_task(executor, "raise_unexpected")
    assert "secret" not in str(unexpected.value)
    assert "LookupError: a secret of the server" in str(unexpected.value.__cause__)
    assert run_task(executor, "pid") == pid


def test_a_source_that_ends_early_is_an_error_and_the_next_call_succeeds(
    executor: ImageExecutor, run_task: RunTask
) -> None:
    with pytest.raises(InternalError) as caught:
        executor.run(SLEEP, io.BytesIO(b"abc"), 4, heavy(), receive=b"".join)
    assert "expected 4 bytes but received 3" in str(caught.value.__cause__)
    assert run_task(executor, "", b"abc") == ""


def test_an_error_of_the_source_is_raised_unchanged(executor: ImageExecutor, run_task: RunTask) -> None:
    class BrokenSource:
        def read(self, _size: int, /) -> bytes:
            raise BrokenPipeError("the source is gone")

    with pytest.raises(BrokenPipeError, match="the source is gone"):
        executor.run(SLEEP, BrokenSource(), 4, heavy(), receive=b"".join)
    assert run_task(executor, "", b"abc") == ""


def test_bytes_after_the_image_in_the_source_are_not_read(executor: ImageExecutor) -> None:
    source = io.BytesIO(b"image and more")
    assert executor.run(NOTHING, source, 5, heavy(), receive=b"".join) == ("", [b"image"])
    assert source.read() == b" and more"


def test_a_worker_process_is_replaced_after_its_maximum_of_tasks(
    make_executor: MakeExecutor, run_task: RunTask, has_exited: HasExited
) -> None:
    executor = make_executor(max_tasks_per_worker=2)
    first, second, third = (run_task(executor, "pid") for _ in range(3))
    assert first == second != third
    assert has_exited(int(first))


def test_a_worker_process_that_used_much_memory_is_replaced(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    executor = make_executor(max_worker_bytes=150 * 2**20)
    pid = run_task(executor, "pid")
    assert run_task(executor, "pid") == pid
    run_task(executor, "hold_200_mib")
    assert run_task(executor, "pid") != pid


def test_a_worker_process_that_used_half_of_its_cpu_limit_is_replaced(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    executor = make_executor(limits=SandboxLimits(cpu_seconds=3))
    pid = run_task(executor, "pid")
    tasks = 0
    while run_task(executor, "pid") == pid:
        assert tasks < 40
        run_task(executor, "use_cpu")
        tasks += 1


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (40, "40")])
def test_an_idle_worker_process_that_is_killed_fails_no_call_and_is_logged(
    number: int,
    name: str,
    executor: ImageExecutor,
    run_task: RunTask,
    has_exited: HasExited,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pid = int(run_task(executor, "pid"))
    os.kill(pid, number)
    wait_until(lambda: has_exited(pid))
    assert int(run_task(executor, "pid")) != pid
    assert f"worker process exited pid={pid} signal={name}" in caplog.text


def test_a_kill_after_the_result_does_not_fail_another_call(
    executor: ImageExecutor, run_task: RunTask, has_exited: HasExited, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired, gate, kill = threading.Event(), threading.Event(), Worker.kill

    def delayed_kill(worker: Worker) -> None:
        fired.set()
        gate.wait(60)
        kill(worker)

    class Source:
        """A source that can be read once the deadline has passed."""

        def read(self, _size: int, /) -> bytes:
            assert fired.wait(60)
            return b"x"

    pid = int(run_task(executor, "pid"))
    monkeypatch.setattr(Worker, "kill", delayed_kill)
    assert executor.run(NOTHING, Source(), 1, heavy(0.5), receive=b"".join) == ("", [b"x"])
    # The timer has fired, but the kill is still to come: no other call may get this process.
    assert has_exited(pid)
    gate.set()
    assert int(run_task(executor, "pid")) != pid
