"""Tests of the queue of requests by a simulated pool, whose tasks take as long as estimated."""

from __future__ import annotations

from copy import deepcopy
from itertools import product

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.core.workers.simulated_pool import SimulatedPool

from imagehost_core.errors import UnavailableError
from imagehost_core.workers.admission import RESULT_WAITERS_PER_PLACE, JobClass, WorkerRequest
from imagehost_core.workers.estimates import Calibration
from imagehost_core.workers.queue import ADMISSION_MARGIN, RequestQueue

LIGHT, HEAVY, UPLOAD = JobClass.LIGHT, JobClass.HEAVY, JobClass.UPLOAD
JOB_CLASSES = st.sampled_from(JobClass)
SECONDS = st.integers(1, 40).map(lambda quarters: quarters / 4)
KEYS = st.sampled_from([None, None, "a", "b", "c"])
FLOWS = st.sampled_from("xyz")


class QueueMachine(RuleBasedStateMachine):
    """Requests in any order: the rules of the queue hold after each step."""

    @initialize(size=st.integers(1, 4), places=st.integers(0, 12))
    def open(self, size: int, places: int) -> None:
        self.pool, self.places = SimulatedPool(size, places), places
        self.submitted: list[WorkerRequest] = []

    @rule(job_class=JOB_CLASSES, key=KEYS, seconds=SECONDS, timeout=SECONDS, flow=FLOWS)
    def submit(self, job_class: JobClass, key: str | None, seconds: float, timeout: float, flow: str) -> None:
        request = WorkerRequest(self.pool.now + timeout, job_class, key, seconds, flow=flow)
        self.submitted.append(request)
        error = self.pool.submit(request)
        assert error is None or error.retry_after >= 1

    @rule(seconds=SECONDS)
    def advance(self, seconds: float) -> None:
        self.pool.advance(seconds)

    @rule(data=st.data(), shared=st.booleans())
    def fail(self, data: st.DataObject, shared: bool) -> None:
        if self.pool.running:
            running = st.sampled_from(list(self.pool.running))
            self.pool.end(data.draw(running), succeeded=False, shared=shared)
            self.pool.dispatch()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.pool.queue.waiting:
            request = data.draw(st.sampled_from(self.pool.queue.waiting))
            self.pool.queue.remove(request)
            self.pool.resolve(request, "cancelled")
            self.pool.dispatch()

    @invariant()
    def capacity_is_never_exceeded(self) -> None:
        classes = [request.job_class for request in self.pool.running]
        assert len(classes) <= self.pool.size + 2
        assert classes.count(HEAVY) <= self.pool.size
        assert len(self.pool.queue) <= self.places * (1 + RESULT_WAITERS_PER_PLACE) + self.pool.size + 2

    @invariant()
    def no_key_runs_twice_at_a_time(self) -> None:
        keys = [request.key for request in self.pool.running if request.key is not None]
        assert len(keys) == len(set(keys))

    @invariant()
    def every_request_waits_runs_or_is_resolved_once(self) -> None:
        places = [*self.pool.queue.waiting, *self.pool.running, *self.pool.outcomes]
        assert len(places) == len(set(places)) == len(self.submitted)

    @invariant()
    def no_request_waits_although_it_could_start_or_is_too_late(self) -> None:
        assert self.pool.queue.next() is None
        assert all(request.until > self.pool.now for request in self.pool.queue.waiting)

    @invariant()
    def requests_of_a_flow_in_a_class_start_in_order_of_arrival(self) -> None:
        for job_class, flow in product(JobClass, "xyz"):
            started = [
                each
                for each in self.pool.started
                if each.job_class is job_class and each.flow == flow and each.key is None
            ]
            assert started == [each for each in self.submitted if each in set(started)]

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            self.pool.advance(1_000)
            assert set(self.pool.outcomes) == set(self.submitted)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

REQUESTS = st.lists(st.tuples(JOB_CLASSES, KEYS, SECONDS, SECONDS, FLOWS, st.integers(0, 8)), max_size=30)


def submit_all(
    pool: SimulatedPool, requests: list[tuple[JobClass, str | None, float, float, str, int]]
) -> list[WorkerRequest]:
    """Submit requests; each rejected one must be admitted later, alone. Return the admitted ones."""
    admitted = list[WorkerRequest]()
    for job_class, key, seconds, timeout, flow, pause in requests:
        pool.advance(pause / 4)
        # The tasks of a result have one class.
        result = None if key is None else f"{job_class.value}-{key}"
        request = WorkerRequest(pool.now + timeout, job_class, result, seconds, flow=flow)
        error = pool.submit(request)
        if error is None:
            admitted.append(request)
            continue
        later = deepcopy(pool)
        later.results.clear()
        later.advance(error.retry_after)
        # A result that is available meanwhile needs no worker process.
        if result not in later.results:
            assert later.submit(evolve(request, until=later.now + timeout)) is None
    pool.advance(1_000)
    return admitted


@given(st.integers(1, 4), st.integers(0, 12), REQUESTS)
@settings(deadline=None)
def test_a_rejected_request_is_admitted_after_its_retry_after(
    size: int, places: int, requests: list[tuple[JobClass, str | None, float, float, str, int]]
) -> None:
    submit_all(SimulatedPool(size, places), requests)


@given(st.integers(1, 4), st.integers(0, 12), JOB_CLASSES, REQUESTS)
@settings(deadline=None)
def test_admitted_requests_end_in_time_unless_later_ones_of_other_flows_or_classes_delay_them(
    size: int,
    places: int,
    job_class: JobClass,
    requests: list[tuple[JobClass, str | None, float, float, str, int]],
) -> None:
    pool = SimulatedPool(size, places)
    admitted = submit_all(pool, [(job_class, *request[1:4], "x", request[5]) for request in requests])
    assert {pool.outcomes[request] for request in admitted} <= {"ended", "result"}


def test_a_request_that_would_end_after_its_deadline_is_rejected_at_once() -> None:
    pool = SimulatedPool(1, 64)
    for _ in range(4):
        assert pool.submit(WorkerRequest(22.5, HEAVY, None, 5.0)) is None
    error = pool.submit(WorkerRequest(22.5, HEAVY, None, 5.0))
    assert error is not None
    assert error.retry_after == 5
    pool.advance(4.75)
    assert pool.submit(WorkerRequest(26.5, HEAVY, None, 5.0)) is not None
    pool.advance(0.25)
    assert pool.submit(WorkerRequest(27.5, HEAVY, None, 5.0)) is None


@given(SECONDS, SECONDS)
def test_a_request_that_waits_may_take_a_tenth_longer_than_expected(timeout: float, seconds: float) -> None:
    pool, admitted = SimulatedPool(1, 1_000), 0
    while pool.submit(WorkerRequest(timeout, HEAVY, None, seconds)) is None:
        admitted += 1
    assert admitted == 1 or admitted * seconds * ADMISSION_MARGIN <= timeout
    assert (admitted + 1) * seconds * ADMISSION_MARGIN > timeout


def test_a_rejection_by_a_full_queue_tells_when_a_place_will_be_free() -> None:
    pool = SimulatedPool(1, 1)
    for _ in range(2):
        assert pool.submit(WorkerRequest(90.0, HEAVY, None, 3.0)) is None
    error = pool.submit(WorkerRequest(90.0, HEAVY, None, 3.0))
    assert error is not None
    assert error.retry_after == 3
    pool.advance(3.0)
    assert pool.submit(WorkerRequest(90.0, HEAVY, None, 3.0)) is None


def test_a_request_that_need_not_wait_is_admitted_whatever_its_estimate() -> None:
    pool = SimulatedPool(1, 64)
    assert pool.submit(WorkerRequest(20.0, HEAVY, None, 90.0)) is None
    error = pool.submit(WorkerRequest(20.0, HEAVY, None, 90.0))
    assert error is not None
    assert error.retry_after == 90


def test_a_request_that_can_start_before_others_in_the_queue_need_not_end_in_time() -> None:
    pool = SimulatedPool(1, 64)
    for _ in range(2):
        assert pool.submit(WorkerRequest(20.0, LIGHT, None, 1.0)) is None
    assert pool.submit(WorkerRequest(20.0, UPLOAD, None, 90.0)) is None
    assert len(pool.running) == 2


def test_a_request_for_a_result_waits_as_long_as_the_task_that_creates_it() -> None:
    pool = SimulatedPool(1, 64)
    assert pool.submit(WorkerRequest(20.0, HEAVY, "a", 15.0)) is None
    assert pool.submit(WorkerRequest(15.0, HEAVY, "a", 15.0)) is None
    error = pool.submit(WorkerRequest(10.0, HEAVY, "a", 15.0))
    assert error is not None
    assert error.retry_after == 15


def test_a_request_for_a_result_waits_for_the_request_before_it_in_its_flow_even_if_it_took_less() -> None:
    pool = SimulatedPool(2, 64)
    for _ in range(2):
        assert pool.submit(WorkerRequest(20.0, HEAVY, None, 1.0)) is None
    assert pool.submit(WorkerRequest(20.0, HEAVY, "a", 5.0)) is None
    error = pool.submit(WorkerRequest(3.0, HEAVY, "a", 1.0))
    assert error is not None
    assert error.retry_after == 6
    # Without a task so far, another flow comes first, and creates the result itself.
    assert pool.submit(WorkerRequest(3.0, HEAVY, "a", 1.0, flow="y")) is None
    pool.advance(2.0)
    assert set(pool.outcomes.values()) == {"rejected", "ended", "result"}


def test_requests_for_the_same_result_need_no_places_in_the_queue() -> None:
    pool, places = SimulatedPool(1, 4), 4
    requests = [WorkerRequest(20.0, LIGHT, "a", 1.0) for _ in range(1 + RESULT_WAITERS_PER_PLACE * places)]
    assert not any(map(pool.submit, requests))
    assert pool.submit(evolve(requests[0])) is not None
    assert pool.submit(WorkerRequest(20.0, LIGHT, "b", 1.0)) is None
    pool.advance(1.0)
    assert [pool.outcomes[each] for each in requests] == ["ended", *["result"] * (len(requests) - 1)]


def test_a_task_that_takes_longer_than_estimated_delays_those_behind_it() -> None:
    queue = RequestQueue(1, 64)
    first = WorkerRequest(20.0, HEAVY, None, 1.0)
    queue.add(first, 0.0)
    queue.start(first, 0.0)
    queue.add(WorkerRequest(14.0, HEAVY, None, 1.0), 10.0)
    with pytest.raises(UnavailableError):
        queue.add(WorkerRequest(14.0, HEAVY, None, 1.0), 10.0)


def test_a_request_that_has_waited_too_long_is_rejected_instead_of_started() -> None:
    queue = RequestQueue(1, 64)
    first, second = (WorkerRequest(10.0, HEAVY, None, 4.0) for _ in range(2))
    queue.add(first, 0.0)
    queue.start(first, 0.0)
    queue.add(second, 0.0)
    queue.end(first, 7.0, measured=True)
    assert queue.next() is second
    with pytest.raises(UnavailableError) as caught:
        queue.start(second, 7.0)
    assert caught.value.retry_after == 1
    assert len(queue) == 0


def test_requests_that_a_slow_task_shows_to_be_too_late_are_rejected_at_once() -> None:
    queue = RequestQueue(1, 64)
    first, *others = (WorkerRequest(10.0, HEAVY, None, 1.0) for _ in range(6))
    queue.add(first, 0.0)
    queue.start(first, 0.0)
    for request in others:
        queue.add(request, 0.0)
    queue.end(first, 1.0, measured=True)
    assert queue.remove_late(1.0) == []
    queue.start(others[0], 1.0)
    queue.end(others[0], 6.0, measured=True)
    rejected = queue.remove_late(6.0)
    assert [request for request, _ in rejected] == others[2:]
    assert all(error.retry_after >= 1 for _, error in rejected)
    assert queue.waiting == (others[1],)


def test_the_speed_of_the_machine_rejects_what_it_shows_to_be_too_late_at_once() -> None:
    queue = RequestQueue(1, 64)
    requests = [WorkerRequest(20.0, HEAVY, seconds=4.0) for _ in range(4)]
    for request in requests:
        queue.add(request, 0.0)
    queue.start(requests[0], 0.0)
    queue.calibrate(2.0)
    rejected = queue.remove_late(0.0)
    # The running task is still expected to end after 4 s, and each of the others takes 8.
    assert [request for request, _ in rejected] == requests[3:]
    with pytest.raises(UnavailableError) as caught:
        queue.add(WorkerRequest(20.0, HEAVY, seconds=4.0), 0.0)
    assert caught.value.retry_after == 10


@given(JOB_CLASSES, SECONDS, SECONDS, st.floats(0.25, 10))
def test_measured_tasks_do_not_depend_on_the_speed_of_the_machine_for_long(
    job_class: JobClass, estimated: float, measured: float, factor: float
) -> None:
    calibration, request = Calibration(), WorkerRequest(0.0, job_class, None, estimated, "avif")
    calibration.factor = factor
    assert calibration.seconds(request) == pytest.approx(factor * estimated)
    for _ in range(40):
        calibration.record(request, measured)
    assert calibration.seconds(request) == pytest.approx(measured, rel=0.01)


@given(JOB_CLASSES, SECONDS, SECONDS)
def test_estimates_approach_the_measured_durations(
    job_class: JobClass, estimated: float, measured: float
) -> None:
    calibration, request = Calibration(), WorkerRequest(0.0, job_class, None, estimated, "avif")
    assert calibration.seconds(request) == estimated
    for _ in range(40):
        calibration.record(request, measured)
    assert calibration.seconds(request) == pytest.approx(measured, rel=0.01)
    other = evolve(request, kind="webp")
    assert calibration.seconds(other) == estimated
