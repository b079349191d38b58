"""The memory of image work: what it is by the headers, and which tasks run at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imagehost_core.formats import Format
from imagehost_core.transform import Size
from imagehost_core.workers.costs import LIGHT_MEMORY_BYTES, ingest_cost
from imagehost_core.workers.lanes import Lane
from imagehost_core.workers.memory import MachineLock, MemoryBudget, MemorySettings

MIB = 2**20
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4_000 * MIB), st.booleans()), max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pools=st.integers(1, 4), total=st.integers(0, 6_000 * MIB), steps=STEPS)
def test_the_tasks_of_all_processes_never_need_more_than_the_total(
    tmp_path: Path, pools: int, total: int, steps: list[tuple[int, int, bool]]
) -> None:
    limits = MemorySettings(max(1, total), pools, tmp_path)
    budgets = [MemoryBudget(limits) for _ in range(pools)]
    running: list[tuple[MemoryBudget, int]] = []
    try:
        for number, need, ends in steps:
            budget = budgets[number % pools]
            if ends and running:
                ended, released = running.pop(number % len(running))
                ended.release(released)
            elif need <= limits.max_task_bytes and budget.acquire(need):
                running.append((budget, need))
            assert sum(memory for _, memory in running) <= limits.max_task_bytes
    finally:
        for budget in budgets:
            budget.close()


def test_a_task_above_the_share_of_its_process_waits_for_the_others_and_nothing_starts_meanwhile(
    tmp_path: Path,
) -> None:
    limits = MemorySettings(4 * LIGHT_MEMORY_BYTES, 2, tmp_path)
    one, other = MemoryBudget(limits), MemoryBudget(limits)
    small, large = limits.share_bytes, limits.max_task_bytes
    assert one.acquire(small)
    assert not other.acquire(large)
    assert other.is_waiting
    one.release(small)
    assert not one.acquire(small), "the large one is first"
    assert one.is_waiting
    assert other.acquire(large)
    assert not one.acquire(small)
    other.release(large)
    assert one.acquire(small)
    for budget in (one, other):
        budget.close()


def test_a_process_with_large_tasks_one_after_the_other_takes_turns_with_others(tmp_path: Path) -> None:
    limits = MemorySettings(4 * LIGHT_MEMORY_BYTES, 2, tmp_path)
    one, other = MemoryBudget(limits), MemoryBudget(limits)
    large = limits.max_task_bytes
    for need in (large, 1):
        assert one.acquire(large)
        assert not other.acquire(need)
        one.release(large)
        assert not one.acquire(large), "the other is next"
        assert one.is_waiting
        assert other.acquire(need)
        assert not one.acquire(large), "it is next, and waits"
        other.release(need)
    assert one.acquire(large)
    one.release(large)
    assert other.acquire(large)
    assert not one.acquire(1)
    one.give_way()
    other.release(large)
    assert other.acquire(large), "the other has given up"
    for budget in (one, other):
        budget.close()


def test_a_large_task_that_is_given_up_lets_the_others_go_on(tmp_path: Path) -> None:
    limits = MemorySettings(4 * LIGHT_MEMORY_BYTES, 2, tmp_path)
    one, other = MemoryBudget(limits), MemoryBudget(limits)
    assert one.acquire(1)
    assert not other.acquire(limits.max_task_bytes)
    assert not one.acquire(1)
    other.give_way()
    assert one.acquire(1)
    for budget in (one, other):
        budget.close()


def test_a_process_that_has_ended_holds_no_memory(tmp_path: Path) -> None:
    lock = MachineLock(tmp_path)
    assert lock.acquire_alone()
    lock.close()
    other = MachineLock(tmp_path)
    assert other.acquire_shared()
    other.close()


@pytest.mark.parametrize(
    ("fmt", "size", "frames", "lane"),
    [
        (Format.JPEG, Size(2_400, 1_600), 1, Lane.LIGHT),
        (Format.JPEG, Size(4_000, 3_000), 1, Lane.HEAVY),
        (Format.GIF, Size(300, 200), 40, Lane.LIGHT),
        (Format.GIF, Size(300, 200), 400, Lane.HEAVY),
        (Format.WEBP, Size(9_000, 9_000), 1, Lane.HEAVY),
    ],
)
def test_the_lane_follows_from_the_pixels_of_the_headers(
    fmt: Format, size: Size, frames: int, lane: Lane
) -> None:
    assert ingest_cost(fmt, size, frames=frames, has_alpha=False).lane is lane


@given(
    fmt=st.sampled_from([Format.JPEG, Format.PNG, Format.WEBP, Format.GIF]),
    width=st.integers(1, 10_000),
    height=st.integers(1, 10_000),
    frames=st.integers(1, 100),
    length=st.integers(0, 50 * MIB),
)
def test_no_light_task_needs_more_than_is_kept_for_light_ones(
    fmt: Format, width: int, height: int, frames: int, length: int
) -> None:
    cost = ingest_cost(fmt, Size(width, height), frames=frames, length=length)
    assert cost.lane is Lane.HEAVY or cost.memory_bytes <= LIGHT_MEMORY_BYTES
