"""Tests of the lanes with worker processes: light tasks do not wait for heavy ones."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.core.workers.image_uploads import heavy, ingest
from tests.waiting import wait_until

from imagehost_core._util.machine import has_cpu_group
from imagehost_core.errors import InternalError, UnavailableError
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.observer import PoolLoad
from imagehost_core.testing import make_image
from imagehost_core.transform import Size, Transform, plan
from imagehost_core.workers.costs import Cost
from imagehost_core.workers.executor import ImageExecutor, TaskCall
from imagehost_core.workers.lanes import Lane

LIGHT, HEAVY = Lane.LIGHT, Lane.HEAVY
JOB = RenderJob(plan(Size(10_000, 5_000), Transform(200)), Format.JPEG, 80)


def run(executor: ImageExecutor, action: str, lane: Lane, timeout_seconds: float = 60) -> str:
    call = TaskCall("act", (action,), str, lambda _result: 1)
    return executor.run(call, io.BytesIO(), 0, Cost(lane, 0).request(timeout_seconds), receive=b"".join)[0]


class Sleepers:
    """Threads that keep worker processes busy until the executor is closed."""

    def __init__(self, executor: ImageExecutor, *lanes: Lane) -> None:
        self._threads = [threading.Thread(target=self._sleep, args=(executor, lane)) for lane in lanes]
        for thread in self._threads:
            thread.start()

    def _sleep(self, executor: ImageExecutor, lane: Lane) -> None:
        with pytest.raises(Exception):  # noqa: B017 - the executor is closed, or rejected the call
            run(executor, "sleep", lane, timeout_seconds=600)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("size", [1, 2])
def test_light_tasks_run_in_a_process_of_their_own_while_all_others_are_busy(
    size: int, make_executor: Callable[..., ImageExecutor]
) -> None:
    executor = make_executor(size, queue=8)
    sleepers = Sleepers(executor, *(HEAVY,) * (size + 3))
    wait_until(lambda: executor.load == PoolLoad(busy=size, idle=0, waiting=3))
    pids = {run(executor, "pid", LIGHT) for _ in range(3)}
    assert len(pids) == 1
    assert executor.load == PoolLoad(busy=size, idle=1, waiting=3)
    executor.close()
    sleepers.join()


def test_heavy_tasks_never_run_in_the_process_of_light_ones(
    make_executor: Callable[..., ImageExecutor],
) -> None:
    executor = make_executor(1, queue=8)
    sleepers = Sleepers(executor, HEAVY)
    wait_until(lambda: executor.load.busy == 1)
    run(executor, "pid", LIGHT)
    more = Sleepers(executor, HEAVY)
    wait_until(lambda: executor.load.waiting == 1)
    assert executor.load == PoolLoad(busy=1, idle=1, waiting=1)
    executor.close()
    sleepers.join()
    more.join()


def test_light_tasks_alone_use_all_processes(make_executor: Callable[..., ImageExecutor]) -> None:
    executor = make_executor(2, queue=8)
    sleepers = Sleepers(executor, LIGHT, LIGHT, LIGHT, LIGHT)
    wait_until(lambda: executor.load == PoolLoad(busy=3, idle=0, waiting=1))
    executor.close()
    sleepers.join()


def test_a_full_lane_leaves_the_other_one_free(make_executor: Callable[..., ImageExecutor]) -> None:
    executor = make_executor(1, queue=1)
    sleepers = Sleepers(executor, HEAVY, HEAVY)
    wait_until(lambda: executor.load == PoolLoad(busy=1, idle=0, waiting=1))
    with pytest.raises(UnavailableError, match="expected at most 1 requests to wait"):
        run(executor, "pid", HEAVY)
    assert run(executor, "pid", LIGHT)
    executor.close()
    sleepers.join()


class StalledFile(io.RawIOBase):
    """A file whose reads block until `ended` is set, and then find its end."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def read(self, _size: int = -1, /) -> bytes:
        self.ended.wait()
        return b""


@pytest.mark.parametrize("task", ["heavy render", "heavy upload"])
def test_a_light_upload_runs_beside_a_heavy_task_of_the_only_worker(task: str, tmp_path: Path) -> None:
    file, upload = StalledFile(), make_image(120, 90)

    def stall(executor: ImageExecutor) -> None:
        if task == "heavy render":
            with pytest.raises(InternalError):
                executor.render(JOB, Format.PNG, file, 9, heavy(600))
        else:
            with pytest.raises(InternalError):
                executor.ingest(IngestJob(Format.PNG), file, 9, heavy(600), into=tmp_path)

    with ImageExecutor(1) as executor:
        rendering = threading.Thread(target=stall, args=(executor,))
        rendering.start()
        wait_until(lambda: executor.load == PoolLoad(busy=1, idle=0, waiting=0))
        result, _ = ingest(executor, IngestJob(Format.PNG), upload, Cost(LIGHT, 0).request(60))
        assert result.size == Size(120, 90)
        assert executor.load == PoolLoad(busy=1, idle=1, waiting=0)
        file.ended.set()
        rendering.join()


@pytest.fixture
def pids(make_executor: Callable[..., ImageExecutor]) -> Iterator[dict[Lane, int]]:
    """The process IDs of a busy worker process for all tasks, and of one for light ones."""
    executor = make_executor()
    heavy = int(run(executor, "pid", HEAVY))
    sleepers = Sleepers(executor, HEAVY)
    wait_until(lambda: executor.load.busy == 1)
    yield {HEAVY: heavy, LIGHT: int(run(executor, "pid", LIGHT))}
    executor.close()
    sleepers.join()


@pytest.mark.skipif(sys.platform == "win32", reason="only POSIX has priorities")
def test_only_the_process_of_light_tasks_has_the_cpu_priority_of_the_server(pids: dict[Lane, int]) -> None:
    server = os.getpriority(os.PRIO_PROCESS, 0)
    priorities = {lane: os.getpriority(os.PRIO_PROCESS, pid) for lane, pid in pids.items()}
    lower = min(19, server + 10) if has_cpu_group() else server
    assert priorities == {HEAVY: lower, LIGHT: server}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sessions of processes")
def test_the_scheduler_counts_worker_processes_as_the_server_beside_other_programs(
    pids: dict[Lane, int],
) -> None:
    """A session of its own gets the niceness of its scheduling group, beside every other session."""
    assert {os.getsid(pid) for pid in pids.values()} == {os.getsid(0)}
    groups = {Path(f"/proc/{pid}/autogroup") for pid in (*pids.values(), os.getpid())}
    assert len({group.read_text(encoding="ascii") for group in groups if group.exists()}) <= 1


def test_in_a_long_queue_only_the_next_caller_is_woken(
    make_executor: Callable[..., ImageExecutor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wakeups = list[None]()

    class CountingCondition(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            result = super().wait(timeout)
            wakeups.append(None)
            return result

    monkeypatch.setattr(threading, "Condition", CountingCondition)
    executor, file, waiting = make_executor(queue=200), StalledFile(), 60

    def stall() -> None:
        with pytest.raises(InternalError):
            executor.render(JOB, Format.PNG, file, 9, heavy(600))

    threads = [threading.Thread(target=stall)]
    threads[0].start()
    wait_until(lambda: executor.load.busy == 1)
    threads += [threading.Thread(target=run, args=(executor, "pid", HEAVY)) for _ in range(waiting)]
    for thread in threads[1:]:
        thread.start()
    wait_until(lambda: executor.load.waiting == waiting)
    wakeups.clear()
    file.ended.set()
    for thread in threads:
        thread.join()
    assert len(wakeups) < 5 * waiting
