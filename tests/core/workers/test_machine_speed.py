"""The measurement of the machine's speed when a pool starts."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from imagehost_core.errors import UnavailableError
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.workers import machine_speed
from imagehost_core.workers.admission import WorkerRequest
from imagehost_core.workers.executor import TASKS
from imagehost_core.workers.lending import PoolLoad
from imagehost_core.workers.machine_speed import MAX_FACTOR, MIN_FACTOR, measure_machine
from imagehost_core.workers.pool import ProcessPool
from imagehost_core.workers.process import WorkerSpec

Eventually = Callable[[Callable[[], bool]], bool]
TIMEOUT = 60.0


def open_pool(tasks: str) -> ProcessPool:
    spec = WorkerSpec(tasks, SandboxLimits())
    return ProcessPool(spec, size=1, queue=64, max_tasks_per_worker=99, max_worker_bytes=2**40)


def test_a_worker_process_measures_the_machine_and_is_kept() -> None:
    pool = open_pool(TASKS)
    try:
        factor = measure_machine(pool)
        assert factor is not None
        assert MIN_FACTOR <= factor <= MAX_FACTOR
        assert pool.load == PoolLoad(0, 1, 0)
    finally:
        pool.close()


def test_a_fast_machine_lowers_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too low estimates admit requests that are then rejected late."""
    monkeypatch.setattr(machine_speed, "REFERENCE_SECONDS", 1e9)
    pool = open_pool(TASKS)
    try:
        assert measure_machine(pool) == 1.0
    finally:
        pool.close()


def test_a_pool_that_starts_slowly_rejects_its_first_burst_by_the_measured_speed(
    hostile_tasks: str, eventually: Eventually
) -> None:
    """The benchmark of the hostile tasks claims a machine that is 8 times as slow."""
    pool = open_pool(hostile_tasks)
    try:
        pool.start()
        assert eventually(lambda: pool.load == PoolLoad(0, 1, 0))
        until = time.monotonic() + TIMEOUT
        # With the built-in estimate 8 s in all, with the measured speed 64 s.
        first, *others = [pool.submit(WorkerRequest(until, seconds=2.0)) for _ in range(4)]
        worker = first.result(TIMEOUT)
        assert worker is not None
        with pytest.raises(UnavailableError, match="too many tasks are queued before") as caught:
            others[-1].result(0)
        assert caught.value.retry_after >= 2
        assert [other.done() for other in others] == [False, False, True]
        pool.release(worker)
        for other in others[:2]:
            next_worker = other.result(TIMEOUT)
            assert next_worker is not None
            pool.release(next_worker)
    finally:
        pool.close()


def test_a_task_table_without_the_benchmark_or_a_closed_pool_measures_nothing() -> None:
    pool = open_pool("tests.core.workers.no_tasks")
    try:
        assert measure_machine(pool) is None
    finally:
        pool.close()
    assert measure_machine(pool) is None
