"""Tests of the executor and its process pool: starting, queueing, deadlines and closing."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.core.workers.image_uploads import heavy
from tests.waiting import wait_until

from imagehost_core.errors import ImageHostError, InternalError, UnavailableError
from imagehost_core.observer import PoolLoad
from imagehost_core.workers import failures
from imagehost_core.workers.executor import ImageExecutor, TaskCall
from imagehost_core.workers.process import ExitInfo, Worker

RunTask = Callable[..., str]
MakeExecutor = Callable[..., ImageExecutor]
HasExited = Callable[[int], bool]

NOTHING = TaskCall("act", ("",), str, lambda _result: 1)


class Caller:
    """A thread that makes a call and keeps its error."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.error = BaseException()

        def run() -> None:
            try:
                call()
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def join(self) -> Caller:
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self


def descriptors() -> set[str]:
    """Return the open file descriptors of this process, without that of the listing."""
    return {path.name for path in Path("/proc/self/fd").iterdir() if path.exists()}


def children() -> set[int]:
    """Return the process IDs of this process's children, zombies included."""
    pids = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = path.read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            pids |= {int(path.parent.name)} if int(parent) == os.getpid() else set()
    return pids


def test_a_worker_process_runs_one_task_after_the_other(executor: ImageExecutor, run_task: RunTask) -> None:
    assert run_task(executor, "pid", b"some bytes") == run_task(executor, "pid", bytes(5_000_000))


def test_no_process_is_started_before_the_first_call(executor: ImageExecutor, run_task: RunTask) -> None:
    assert executor.load == PoolLoad(0, 0, 0)
    run_task(executor)
    assert executor.load == PoolLoad(0, 1, 0)


def test_as_many_tasks_run_at_a_time_as_the_size_allows(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    executor = make_executor(2)
    callers = [Caller(lambda: run_task(executor, "sleep", timeout_seconds=5)) for _ in range(3)]
    wait_until(lambda: executor.load == PoolLoad(2, 0, 1))
    executor.close()
    assert {type(caller.join().error) for caller in callers} <= {failures.WorkerKilled, UnavailableError}


@pytest.mark.parametrize("action", ["sleep", "spin"])
def test_a_task_beyond_its_deadline_is_killed(
    action: str, executor: ImageExecutor, run_task: RunTask, has_exited: HasExited
) -> None:
    pid = int(run_task(executor, "pid"))
    with pytest.raises(failures.DeadlineExceeded) as caught:
        run_task(executor, action, timeout_seconds=0.5)
    assert caught.value.seconds == 0.5
    assert has_exited(pid)
    assert int(run_task(executor, "pid")) != pid


def test_each_worker_process_has_its_own_process_group(executor: ImageExecutor, run_task: RunTask) -> None:
    pid = int(run_task(executor, "pid"))
    assert os.getpgid(pid) == pid != os.getpgrp()


def test_a_used_process_is_used_again_before_one_that_has_just_started(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    executor = make_executor(2)
    callers = [Caller(lambda: run_task(executor, "sleep", timeout_seconds=0.5)) for _ in range(2)]
    for caller in callers:
        caller.join()
    wait_until(lambda: executor.load.idle == 2)
    pid = run_task(executor, "pid")
    assert [run_task(executor, "pid") for _ in range(3)] == [pid] * 3


def test_a_call_beyond_the_queue_limit_is_rejected_at_once(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    executor = make_executor(queue=1)
    busy = Caller(lambda: run_task(executor, "sleep", timeout_seconds=600))
    wait_until(lambda: executor.load.busy == 1)
    waiting = Caller(lambda: run_task(executor, "pid", timeout_seconds=600))
    wait_until(lambda: executor.load.waiting == 1)
    with pytest.raises(UnavailableError, match="expected at most 1 requests to wait") as caught:
        run_task(executor, "pid", timeout_seconds=600)
    assert caught.value.retry_after >= 1
    executor.close()
    assert isinstance(busy.join().error, failures.WorkerKilled)
    assert isinstance(waiting.join().error, UnavailableError)


def test_without_a_queue_a_call_can_wait_for_a_process_that_is_starting(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    executor = make_executor(2, queue=0)
    busy = [Caller(lambda: run_task(executor, "sleep", timeout_seconds=600)) for _ in range(2)]
    wait_until(lambda: executor.load == PoolLoad(2, 0, 0))
    with pytest.raises(UnavailableError, match="expected at most 0 requests to wait"):
        run_task(executor)
    executor.close()
    assert {type(caller.join().error) for caller in busy} == {failures.WorkerKilled}


@pytest.mark.parametrize("timeout_seconds", [0, -1])
def test_a_deadline_in_the_past_counts_as_queued_too_long(
    timeout_seconds: float, executor: ImageExecutor, run_task: RunTask
) -> None:
    run_task(executor)
    with pytest.raises(failures.QueuedTooLong):
        run_task(executor, "sleep", timeout_seconds=timeout_seconds)


def test_waiting_counts_against_the_deadline(make_executor: MakeExecutor, run_task: RunTask) -> None:
    executor = make_executor()
    busy = Caller(lambda: run_task(executor, "sleep", timeout_seconds=600))
    wait_until(lambda: executor.load.busy == 1)
    with pytest.raises(UnavailableError, match="all were busy"):
        run_task(executor, "pid", timeout_seconds=0.6)
    assert executor.load.waiting == 0
    executor.close()
    busy.join()


def test_a_call_that_waited_for_most_of_its_deadline_counts_as_queued_too_long(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    executor = make_executor()
    run_task(executor)
    busy = Caller(lambda: run_task(executor, "sleep", timeout_seconds=3))
    wait_until(lambda: executor.load.busy == 1)
    late = Caller(lambda: run_task(executor, "sleep", timeout_seconds=4))
    assert isinstance(late.join().error, failures.QueuedTooLong)
    assert isinstance(busy.join().error, failures.DeadlineExceeded)


def test_callers_are_served_in_order_of_arrival(make_executor: MakeExecutor, run_task: RunTask) -> None:
    executor, served = make_executor(), list[int]()
    busy = Caller(lambda: run_task(executor, "sleep", timeout_seconds=1))
    wait_until(lambda: executor.load.busy == 1)

    class Source:
        """A source that is read once its call has a worker process."""

        def __init__(self, place: int) -> None:
            self.place = place

        def read(self, _size: int, /) -> bytes:
            served.append(self.place)
            return b"x"

    def call(place: int) -> None:
        executor.run(NOTHING, Source(place), 1, heavy(), receive=b"".join)

    callers = []
    for place in range(8):
        callers.append(Caller(lambda place=place: call(place)))  # type: ignore[misc]
        wait_until(lambda place=place: executor.load.waiting == place + 1)  # type: ignore[misc]
    for caller in (busy, *callers):
        caller.join()
    assert served == list(range(8))


def test_each_of_many_threads_gets_its_own_results(make_executor: MakeExecutor, run_task: RunTask) -> None:
    executor = make_executor(2)
    errors: list[BaseException] = []

    def call(place: int) -> None:
        try:
            for turn in range(10):
                run_task(executor, "", f"{place} {turn} ".encode() * 1000)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert executor.load == PoolLoad(0, 2, 0)


def test_worker_processes_that_fail_to_import_are_an_internal_error(hostile_tasks: str) -> None:
    with ImageExecutor(1, tasks="imagehost_core.no_such_module") as executor:
        for call in (executor.status, executor.status):
            with pytest.raises(InternalError) as caught:
                call()
            assert "No module named 'imagehost_core.no_such_module'" in str(caught.value.__cause__)


def test_an_executor_is_healthy_while_the_last_worker_process_became_ready(
    executor: ImageExecutor, run_task: RunTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [executor.is_healthy]
    run_task(executor)
    found.append(executor.is_healthy)
    with monkeypatch.context() as patch:
        patch.setattr("imagehost_core.workers.process.BOOTSTRAP", "raise SystemExit(1)")
        for lost in (failures.WorkerCrashed, failures.WorkerStartFailed):
            with pytest.raises(lost):
                run_task(executor, "exit_3")
    found.append(executor.is_healthy)
    run_task(executor)
    assert [*found, executor.is_healthy] == [False, True, False, True]


def test_worker_processes_that_cannot_be_started_are_a_temporary_error(
    executor: ImageExecutor,
    run_task: RunTask,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(UnavailableError, match="none can be started") as caught:
        run_task(executor)
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert "worker process failed to start" in caplog.text
    monkeypatch.undo()


def test_a_closed_executor_rejects_calls(executor: ImageExecutor, run_task: RunTask) -> None:
    run_task(executor)
    executor.close()
    executor.close()
    with pytest.raises(UnavailableError, match="one that is closed"):
        run_task(executor)


def test_closing_ends_every_process_and_closes_every_descriptor(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    files, processes = descriptors(), children()
    executor = make_executor(3, max_tasks_per_worker=2)
    for action in (
        "pid",
        "segfault",
        "pid",
        "exit_3",
        "pid",
        "raise_unexpected",
        "pid",
        "raise_validation_error",
        "pid",
    ):
        with suppress(ImageHostError, failures.WorkerFailure):
            run_task(executor, action)
    busy = Caller(lambda: run_task(executor, "sleep", timeout_seconds=600))
    wait_until(lambda: executor.load.busy == 1)
    assert children() - processes
    executor.close()
    # What earlier tests have left may end meanwhile.
    assert descriptors() <= files
    assert children() <= processes
    busy.join()


def test_closing_waits_until_callers_have_released_their_worker_processes(
    executor: ImageExecutor, run_task: RunTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Worker.end

    def slow_end(worker: Worker, grace: float = 0) -> ExitInfo:
        time.sleep(0.3)
        return end(worker, grace)

    busy = Caller(lambda: run_task(executor, "sleep", timeout_seconds=600))
    wait_until(lambda: executor.load.busy == 1)
    monkeypatch.setattr(Worker, "end", slow_end)
    executor.close()
    assert executor.load == PoolLoad(0, 0, 0)
    busy.join()


def test_an_executor_without_references_is_closed(
    hostile_tasks: str, run_task: RunTask, has_exited: HasExited
) -> None:
    executor = ImageExecutor(1, tasks=hostile_tasks)
    pid = int(run_task(executor, "pid"))
    del executor
    gc.collect()
    wait_until(lambda: has_exited(pid))


@pytest.mark.parametrize(("size", "queue", "max_tasks"), [(0, 1, 1), (1, -1, 1), (1, 1, 0)])
def test_invalid_sizes_are_rejected(size: int, queue: int, max_tasks: int) -> None:
    with pytest.raises(ValueError, match="expected at least 1"):
        ImageExecutor(size, queue=queue, max_tasks_per_worker=max_tasks)
