"""The pool gives each call a worker in its turn, and ends what takes too long."""

from __future__ import annotations

import gc
import io
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from imagehost_core.errors import ImageHostError, InternalError, UnavailableError
from imagehost_core.transform.geometry import Size
from imagehost_core.workers import ImageExecutor, PoolLoad, SandboxLimits
from imagehost_core.workers import failures as mishaps
from imagehost_core.workers.executor import TaskCall
from imagehost_core.workers.process import ExitInfo, Worker

Ask = Callable[..., str]
MakePool = Callable[..., ImageExecutor]
Eventually = Callable[[Callable[[], bool]], bool]
Gone = Callable[[int], bool]

SLEEP = TaskCall("act", ("sleep",), str, lambda _said: 1)


class Caller:
    """A thread that asks, and keeps what came of it."""

    def __init__(self, act: Callable[[], str]) -> None:
        self.said, self.error = "", BaseException()

        def run() -> None:
            try:
                self.said = act()
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def join(self) -> Caller:
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self


def descriptors() -> set[str]:
    """Return what this process has open, less the listing itself."""
    return {path.name for path in Path("/proc/self/fd").iterdir() if path.exists()}


def children() -> set[int]:
    """Return the processes that are this one's, dead ones that nobody buried included."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = path.read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            found |= {int(path.parent.name)} if int(parent) == os.getpid() else set()
    return found


def test_a_worker_serves_one_call_after_the_other(pool: ImageExecutor, ask: Ask) -> None:
    assert ask(pool, "pid", b"some bytes") == ask(pool, "pid", bytes(5_000_000))


def test_nothing_is_started_before_the_first_call(pool: ImageExecutor, ask: Ask) -> None:
    assert pool.load == PoolLoad(0, 0, 0)
    ask(pool)
    assert pool.load == PoolLoad(0, 1, 0)


def test_all_workers_can_be_started_before_the_first_call(
    make_pool: MakePool, eventually: Eventually
) -> None:
    pool = make_pool(3)
    pool.start()
    pool.start()
    assert eventually(lambda: pool.load == PoolLoad(0, 3, 0))


def test_calls_are_worked_on_at_once_up_to_the_size(
    make_pool: MakePool, ask: Ask, eventually: Eventually
) -> None:
    pool = make_pool(2)
    callers = [Caller(lambda: ask(pool, "sleep", deadline=5)) for _ in range(3)]
    assert eventually(lambda: pool.load == PoolLoad(2, 0, 1))
    pool.close()
    assert {type(caller.join().error) for caller in callers} <= {mishaps.WorkerKilled, UnavailableError}


@pytest.mark.parametrize("act", ["sleep", "spin"])
def test_work_that_takes_too_long_is_really_stopped(
    act: str, pool: ImageExecutor, ask: Ask, gone: Gone
) -> None:
    pid = int(ask(pool, "pid"))
    with pytest.raises(mishaps.DeadlineExceeded) as caught:
        ask(pool, act, deadline=0.5)
    assert caught.value.seconds == 0.5
    assert gone(pid)
    assert int(ask(pool, "pid")) != pid


def test_a_signal_to_the_group_of_the_program_reaches_no_worker(pool: ImageExecutor, ask: Ask) -> None:
    pid = int(ask(pool, "pid"))
    assert os.getpgid(pid) == pid != os.getpgrp()


def test_what_a_worker_started_ends_with_it(make_pool: MakePool, ask: Ask) -> None:
    pool = make_pool(limits=SandboxLimits(seccomp=False))
    ask(pool)
    with pytest.raises(mishaps.DeadlineExceeded):
        ask(pool, "fork_and_sleep", deadline=0.5)


def test_a_warm_worker_is_taken_before_one_that_is_starting(
    make_pool: MakePool, ask: Ask, eventually: Eventually
) -> None:
    pool = make_pool(2)
    pid = ask(pool, "pid")
    pool.start()
    assert eventually(lambda: pool.load.idle == 2)
    assert ask(pool, "pid") == pid


@pytest.mark.parametrize(
    ("act", "mishap", "words"),
    [
        ("crash", mishaps.WorkerCrashed, "SIGSEGV: Fatal Python error: Segmentation fault"),
        ("leave", mishaps.WorkerCrashed, "ended with status 3"),
        ("babble", mishaps.WorkerCrashed, "SIGKILL"),
        ("forge", mishaps.WorkerCrashed, "SIGKILL"),
        ("killed_from_outside", mishaps.WorkerKilled, "SIGKILL"),
        ("hoard", mishaps.WorkerOutOfMemory, "more memory than the cage has"),
    ],
)
def test_a_worker_that_is_lost_costs_one_call(
    act: str, mishap: type[mishaps.WorkerFailure], words: str, make_pool: MakePool, ask: Ask, gone: Gone
) -> None:
    pool = make_pool(limits=SandboxLimits(memory_bytes=2**29, seccomp=act != "killed_from_outside"))
    pid = int(ask(pool, "pid"))
    with pytest.raises(mishap, match=words):
        ask(pool, act)
    assert gone(pid)
    assert int(ask(pool, "pid")) != pid


def test_only_the_last_words_of_a_worker_are_kept(pool: ImageExecutor, ask: Ask) -> None:
    with pytest.raises(mishaps.WorkerCrashed, match=r"ended with status 4: .* the end$") as caught:
        ask(pool, "leave_with_many_words")
    assert len(str(caught.value)) < 5_000


def test_a_worker_that_prints_is_understood_all_the_same(pool: ImageExecutor, ask: Ask) -> None:
    assert ask(pool, "chatter") == "printed"
    assert ask(pool, "chatter") == "printed"


def test_what_a_worker_prints_does_not_fill_the_disk(make_pool: MakePool, ask: Ask) -> None:
    assert ask(make_pool(limits=SandboxLimits(file_bytes=10_000)), "write_without_end") == "EFBIG"


def test_an_answer_of_another_shape_is_taken_for_a_crash(pool: ImageExecutor) -> None:
    with pytest.raises(mishaps.WorkerCrashed):
        pool.run(TaskCall("lie", (), Size, lambda _made: 0), io.BytesIO(), 0, deadline=60, receive=b"".join)
    with pytest.raises(mishaps.WorkerCrashed):
        pool.run(TaskCall("act", ("",), str, lambda _said: 2), io.BytesIO(), 0, deadline=60, receive=b"".join)


def test_an_error_of_the_task_reaches_the_caller_and_the_worker_lives(pool: ImageExecutor, ask: Ask) -> None:
    pid = ask(pool, "pid")
    for act, code in (("refuse", "VALIDATION_ERROR"), ("refuse_busy", "SERVICE_UNAVAILABLE")):
        with pytest.raises(ImageHostError) as caught:
            ask(pool, act)
        assert caught.value.code == code
    with pytest.raises(InternalError) as fault:
        ask(pool, "fail")
    assert "secret" not in str(fault.value)
    assert "LookupError: a secret of the server" in str(fault.value.__cause__)
    assert ask(pool, "pid") == pid


def test_a_source_that_ends_too_early_is_an_error_and_the_next_call_is_served(
    pool: ImageExecutor, ask: Ask
) -> None:
    with pytest.raises(InternalError) as caught:
        pool.run(SLEEP, io.BytesIO(b"abc"), 4, deadline=60, receive=b"".join)
    assert "expected 4 bytes but received 3" in str(caught.value.__cause__)
    assert ask(pool, "", b"abc") == ""


def test_the_error_of_a_source_reaches_the_caller_as_it_is(pool: ImageExecutor, ask: Ask) -> None:
    class Broken:
        def read(self, _size: int, /) -> bytes:
            raise BrokenPipeError("the source is gone")

    with pytest.raises(BrokenPipeError, match="the source is gone"):
        pool.run(SLEEP, Broken(), 4, deadline=60, receive=b"".join)
    assert ask(pool, "", b"abc") == ""


def test_what_follows_the_image_in_the_source_is_not_read(pool: ImageExecutor) -> None:
    source = io.BytesIO(b"image and more")
    call = TaskCall("act", ("",), str, lambda _said: 1)
    assert pool.run(call, source, 5, deadline=60, receive=b"".join) == ("", [b"image"])
    assert source.read() == b" and more"


def test_a_call_beyond_the_queue_is_refused_at_once(
    make_pool: MakePool, ask: Ask, eventually: Eventually
) -> None:
    pool = make_pool(queue=1)
    busy = Caller(lambda: ask(pool, "sleep", deadline=600))
    assert eventually(lambda: pool.load.busy == 1)
    waiting = Caller(lambda: ask(pool, "pid", deadline=600))
    assert eventually(lambda: pool.load.waiting == 1)
    with pytest.raises(UnavailableError, match="expected at most 1 requests to wait") as caught:
        ask(pool, "pid", deadline=600)
    assert caught.value.retry_after >= 1
    pool.close()
    assert isinstance(busy.join().error, mishaps.WorkerKilled)
    assert isinstance(waiting.join().error, UnavailableError)


def test_where_nobody_may_wait_a_call_is_still_served_by_a_worker_that_is_only_starting(
    make_pool: MakePool, ask: Ask, eventually: Eventually
) -> None:
    pool = make_pool(2, queue=0)
    busy = [Caller(lambda: ask(pool, "sleep", deadline=600)) for _ in range(2)]
    assert eventually(lambda: pool.load == PoolLoad(2, 0, 0))
    with pytest.raises(UnavailableError, match="expected at most 0 requests to wait"):
        ask(pool)
    pool.close()
    assert {type(caller.join().error) for caller in busy} == {mishaps.WorkerKilled}


@pytest.mark.parametrize("deadline", [0, -1])
def test_a_deadline_that_is_over_is_nobodys_fault(deadline: float, pool: ImageExecutor, ask: Ask) -> None:
    ask(pool)
    with pytest.raises(mishaps.QueuedTooLong):
        ask(pool, "sleep", deadline=deadline)


def test_waiting_counts_against_the_deadline(make_pool: MakePool, ask: Ask, eventually: Eventually) -> None:
    pool = make_pool()
    busy = Caller(lambda: ask(pool, "sleep", deadline=600))
    assert eventually(lambda: pool.load.busy == 1)
    with pytest.raises(UnavailableError, match="all were busy"):
        ask(pool, "pid", deadline=0.2)
    assert pool.load.waiting == 0
    pool.close()
    busy.join()


def test_a_call_that_waited_for_most_of_its_deadline_is_not_called_too_slow(
    make_pool: MakePool, ask: Ask, eventually: Eventually
) -> None:
    pool = make_pool()
    busy = Caller(lambda: ask(pool, "sleep", deadline=3))
    assert eventually(lambda: pool.load.busy == 1)
    late = Caller(lambda: ask(pool, "sleep", deadline=4))
    assert isinstance(late.join().error, mishaps.QueuedTooLong)
    assert isinstance(busy.join().error, mishaps.DeadlineExceeded)


def test_callers_are_served_in_the_order_in_which_they_came(
    make_pool: MakePool, ask: Ask, eventually: Eventually
) -> None:
    pool, served = make_pool(), list[int]()
    busy = Caller(lambda: ask(pool, "sleep", deadline=1))
    assert eventually(lambda: pool.load.busy == 1)

    def call(place: int) -> str:
        with pool._acquired(60):
            served.append(place)
        return ""

    callers = []
    for place in range(8):
        callers.append(Caller(lambda place=place: call(place)))  # type: ignore[misc]
        assert eventually(lambda place=place: pool.load.waiting == place + 1)  # type: ignore[misc]
    for caller in (busy, *callers):
        caller.join()
    assert served == list(range(8))


def test_many_threads_get_their_own_answers(make_pool: MakePool, ask: Ask) -> None:
    pool = make_pool(2)
    errors: list[BaseException] = []

    def call(place: int) -> None:
        try:
            for turn in range(10):
                ask(pool, "", f"{place} {turn} ".encode() * 1000)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert pool.load == PoolLoad(0, 2, 0)


def test_a_worker_is_replaced_after_so_many_orders(make_pool: MakePool, ask: Ask, gone: Gone) -> None:
    pool = make_pool(max_orders=2)
    first, second, third = (ask(pool, "pid") for _ in range(3))
    assert first == second != third
    assert gone(int(first))


def test_a_worker_that_held_much_memory_is_replaced(make_pool: MakePool, ask: Ask) -> None:
    pool = make_pool(max_bytes=150 * 2**20)
    pid = ask(pool, "pid")
    assert ask(pool, "pid") == pid
    ask(pool, "hold_much")
    assert ask(pool, "pid") != pid


def test_a_worker_that_used_half_of_its_processor_time_is_replaced(make_pool: MakePool, ask: Ask) -> None:
    pool = make_pool(limits=SandboxLimits(cpu_seconds=4))
    pids = {ask(pool, "pid")}
    for _ in range(40):
        ask(pool, "burn")
        pids.add(ask(pool, "pid"))
    assert len(pids) == 2


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (40, "signal 40")])
def test_a_worker_that_was_ended_while_idle_costs_no_call_and_is_logged(
    number: int,
    name: str,
    pool: ImageExecutor,
    ask: Ask,
    gone: Gone,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pid = int(ask(pool, "pid"))
    os.kill(pid, number)
    assert eventually(lambda: gone(pid))
    assert int(ask(pool, "pid")) != pid
    assert f"worker {pid} ended with {name}" in caplog.text


def test_a_kill_that_comes_after_the_answer_hits_no_other_call(
    pool: ImageExecutor, ask: Ask, gone: Gone, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung, gate, kill = threading.Event(), threading.Event(), Worker.kill

    def late_kill(worker: Worker) -> None:
        rung.set()
        gate.wait(60)
        kill(worker)

    ask(pool)
    monkeypatch.setattr(Worker, "kill", late_kill)
    with pool._acquired(0.5) as worker:
        assert rung.wait(60)
    # The alarm has rung, but the kill is still to come: nobody else may be given this worker.
    assert gone(worker.pid)
    gate.set()
    assert int(ask(pool, "pid")) != worker.pid


def test_workers_that_cannot_get_warm_are_our_own_fault(hostile: str) -> None:
    with ImageExecutor(1, tasks="imagehost_core.no_such_module") as pool:
        for call in (pool.status, pool.status):
            with pytest.raises(InternalError) as caught:
                call()
            assert "No module named 'imagehost_core.no_such_module'" in str(caught.value.__cause__)


def test_workers_that_cannot_be_started_are_trouble_of_the_moment(
    pool: ImageExecutor, ask: Ask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(UnavailableError, match="none can be started") as caught:
        ask(pool)
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert "a worker cannot be started" in caplog.text
    monkeypatch.undo()


def test_a_closed_pool_refuses_calls(pool: ImageExecutor, ask: Ask) -> None:
    ask(pool)
    pool.close()
    pool.close()
    pool.start()
    with pytest.raises(UnavailableError, match="one that is closed"):
        ask(pool)


def test_closing_ends_every_process_and_gives_every_descriptor_back(
    make_pool: MakePool, ask: Ask, eventually: Eventually
) -> None:
    files, processes = descriptors(), children()
    pool = make_pool(3, max_orders=2)
    pool.start()
    for act in ("pid", "crash", "pid", "leave", "pid", "fail", "pid", "refuse", "pid"):
        with suppress(ImageHostError, mishaps.WorkerFailure):
            ask(pool, act)
    busy = Caller(lambda: ask(pool, "sleep", deadline=600))
    assert eventually(lambda: pool.load.busy == 1)
    assert children() > processes
    pool.close()
    assert descriptors() == files
    assert children() == processes
    busy.join()


def test_closing_waits_until_the_callers_have_let_go_of_their_workers(
    pool: ImageExecutor, ask: Ask, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Worker.end

    def slow_end(worker: Worker, patience: float = 0) -> ExitInfo:
        time.sleep(0.3)
        return end(worker, patience)

    busy = Caller(lambda: ask(pool, "sleep", deadline=600))
    assert eventually(lambda: pool.load.busy == 1)
    monkeypatch.setattr(Worker, "end", slow_end)
    pool.close()
    assert pool.load == PoolLoad(0, 0, 0)
    busy.join()


def test_a_forgotten_pool_is_closed(hostile: str, ask: Ask, gone: Gone, eventually: Eventually) -> None:
    pool = ImageExecutor(1, tasks=hostile)
    pid = int(ask(pool, "pid"))
    del pool
    gc.collect()
    assert eventually(lambda: gone(pid))


@pytest.mark.parametrize(("size", "queue", "orders"), [(0, 1, 1), (1, -1, 1), (1, 1, 0)])
def test_a_pool_of_no_sense_is_refused(size: int, queue: int, orders: int) -> None:
    with pytest.raises(ValueError, match="expected at least 1"):
        ImageExecutor(size, queue=queue, max_orders=orders)
