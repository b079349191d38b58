"""Who gets a worker next: no kind of work starves another, by counts alone and with real workers."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import UnavailableError
from imagehost_core.formats import Format
from imagehost_core.geometry import Size, plan
from imagehost_core.jobs import RenderJob
from imagehost_core.transform import Transform
from imagehost_core.workers import Load, WorkerPool, weigh
from imagehost_core.workers.admission import Counts, Weight, expected_seconds, may_wait, most_busy
from imagehost_core.workers.main import NICENESS
from imagehost_core.workers.pool import Call

LIGHT, HEAVY = Weight.LIGHT, Weight.HEAVY
HUGE = Size(10_000, 5_000)
WEIGHTS = st.sampled_from(Weight)
SIZES = st.integers(1, 16)


def job(fmt: Format, width: int, source: Size = HUGE, *, animated: bool = False) -> RenderJob:
    quality = 80 if fmt not in (Format.PNG, Format.GIF) else None
    return RenderJob(plan(source, Transform(width)), fmt, quality, animated)


@st.composite
def busy_counts(draw: st.DrawFn, size: int) -> Counts:
    """What a crew can be doing: any way to get there by the rule itself."""
    busy = Counts()
    for weight in draw(st.lists(WEIGHTS, max_size=2 * size)):
        if busy.all < most_busy(weight, busy, size):
            busy = Counts(busy.light + (weight is LIGHT), busy.heavy + (weight is HEAVY))
    return busy


# What an order is expected to cost.


@pytest.mark.parametrize(
    ("fmt", "width", "source", "weight"),
    [
        (Format.WEBP, 720, Size(1024, 768), LIGHT),
        (Format.AVIF, 1600, Size(2048, 1365), LIGHT),
        (Format.PNG, 200, Size(1920, 1080), LIGHT),
        (Format.JPEG, 200, HUGE, HEAVY),
        (Format.AVIF, 6_000, HUGE, HEAVY),
        (Format.AVIF, 4_000, Size(2048, 1024), HEAVY),
    ],
)
def test_thumbnails_are_light_and_whatever_takes_many_pixels_is_heavy(
    fmt: Format, width: int, source: Size, weight: Weight
) -> None:
    assert weigh(job(fmt, width), source) is weight


@given(st.sampled_from(Format), st.integers(1, 8_000), st.integers(1, 9_999), st.integers(1, 500))
def test_more_pixels_and_more_frames_never_cost_less(fmt: Format, width: int, side: int, frames: int) -> None:
    cost = expected_seconds(job(fmt, width, animated=True), Size(side, side), frames)
    assert cost <= expected_seconds(job(fmt, width, animated=True), Size(side + 1, side), frames)
    assert cost <= expected_seconds(job(fmt, width + 1, animated=True), Size(side, side), frames)
    assert cost <= expected_seconds(job(fmt, width, animated=True), Size(side, side), frames + 1)


def test_a_still_picture_of_an_animation_costs_one_frame() -> None:
    still = job(Format.WEBP, 200)
    assert expected_seconds(still, Size(500, 500), 400) == expected_seconds(still, Size(500, 500))


# Who may begin, and who may wait.


@given(SIZES, st.data())
def test_a_crew_is_never_more_than_one_above_its_size_and_heavy_work_never_above_it(
    size: int, data: st.DataObject
) -> None:
    busy = data.draw(busy_counts(size))
    assert busy.heavy <= size
    assert busy.all <= size + (busy.heavy >= size)


@given(SIZES, st.data())
def test_light_work_can_begin_whatever_heavy_work_there_is(size: int, data: st.DataObject) -> None:
    heavy = data.draw(st.integers(0, size))
    busy = Counts(light=0, heavy=heavy)
    assert busy.all < most_busy(LIGHT, busy, size)


@given(SIZES, st.integers(0, 100), st.data())
def test_heavy_work_cannot_fill_the_queue(size: int, queue: int, data: st.DataObject) -> None:
    busy = data.draw(busy_counts(size))
    line = Counts()
    while may_wait(HEAVY, line, busy, size, queue):
        line = Counts(heavy=line.heavy + 1)
    kept = queue // 4
    for _ in range(kept):
        assert may_wait(LIGHT, line, busy, size, queue)
        line = Counts(line.light + 1, line.heavy)


@given(SIZES, st.integers(0, 100), WEIGHTS, st.data())
def test_the_queue_is_bounded_and_never_longer_than_it_is_set(
    size: int, queue: int, weight: Weight, data: st.DataObject
) -> None:
    busy = data.draw(busy_counts(size))
    line = Counts()
    while may_wait(weight, line, busy, size, queue):
        line = Counts(line.light + (weight is LIGHT), line.heavy + (weight is HEAVY))
        assert line.all <= queue + size + 1
    waiting = line.all - max(0, most_busy(weight, busy, size) - busy.all)
    assert waiting <= queue


@given(SIZES, WEIGHTS, st.data())
def test_who_can_begin_at_once_needs_no_place_in_the_queue(
    size: int, weight: Weight, data: st.DataObject
) -> None:
    busy = data.draw(busy_counts(size))
    assert may_wait(weight, Counts(), busy, size, 0) is (busy.all < most_busy(weight, busy, size))


# With real workers.


def run(pool: WorkerPool, act: str, weight: Weight, deadline: float = 60) -> str:
    call = Call("act", (act,), str, lambda _said: 1)
    return pool.run(call, io.BytesIO(), 0, deadline=deadline, receive=b"".join, weight=weight)[0]


class Sleepers:
    """Threads that keep workers busy until the pool is closed."""

    def __init__(self, pool: WorkerPool, *weights: Weight) -> None:
        self._threads = [threading.Thread(target=self._sleep, args=(pool, weight)) for weight in weights]
        for thread in self._threads:
            thread.start()

    def _sleep(self, pool: WorkerPool, weight: Weight) -> None:
        with pytest.raises(Exception):  # noqa: B017 - it ends with the pool, or was refused
            run(pool, "sleep", weight, deadline=600)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("size", [1, 2])
def test_light_work_is_done_while_every_worker_is_at_heavy_work(
    size: int, make_pool: Callable[..., WorkerPool], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    pool = make_pool(size, queue=8)
    sleepers = Sleepers(pool, *(HEAVY,) * (size + 3))
    assert eventually(lambda: pool.load == Load(busy=size, idle=0, waiting=3))
    pids = {run(pool, "pid", LIGHT) for _ in range(3)}
    assert len(pids) == 1
    assert pool.load == Load(busy=size, idle=1, waiting=3)
    pool.close()
    sleepers.join()


def test_light_work_waits_for_light_work_and_no_process_is_added_for_it(
    make_pool: Callable[..., WorkerPool], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    pool = make_pool(1, queue=1)
    sleepers = Sleepers(pool, LIGHT, LIGHT)
    assert eventually(lambda: pool.load == Load(busy=1, idle=0, waiting=1))
    with pytest.raises(UnavailableError, match="expected at most 1 requests to wait"):
        run(pool, "pid", LIGHT)
    pool.close()
    sleepers.join()


def test_heavy_work_that_waits_leaves_places_for_light_work(
    make_pool: Callable[..., WorkerPool], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    pool = make_pool(1, queue=4)
    sleepers = Sleepers(pool, HEAVY, HEAVY, HEAVY, HEAVY)
    assert eventually(lambda: pool.load.waiting == 3)
    with pytest.raises(UnavailableError):
        run(pool, "pid", HEAVY)
    more = Sleepers(pool, LIGHT, LIGHT)
    assert eventually(lambda: pool.load == Load(busy=2, idle=0, waiting=4))
    pool.close()
    sleepers.join()
    more.join()


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="only POSIX knows priorities")
def test_whoever_answers_requests_goes_before_the_workers(make_pool: Callable[..., WorkerPool]) -> None:
    pid = int(run(make_pool(), "pid", LIGHT))
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, ours + NICENESS)
