"""Who gets a worker next: no kind of work starves another, by counts alone and with real workers."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import InternalError, UnavailableError
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.testing import make_image
from imagehost_core.transform import Transform
from imagehost_core.transform.geometry import Size, plan
from imagehost_core.workers import ImageExecutor, PoolLoad, classify, main
from imagehost_core.workers.admission import (
    RESERVED_CLASSES,
    JobClass,
    QueueCounts,
    Slot,
    can_enqueue,
    estimate_seconds,
    find_slot,
    free_slots,
)
from imagehost_core.workers.executor import TaskCall
from imagehost_core.workers.main import AUTOGROUP, NICENESS
from imagehost_core.workers.pool import ProcessPool, _Waiter

LIGHT, HEAVY, UPLOAD = JobClass.LIGHT, JobClass.HEAVY, JobClass.UPLOAD
HUGE = Size(10_000, 5_000)
WEIGHTS = st.sampled_from(JobClass)
SIZES = st.integers(1, 16)


def job(fmt: Format, width: int, source: Size = HUGE, *, animated: bool = False) -> RenderJob:
    quality = 80 if fmt not in (Format.PNG, Format.GIF) else None
    return RenderJob(plan(source, Transform(width)), fmt, quality, animated)


@st.composite
def busy_desks(draw: st.DrawFn, size: int) -> list[Slot]:
    """What a crew can be doing: any way to get there by the rule itself, orders beginning and ending."""
    taken: list[Slot] = []
    for weight, ends in draw(st.lists(st.tuples(WEIGHTS, st.booleans()), max_size=4 * size + 4)):
        desk = find_slot(weight, taken, size)
        if desk is not None:
            taken.append(desk)
        if ends and taken:
            del taken[draw(st.integers(0, len(taken) - 1))]
    return taken


def longer(line: QueueCounts, weight: JobClass) -> QueueCounts:
    return attrs.evolve(line, **{weight.value: line.of(weight) + 1})


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
    fmt: Format, width: int, source: Size, weight: JobClass
) -> None:
    assert classify(job(fmt, width), source) is weight


@given(st.sampled_from(Format), st.integers(1, 8_000), st.integers(1, 9_999), st.integers(1, 500))
def test_more_pixels_and_more_frames_never_cost_less(fmt: Format, width: int, side: int, frames: int) -> None:
    cost = estimate_seconds(job(fmt, width, animated=True), Size(side, side), frames)
    assert cost <= estimate_seconds(job(fmt, width, animated=True), Size(side + 1, side), frames)
    assert cost <= estimate_seconds(job(fmt, width + 1, animated=True), Size(side, side), frames)
    assert cost <= estimate_seconds(job(fmt, width, animated=True), Size(side, side), frames + 1)


def test_a_still_picture_of_an_animation_costs_one_frame() -> None:
    still = job(Format.WEBP, 200)
    assert estimate_seconds(still, Size(500, 500), 400) == estimate_seconds(still, Size(500, 500))


# Who may begin, and who may wait.


@given(SIZES, st.data())
def test_a_crew_is_never_more_than_two_above_its_size_and_heavy_work_never_above_it(
    size: int, data: st.DataObject
) -> None:
    taken = data.draw(busy_desks(size))
    assert sum(desk.job_class is HEAVY for desk in taken) <= size
    assert sum(not desk.reserved for desk in taken) <= size
    assert sorted(desk.job_class.value for desk in taken if desk.reserved) in (
        [],
        ["light"],
        ["light", "upload"],
        ["upload"],
    )


@given(SIZES, st.sampled_from(RESERVED_CLASSES), st.data())
def test_light_work_and_uploads_can_begin_whatever_other_work_there_is(
    size: int, weight: JobClass, data: st.DataObject
) -> None:
    others = [desk for desk in data.draw(busy_desks(size)) if desk.job_class is not weight]
    assert find_slot(weight, others, size) is not None


@given(SIZES, WEIGHTS, st.data())
def test_who_comes_first_gets_the_next_shared_desk_whatever_is_done_at_the_others(
    size: int, weight: JobClass, data: st.DataObject
) -> None:
    """So light work and uploads cannot take turns in which heavy work never comes."""
    taken = data.draw(busy_desks(size))
    while sum(not desk.reserved for desk in taken) >= size:
        taken.remove(next(desk for desk in taken if not desk.reserved))
    assert find_slot(weight, taken, size) == Slot(weight)


@given(SIZES, st.integers(0, 100), st.sampled_from(RESERVED_CLASSES), st.data())
def test_nothing_else_can_fill_the_places_that_are_kept_in_the_queue(
    size: int, queue: int, kept: JobClass, data: st.DataObject
) -> None:
    taken = data.draw(busy_desks(size))
    line = QueueCounts()
    for weight in data.draw(st.permutations([weight for weight in JobClass if weight is not kept])):
        while can_enqueue(weight, line, taken, size, queue):
            line = longer(line, weight)
    for _ in range(queue // 4):
        assert can_enqueue(kept, line, [*taken, *_own(kept)], size, queue)
        line = longer(line, kept)


def _own(weight: JobClass) -> list[Slot]:
    """Return what takes the desk of a kind, so that all of it has to wait."""
    return [Slot(weight, reserved=True)]


@given(SIZES, st.integers(0, 100), st.data())
def test_heavy_work_cannot_fill_more_than_half_of_the_queue(
    size: int, queue: int, data: st.DataObject
) -> None:
    taken = data.draw(busy_desks(size))
    line = QueueCounts()
    while can_enqueue(HEAVY, line, taken, size, queue):
        line = longer(line, HEAVY)
    assert line.heavy == queue - 2 * (queue // 4) + free_slots(HEAVY, taken, size)


@given(SIZES, st.integers(0, 100), st.data())
def test_the_queue_is_bounded_and_never_longer_than_it_is_set(
    size: int, queue: int, data: st.DataObject
) -> None:
    taken = data.draw(busy_desks(size))
    line = QueueCounts()
    for weight in data.draw(st.lists(WEIGHTS, max_size=200)):
        if can_enqueue(weight, line, taken, size, queue):
            line = longer(line, weight)
    assert line.all <= queue + max(free_slots(HEAVY, taken, size), len(RESERVED_CLASSES))


@given(SIZES, WEIGHTS, st.data())
def test_who_can_begin_at_once_needs_no_place_in_the_queue(
    size: int, weight: JobClass, data: st.DataObject
) -> None:
    taken = data.draw(busy_desks(size))
    can = find_slot(weight, taken, size) is not None
    assert can_enqueue(weight, QueueCounts(), taken, size, 0) is can
    assert (free_slots(weight, taken, size) > 0) is can


# With real workers.


def run(pool: ImageExecutor, act: str, weight: JobClass, deadline: float = 60) -> str:
    call = TaskCall("act", (act,), str, lambda _said: 1)
    return pool.run(call, io.BytesIO(), 0, deadline=deadline, receive=b"".join, weight=weight)[0]


class Sleepers:
    """Threads that keep workers busy until the pool is closed."""

    def __init__(self, pool: ImageExecutor, *weights: JobClass) -> None:
        self._threads = [threading.Thread(target=self._sleep, args=(pool, weight)) for weight in weights]
        for thread in self._threads:
            thread.start()

    def _sleep(self, pool: ImageExecutor, weight: JobClass) -> None:
        with pytest.raises(Exception):  # noqa: B017 - it ends with the pool, or was refused
            run(pool, "sleep", weight, deadline=600)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("size", [1, 2])
def test_light_work_is_done_while_every_worker_is_at_heavy_work(
    size: int, make_pool: Callable[..., ImageExecutor], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    pool = make_pool(size, queue=8)
    sleepers = Sleepers(pool, *(HEAVY,) * (size + 3))
    assert eventually(lambda: pool.load == PoolLoad(busy=size, idle=0, waiting=3))
    pids = {run(pool, "pid", LIGHT) for _ in range(3)}
    assert len(pids) == 1
    assert pool.load == PoolLoad(busy=size, idle=1, waiting=3)
    pool.close()
    sleepers.join()


def test_light_work_waits_for_light_work_and_no_process_is_added_for_it(
    make_pool: Callable[..., ImageExecutor], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    pool = make_pool(1, queue=1)
    sleepers = Sleepers(pool, LIGHT, LIGHT)
    assert eventually(lambda: pool.load == PoolLoad(busy=1, idle=0, waiting=1))
    with pytest.raises(UnavailableError, match="expected at most 1 requests to wait"):
        run(pool, "pid", LIGHT)
    pool.close()
    sleepers.join()


def test_heavy_work_that_waits_leaves_places_for_light_work(
    make_pool: Callable[..., ImageExecutor], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    pool = make_pool(1, queue=4)
    sleepers = Sleepers(pool, HEAVY, HEAVY, HEAVY)
    assert eventually(lambda: pool.load == PoolLoad(busy=1, idle=0, waiting=2))
    with pytest.raises(UnavailableError):
        run(pool, "pid", HEAVY)
    more = Sleepers(pool, LIGHT, LIGHT)
    assert eventually(lambda: pool.load == PoolLoad(busy=2, idle=0, waiting=3))
    pool.close()
    sleepers.join()
    more.join()


def test_an_upload_is_done_though_the_desks_and_the_queue_are_full_of_renders(
    make_pool: Callable[..., ImageExecutor], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    pool = make_pool(2, queue=8)
    heavy = Sleepers(pool, *(HEAVY,) * 6)
    assert eventually(lambda: pool.load == PoolLoad(busy=2, idle=0, waiting=4))
    light = Sleepers(pool, *(LIGHT,) * 3)
    assert eventually(lambda: pool.load == PoolLoad(busy=3, idle=0, waiting=6))
    for weight in (HEAVY, LIGHT):
        with pytest.raises(UnavailableError):
            run(pool, "pid", weight)
    pids = {run(pool, "pid", UPLOAD) for _ in range(3)}
    assert len(pids) == 1
    uploads = Sleepers(pool, UPLOAD, UPLOAD, UPLOAD)
    assert eventually(lambda: pool.load == PoolLoad(busy=4, idle=0, waiting=8))
    with pytest.raises(UnavailableError):
        run(pool, "pid", UPLOAD)
    pool.close()
    for sleepers in (heavy, light, uploads):
        sleepers.join()


class Stalled(io.RawIOBase):
    """A file that nothing can be read of for a while, and then nothing more."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def read(self, _size: int = -1, /) -> bytes:
        self.ended.wait()
        return b""


def test_what_somebody_uploads_goes_to_the_pool_as_an_upload(
    eventually: Callable[[Callable[[], bool]], bool],
) -> None:
    file, upload = Stalled(), make_image(120, 90)

    def render(pool: ImageExecutor) -> None:
        with pytest.raises(InternalError):
            pool.render(job(Format.JPEG, 200), Format.PNG, file, 9, deadline=600)

    with ImageExecutor(1) as pool:
        rendering = threading.Thread(target=render, args=(pool,))
        rendering.start()
        assert eventually(lambda: pool.load == PoolLoad(busy=1, idle=0, waiting=0))
        made, _ = pool.ingest(IngestJob(Format.PNG), io.BytesIO(upload), len(upload), deadline=60)
        assert made.size == Size(120, 90)
        assert pool.load == PoolLoad(busy=1, idle=1, waiting=0)
        file.ended.set()
        rendering.join()


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="only POSIX knows priorities")
def test_whoever_answers_requests_goes_before_the_workers(make_pool: Callable[..., ImageExecutor]) -> None:
    pid = int(run(make_pool(), "pid", LIGHT))
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, ours + NICENESS)


def test_among_sessions_a_worker_gives_way_too(make_pool: Callable[..., ImageExecutor]) -> None:
    """Linux may count niceness among the processes of a session alone, and a worker has one of its own."""
    if not AUTOGROUP.exists():
        pytest.skip("NOT TESTED: this system does not group processes by session")
    pid = int(run(make_pool(), "pid", LIGHT))
    group = Path(f"/proc/{pid}/autogroup").read_text(encoding="ascii")
    assert group.split()[-1] == f"{NICENESS}"


@pytest.mark.parametrize(("failures", "written"), [(0, True), (2, True), (99, False)])
def test_who_may_not_say_so_at_once_tries_again_for_a_while(
    monkeypatch: pytest.MonkeyPatch, failures: int, written: bool
) -> None:
    tries, slept, said = iter(range(failures)), list[float](), list[str]()

    class Group:
        def write_text(self, text: str, **_: str) -> None:
            if next(tries, None) is not None:
                raise BlockingIOError
            said.append(text)

    monkeypatch.setattr(main, "AUTOGROUP", Group())
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(os, "nice", lambda _: 0, raising=False)
    main.lower_priority()
    assert said == [f"{NICENESS}"] * written
    assert len(slept) == min(failures, main.AUTOGROUP_TRIES)
    assert sum(slept) < 1


def test_of_a_long_line_only_those_are_called_whose_turn_it_is(
    make_pool: Callable[..., ImageExecutor],
    eventually: Callable[[Callable[[], bool]], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, waiting, looks = make_pool(queue=200), 60, list[None]()
    next_ = ProcessPool._next

    def counted(crew: ProcessPool) -> _Waiter | None:
        looks.append(None)
        return next_(crew)

    with pool._pool.acquire(time.monotonic() + 60):
        threads = [threading.Thread(target=run, args=(pool, "pid", HEAVY)) for _ in range(waiting)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: pool.load.waiting == waiting)
        monkeypatch.setattr(ProcessPool, "_next", counted)
    for thread in threads:
        thread.join()
    assert len(looks) < 5 * waiting
