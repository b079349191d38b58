"""Tests of requests for worker processes: futures, keys, deadlines and cancellation."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest
from tests.waiting import PATIENCE, wait_until

from imagehost_core.errors import UnavailableError
from imagehost_core.observer import PoolLoad
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.workers.lanes import WorkerRequest
from imagehost_core.workers.pool import ProcessPool
from imagehost_core.workers.process import Worker, WorkerSpec


@contextmanager
def open_pool(
    hostile_tasks: str, size: int, queue: int = 8, idle_seconds: float = 60.0
) -> Iterator[ProcessPool]:
    pool = ProcessPool(
        WorkerSpec(hostile_tasks, SandboxLimits()),
        size=size,
        queue=queue,
        max_tasks_per_worker=99,
        max_worker_bytes=2**40,
        idle_seconds=idle_seconds,
    )
    try:
        yield pool
    finally:
        pool.close()


@pytest.fixture
def pool(hostile_tasks: str) -> Iterator[ProcessPool]:
    with open_pool(hostile_tasks, 2) as opened:
        yield opened


def request(key: str | None = None, seconds: float = PATIENCE) -> WorkerRequest:
    return WorkerRequest(time.monotonic() + seconds, key=key)


def granted(future: Future[Worker | None]) -> Worker:
    worker = future.result(PATIENCE)
    assert worker is not None
    return worker


def test_a_request_waits_as_a_future_until_a_worker_process_is_released(hostile_tasks: str) -> None:
    with open_pool(hostile_tasks, 1) as pool:
        worker = granted(pool.submit(request()))
        second = pool.submit(request())
        assert pool.load == PoolLoad(busy=1, idle=0, waiting=1)
        pool.release(worker)
        assert granted(second) is worker
        pool.release(worker)
        wait_until(lambda: pool.load == PoolLoad(busy=0, idle=1, waiting=0))


def test_of_requests_with_the_same_key_one_runs_and_the_others_get_no_worker(pool: ProcessPool) -> None:
    worker = granted(pool.submit(request("variant")))
    others = [pool.submit(request("variant")) for _ in range(3)]
    different = granted(pool.submit(request("other")))
    assert pool.load == PoolLoad(busy=2, idle=0, waiting=3)
    pool.release(worker)
    assert not any(other.done() for other in others), "the result is not available yet"
    pool.complete("variant", succeeded=True)
    assert [other.result(PATIENCE) for other in others] == [None, None, None]
    pool.release(different)


def test_after_a_failure_the_next_request_with_the_same_key_runs(pool: ProcessPool) -> None:
    worker = granted(pool.submit(request("variant")))
    second, third = pool.submit(request("variant")), pool.submit(request("variant"))
    pool.release(worker)
    pool.complete("variant", succeeded=False)
    assert granted(second) is worker
    assert not third.done()
    pool.release(worker)
    pool.complete("variant", succeeded=True)
    assert third.result(PATIENCE) is None
    assert granted(pool.submit(request("variant"))) is worker
    pool.release(worker)


def test_a_request_that_waits_for_its_key_does_not_delay_later_ones(pool: ProcessPool) -> None:
    first = granted(pool.submit(request("variant")))
    waiting = pool.submit(request("variant"))
    second = granted(pool.submit(request("other")))
    assert second is not first
    assert not waiting.done()
    pool.release(first)
    pool.release(second)


def test_a_request_is_rejected_at_its_deadline(hostile_tasks: str) -> None:
    with open_pool(hostile_tasks, 1) as pool:
        worker = granted(pool.submit(request("variant")))
        begin = time.monotonic()
        for key in ("variant", None):
            with pytest.raises(UnavailableError, match="all were busy"):
                pool.submit(request(key, seconds=0.6)).result(PATIENCE)
        assert 1.2 <= time.monotonic() - begin < PATIENCE / 2
        assert pool.load.waiting == 0
        pool.release(worker)


def test_a_cancelled_request_leaves_the_queue(hostile_tasks: str) -> None:
    with open_pool(hostile_tasks, 1, queue=4) as pool:
        worker = granted(pool.submit(request()))
        cancelled, waiting = pool.submit(request()), pool.submit(request())
        assert cancelled.cancel()
        assert pool.load.waiting == 1
        pool.release(worker)
        assert granted(waiting) is worker
        pool.release(worker)


@pytest.mark.parametrize("key", [None, "variant"])
def test_an_abandoned_request_gives_its_worker_process_and_key_back(
    hostile_tasks: str, key: str | None
) -> None:
    with open_pool(hostile_tasks, 1) as pool:
        abandoned = request(key)
        future = pool.submit(abandoned)
        granted(future)
        waiting = pool.submit(request(key))
        pool.abandon(abandoned, future)
        pool.release(granted(waiting))


def test_requests_in_the_queue_are_rejected_when_the_pool_closes(hostile_tasks: str) -> None:
    with open_pool(hostile_tasks, 1) as pool:
        worker = granted(pool.submit(request()))
        waiting = pool.submit(request())
        waiting.add_done_callback(lambda _: pool.release(worker))
        pool.close()
        for rejected in (waiting, pool.submit(request())):
            with pytest.raises(UnavailableError, match="one that is closed"):
                rejected.result(PATIENCE)


def test_worker_processes_that_are_idle_for_long_are_ended_but_the_last_one(hostile_tasks: str) -> None:
    with open_pool(hostile_tasks, 3, idle_seconds=0.01) as pool:
        workers = [granted(future) for future in [pool.submit(request()) for _ in range(3)]]
        assert pool.load == PoolLoad(3, 0, 0)
        for worker in workers:
            worker.ready()
            pool.release(worker)
        wait_until(lambda: pool.load.idle <= 1)
        # Later than any timer of the pool, on the thread that ends processes.
        passed = threading.Event()
        pool.watchdog.call_at(time.monotonic() + 50 * pool.idle_seconds, passed.set)
        wait_until(passed.is_set)
        assert pool.load == PoolLoad(0, 1, 0)
        with pool.acquire(request()) as worker:
            assert worker in workers
