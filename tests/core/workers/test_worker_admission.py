"""Tests of admission control: no job class starves another, by counts alone and with worker processes."""

from __future__ import annotations

import io
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import InternalError, UnavailableError
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.testing import make_image
from imagehost_core.transform import DEFAULT_QUALITY, Size, Transform, plan
from imagehost_core.workers import ImageExecutor, PoolLoad, classify, main
from imagehost_core.workers.admission import (
    RESERVED_CLASSES,
    JobClass,
    Slot,
    WorkerRequest,
    can_enqueue,
    find_slot,
    free_slots,
)
from imagehost_core.workers.estimates import (
    AVIF_QUALITY_FACTORS,
    classify_upload,
    estimate_ingest_seconds,
    estimate_seconds,
)
from imagehost_core.workers.main import AUTOGROUP, NICENESS
from imagehost_core.workers.task_call import TaskCall

LIGHT, HEAVY, UPLOAD = JobClass.LIGHT, JobClass.HEAVY, JobClass.UPLOAD
HEAVY_UPLOAD = JobClass.HEAVY_UPLOAD
HUGE = Size(10_000, 5_000)
JOB_CLASSES = st.sampled_from(JobClass)
SIZES = st.integers(1, 16)


def job(fmt: Format, width: int, source: Size = HUGE, *, animated: bool = False) -> RenderJob:
    quality = 80 if fmt not in (Format.PNG, Format.GIF) else None
    return RenderJob(plan(source, Transform(width)), fmt, quality, animated)


@st.composite
def taken_slots(draw: st.DrawFn, size: int) -> list[Slot]:
    """Return slots in use, as any sequence of tasks that start and end can leave them."""
    taken: list[Slot] = []
    for job_class, ends in draw(st.lists(st.tuples(JOB_CLASSES, st.booleans()), max_size=4 * size + 4)):
        slot = find_slot(job_class, taken, size)
        if slot is not None:
            taken.append(slot)
        if ends and taken:
            del taken[draw(st.integers(0, len(taken) - 1))]
    return taken


# The class of a task.


@pytest.mark.parametrize(
    ("fmt", "width", "source", "job_class"),
    [
        (Format.WEBP, 720, Size(1024, 768), LIGHT),
        (Format.AVIF, 1600, Size(2048, 1365), LIGHT),
        (Format.PNG, 200, Size(1920, 1080), LIGHT),
        (Format.JPEG, 200, HUGE, HEAVY),
        (Format.AVIF, 6_000, HUGE, HEAVY),
        (Format.AVIF, 4_000, Size(2048, 1024), HEAVY),
    ],
)
def test_thumbnails_are_light_and_renders_of_many_pixels_are_heavy(
    fmt: Format, width: int, source: Size, job_class: JobClass
) -> None:
    assert classify(job(fmt, width), source) is job_class


@given(st.sampled_from(Format), st.integers(1, 8_000), st.integers(1, 9_999), st.integers(1, 500))
def test_the_estimate_never_decreases_with_more_pixels_or_frames(
    fmt: Format, width: int, side: int, frames: int
) -> None:
    cost = estimate_seconds(job(fmt, width, animated=True), Size(side, side), frames)
    assert cost <= estimate_seconds(job(fmt, width, animated=True), Size(side + 1, side), frames)
    assert cost <= estimate_seconds(job(fmt, width + 1, animated=True), Size(side, side), frames)
    assert cost <= estimate_seconds(job(fmt, width, animated=True), Size(side, side), frames + 1)


@given(st.integers(0, 9), st.integers(1, 8_000))
def test_a_slower_avif_encoder_never_has_a_lower_estimate(speed: int, width: int) -> None:
    slow, fast = (evolve(job(Format.AVIF, width), avif_speed=each) for each in (speed, speed + 1))
    assert estimate_seconds(slow, HUGE) >= estimate_seconds(fast, HUGE)
    assert estimate_seconds(job(Format.AVIF, width), HUGE) == estimate_seconds(
        evolve(slow, avif_speed=9), HUGE
    )


@given(st.integers(1, 99), st.integers(1, 8_000))
def test_a_better_avif_never_has_a_lower_estimate(quality: int, width: int) -> None:
    low, high = (evolve(job(Format.AVIF, width), quality=each) for each in (quality, quality + 1))
    assert estimate_seconds(low, HUGE) <= estimate_seconds(high, HUGE)
    best, default = (evolve(job(Format.AVIF, 6_000), quality=each) for each in (100, 60))
    assert estimate_seconds(best, HUGE) > estimate_seconds(default, HUGE)
    assert AVIF_QUALITY_FACTORS[DEFAULT_QUALITY[Format.AVIF]] == 1.0


def test_a_slow_avif_encoder_makes_a_render_heavy() -> None:
    source, thumbnail = Size(2048, 1365), job(Format.AVIF, 800)
    assert classify(thumbnail, source) is LIGHT
    assert classify(evolve(thumbnail, avif_speed=4), source) is HEAVY


def test_the_estimate_of_a_still_image_from_an_animation_counts_one_frame() -> None:
    still = job(Format.WEBP, 200)
    assert estimate_seconds(still, Size(500, 500), 400) == estimate_seconds(still, Size(500, 500))


@pytest.mark.parametrize(
    ("size", "frames", "job_class"),
    [
        (Size(4_000, 3_000), 1, UPLOAD),
        (Size(6_000, 4_000), 1, UPLOAD),
        (Size(500, 400), 100, UPLOAD),
        (Size(9_000, 9_000), 1, HEAVY_UPLOAD),
        (Size(2_000, 2_000), 30, HEAVY_UPLOAD),
    ],
)
def test_photographs_are_light_uploads_and_screens_of_many_pixels_are_heavy(
    size: Size, frames: int, job_class: JobClass
) -> None:
    assert classify_upload(estimate_ingest_seconds(size, frames)) is job_class


# Slots and the queue.


@given(SIZES, st.data())
def test_taken_slots_never_exceed_the_size_by_more_than_two_and_heavy_ones_never_exceed_it(
    size: int, data: st.DataObject
) -> None:
    taken = data.draw(taken_slots(size))
    assert sum(slot.job_class in (HEAVY, HEAVY_UPLOAD) for slot in taken) <= size
    assert sum(not slot.reserved for slot in taken) <= size
    assert sorted(slot.job_class.value for slot in taken if slot.reserved) in (
        [],
        ["light"],
        ["light", "upload"],
        ["upload"],
    )


@given(SIZES, st.sampled_from(RESERVED_CLASSES), st.data())
def test_light_renders_and_uploads_can_start_whatever_other_tasks_are_running(
    size: int, job_class: JobClass, data: st.DataObject
) -> None:
    others = [slot for slot in data.draw(taken_slots(size)) if slot.job_class is not job_class]
    assert find_slot(job_class, others, size) is not None


@given(SIZES, JOB_CLASSES, st.data())
def test_the_first_in_the_queue_gets_the_next_shared_slot_whatever_is_in_the_others(
    size: int, job_class: JobClass, data: st.DataObject
) -> None:
    """So light renders and uploads cannot alternate in a way that starves heavy renders."""
    taken = data.draw(taken_slots(size))
    while sum(not slot.reserved for slot in taken) >= size:
        taken.remove(next(slot for slot in taken if not slot.reserved))
    assert find_slot(job_class, taken, size) == Slot(job_class)


@given(SIZES, st.integers(0, 100), st.sampled_from([{LIGHT}, {UPLOAD, HEAVY_UPLOAD}]), st.data())
def test_other_classes_cannot_fill_the_reserved_places_of_the_queue(
    size: int, queue: int, reserved: set[JobClass], data: st.DataObject
) -> None:
    taken = data.draw(taken_slots(size))
    queued = Counter[JobClass]()
    for job_class in data.draw(
        st.permutations([job_class for job_class in JobClass if job_class not in reserved])
    ):
        while can_enqueue(job_class, queued, taken, size, queue):
            queued[job_class] += 1
    # So that all further tasks must wait.
    taken += [Slot(job_class, reserved=True) for job_class in reserved.intersection(RESERVED_CLASSES)]
    for _ in range(queue // 4):
        job_class = data.draw(st.sampled_from(sorted(reserved, key=lambda each: each.value)))
        assert can_enqueue(job_class, queued, taken, size, queue)
        queued[job_class] += 1


@given(SIZES, st.integers(0, 100), st.data())
def test_heavy_renders_cannot_fill_more_than_half_of_the_queue(
    size: int, queue: int, data: st.DataObject
) -> None:
    taken = data.draw(taken_slots(size))
    queued = Counter[JobClass]()
    while can_enqueue(HEAVY, queued, taken, size, queue):
        queued[HEAVY] += 1
    assert queued[HEAVY] == queue - 2 * (queue // 4) + free_slots(HEAVY, taken, size)


@given(SIZES, st.integers(0, 100), st.data())
def test_the_queue_never_exceeds_its_limit(size: int, queue: int, data: st.DataObject) -> None:
    taken = data.draw(taken_slots(size))
    queued = Counter[JobClass]()
    for job_class in data.draw(st.lists(JOB_CLASSES, max_size=200)):
        if can_enqueue(job_class, queued, taken, size, queue):
            queued[job_class] += 1
    assert queued.total() <= queue + max(free_slots(HEAVY, taken, size), len(RESERVED_CLASSES))


@given(SIZES, JOB_CLASSES, st.data())
def test_a_task_that_can_start_at_once_needs_no_place_in_the_queue(
    size: int, job_class: JobClass, data: st.DataObject
) -> None:
    taken = data.draw(taken_slots(size))
    can = find_slot(job_class, taken, size) is not None
    assert can_enqueue(job_class, Counter[JobClass](), taken, size, 0) is can
    assert (free_slots(job_class, taken, size) > 0) is can


# With worker processes.


def run(executor: ImageExecutor, action: str, job_class: JobClass, deadline: float = 60) -> str:
    call = TaskCall("act", (action,), str, lambda _result: 1)
    request = WorkerRequest(time.monotonic() + deadline, job_class)
    return executor.run(call, io.BytesIO(), 0, deadline=deadline, receive=b"".join, request=request)[0]


class Sleepers:
    """Threads that keep worker processes busy until the executor is closed."""

    def __init__(self, executor: ImageExecutor, *job_classes: JobClass) -> None:
        self._threads = [
            threading.Thread(target=self._sleep, args=(executor, job_class)) for job_class in job_classes
        ]
        for thread in self._threads:
            thread.start()

    def _sleep(self, executor: ImageExecutor, job_class: JobClass) -> None:
        with pytest.raises(Exception):  # noqa: B017 - the executor is closed, or rejected the call
            run(executor, "sleep", job_class, deadline=600)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("size", [1, 2])
def test_light_renders_run_while_every_shared_slot_has_a_heavy_one(
    size: int, make_executor: Callable[..., ImageExecutor], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    executor = make_executor(size, queue=8)
    sleepers = Sleepers(executor, *(HEAVY,) * (size + 3))
    assert eventually(lambda: executor.load == PoolLoad(busy=size, idle=0, waiting=3))
    pids = {run(executor, "pid", LIGHT) for _ in range(3)}
    assert len(pids) == 1
    assert executor.load == PoolLoad(busy=size, idle=1, waiting=3)
    executor.close()
    sleepers.join()


def test_a_second_light_render_waits_for_the_first_in_the_reserved_slot(
    make_executor: Callable[..., ImageExecutor], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    executor = make_executor(1, queue=1)
    sleepers = Sleepers(executor, LIGHT, LIGHT)
    assert eventually(lambda: executor.load == PoolLoad(busy=1, idle=0, waiting=1))
    with pytest.raises(UnavailableError, match="expected at most 1 requests to wait"):
        run(executor, "pid", LIGHT)
    executor.close()
    sleepers.join()


def test_queued_heavy_renders_leave_places_for_light_ones(
    make_executor: Callable[..., ImageExecutor], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    executor = make_executor(1, queue=4)
    sleepers = Sleepers(executor, HEAVY, HEAVY, HEAVY)
    assert eventually(lambda: executor.load == PoolLoad(busy=1, idle=0, waiting=2))
    with pytest.raises(UnavailableError):
        run(executor, "pid", HEAVY)
    more = Sleepers(executor, LIGHT, LIGHT)
    assert eventually(lambda: executor.load == PoolLoad(busy=2, idle=0, waiting=3))
    executor.close()
    sleepers.join()
    more.join()


def test_an_upload_runs_although_slots_and_queue_are_full_of_renders(
    make_executor: Callable[..., ImageExecutor], eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    executor = make_executor(2, queue=8)
    heavy = Sleepers(executor, *(HEAVY,) * 6)
    assert eventually(lambda: executor.load == PoolLoad(busy=2, idle=0, waiting=4))
    light = Sleepers(executor, *(LIGHT,) * 3)
    assert eventually(lambda: executor.load == PoolLoad(busy=3, idle=0, waiting=6))
    for job_class in (HEAVY, LIGHT):
        with pytest.raises(UnavailableError):
            run(executor, "pid", job_class)
    pids = {run(executor, "pid", UPLOAD) for _ in range(3)}
    assert len(pids) == 1
    uploads = Sleepers(executor, UPLOAD, UPLOAD, UPLOAD)
    assert eventually(lambda: executor.load == PoolLoad(busy=4, idle=0, waiting=8))
    with pytest.raises(UnavailableError):
        run(executor, "pid", UPLOAD)
    executor.close()
    for sleepers in (heavy, light, uploads):
        sleepers.join()


class StalledFile(io.RawIOBase):
    """A file whose reads block until `ended` is set, and then find its end."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def read(self, _size: int = -1, /) -> bytes:
        self.ended.wait()
        return b""


@pytest.mark.parametrize("task", ["heavy render", "heavy upload"])
def test_a_light_upload_runs_beside_a_heavy_task_of_the_only_worker(
    task: str, eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    file, upload = StalledFile(), make_image(120, 90)

    def stall(executor: ImageExecutor) -> None:
        if task == "heavy render":
            with pytest.raises(InternalError):
                executor.render(job(Format.JPEG, 200), Format.PNG, file, 9, deadline=600)
        else:
            with pytest.raises(InternalError):
                executor.ingest(IngestJob(Format.PNG), file, 9, deadline=600, seconds=5.0)

    with ImageExecutor(1) as executor:
        rendering = threading.Thread(target=stall, args=(executor,))
        rendering.start()
        assert eventually(lambda: executor.load == PoolLoad(busy=1, idle=0, waiting=0))
        result, _ = executor.ingest(IngestJob(Format.PNG), io.BytesIO(upload), len(upload), deadline=60)
        assert result.size == Size(120, 90)
        assert executor.load == PoolLoad(busy=1, idle=1, waiting=0)
        file.ended.set()
        rendering.join()


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="only POSIX has priorities")
def test_worker_processes_have_a_lower_cpu_priority_than_the_server(
    make_executor: Callable[..., ImageExecutor],
) -> None:
    pid = int(run(make_executor(), "pid", LIGHT))
    server = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, server + NICENESS)


def test_the_scheduling_group_of_a_worker_process_has_a_lower_priority_too(
    make_executor: Callable[..., ImageExecutor],
) -> None:
    """With autogrouping, niceness applies only within a session, and each worker process has its own."""
    if not AUTOGROUP.exists():
        pytest.skip("NOT TESTED: this system has no autogrouping")
    pid = int(run(make_executor(), "pid", LIGHT))
    group = Path(f"/proc/{pid}/autogroup").read_text(encoding="ascii")
    assert group.split()[-1] == f"{NICENESS}"


@pytest.mark.parametrize(("failures", "written"), [(0, True), (2, True), (99, False)])
def test_lowering_the_priority_is_retried_for_a_while(
    monkeypatch: pytest.MonkeyPatch, failures: int, written: bool
) -> None:
    attempts, slept, texts = iter(range(failures)), list[float](), list[str]()

    class AutogroupFile:
        def write_text(self, text: str, **_: str) -> None:
            if next(attempts, None) is not None:
                raise BlockingIOError
            texts.append(text)

    monkeypatch.setattr(main, "AUTOGROUP", AutogroupFile())
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(os, "nice", lambda _: 0, raising=False)
    main.lower_priority()
    assert texts == [f"{NICENESS}"] * written
    assert len(slept) == min(failures, main.AUTOGROUP_ATTEMPTS)
    assert sum(slept) < 1


def test_in_a_long_queue_only_the_next_caller_is_woken(
    make_executor: Callable[..., ImageExecutor],
    eventually: Callable[[Callable[[], bool]], bool],
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
            executor.render(job(Format.JPEG, 200), Format.PNG, file, 9, deadline=600)

    threads = [threading.Thread(target=stall)]
    threads[0].start()
    assert eventually(lambda: executor.load.busy == 1)
    threads += [threading.Thread(target=run, args=(executor, "pid", HEAVY)) for _ in range(waiting)]
    for thread in threads[1:]:
        thread.start()
    assert eventually(lambda: executor.load.waiting == waiting)
    wakeups.clear()
    file.ended.set()
    for thread in threads:
        thread.join()
    assert len(wakeups) < 5 * waiting
