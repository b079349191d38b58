"""Fair queueing: no account or client gets more than its share of the workers, or keeps others waiting."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.workers.simulated_pool import SimulatedPool

from imagehost_core.workers.admission import JobClass, WorkerRequest
from imagehost_core.workers.fair_queueing import MIN_PRUNED, VirtualClock

LIGHT, HEAVY, UPLOAD = JobClass.LIGHT, JobClass.HEAVY, JobClass.UPLOAD
HEAVY_UPLOAD = JobClass.HEAVY_UPLOAD
SIZES = st.integers(1, 4)
SECONDS = st.integers(1, 40).map(lambda quarters: quarters / 4)
BACKLOGS = st.dictionaries(st.sampled_from("wxyz"), st.lists(SECONDS, min_size=1, max_size=8), min_size=1)
LATER = 10_000.0


def request(
    flow: str, seconds: float = 1.0, job_class: JobClass = HEAVY, key: str | None = None
) -> WorkerRequest:
    return WorkerRequest(LATER, job_class, key, seconds, flow=flow)


def submit(pool: SimulatedPool, *requests: WorkerRequest) -> None:
    for each in requests:
        assert pool.submit(each) is None


def flows(pool: SimulatedPool) -> str:
    """Return the flows of the tasks that have started, in this order."""
    return "".join(each.flow for each in pool.started)


def test_flows_take_turns_however_many_requests_each_has() -> None:
    pool = SimulatedPool(1, 64)
    submit(pool, *(request("x") for _ in range(8)), *(request("y") for _ in range(3)), request("z"))
    pool.advance(12.0)
    assert flows(pool) == "xyzxyxyxxxxx"


def test_shares_are_weighted_by_the_expected_cost() -> None:
    pool = SimulatedPool(1, 64)
    submit(pool, *(request("x", 4.0) for _ in range(4)), *(request("y", 1.0) for _ in range(16)))
    pool.advance(20.0)
    served = Counter(flows(pool))
    assert 3 <= served["y"] / served["x"] <= 5


@settings(deadline=None)
@given(SIZES, BACKLOGS)
def test_of_two_flows_with_waiting_requests_neither_gets_more_than_the_other_by_more_than_a_task_each(
    size: int, backlogs: dict[str, list[float]]
) -> None:
    pool = SimulatedPool(size, 100)
    # So that no request of a flow starts before those of the others have arrived.
    submit(pool, *(request("first", 1.0) for _ in range(size)))
    submit(pool, *(request(flow, each) for flow, costs in backlogs.items() for each in costs))
    pool.advance(LATER)
    served, count = dict.fromkeys(backlogs, 0.0), Counter[str]()
    for started in pool.started[size:]:
        served[started.flow] += started.seconds
        count[started.flow] += 1
        waiting = [flow for flow, costs in backlogs.items() if count[flow] < len(costs)]
        for one in waiting:
            for other in waiting:
                assert served[one] - served[other] <= max(backlogs[one]) + max(backlogs[other])


@settings(deadline=None)
@given(SIZES, BACKLOGS, SECONDS, SECONDS)
def test_a_request_of_another_flow_waits_for_less_than_two_tasks_of_each_flow_before_it(
    size: int, backlogs: dict[str, list[float]], delay: float, seconds: float
) -> None:
    pool = SimulatedPool(size, 100)
    submit(pool, *(request(flow, each) for flow, costs in backlogs.items() for each in costs))
    pool.advance(delay)
    earlier, newcomer = len(pool.started), request("newcomer", seconds)
    submit(pool, newcomer)
    pool.advance(LATER / 2)
    before = Counter(each.flow for each in pool.started[earlier : pool.started.index(newcomer)])
    longest = max(max(costs) for costs in backlogs.values())
    for flow in before:
        served = sum(
            each.seconds for each in pool.started[earlier : pool.started.index(newcomer)] if each.flow == flow
        )
        assert served <= max(backlogs[flow]) + longest


@settings(deadline=None)
@given(st.lists(SECONDS, min_size=1, max_size=12), SECONDS)
def test_a_request_waits_for_no_further_task_of_a_single_other_flow(
    backlog: list[float], delay: float
) -> None:
    pool = SimulatedPool(1, 64)
    submit(pool, *(request("x", each) for each in backlog))
    pool.advance(delay)
    earlier, newcomer = len(pool.started), request("newcomer")
    submit(pool, newcomer)
    pool.advance(LATER / 2)
    assert pool.started[earlier] is newcomer


@settings(deadline=None, max_examples=25)
@given(st.integers(4, 12), st.lists(st.integers(1, 10), min_size=40, max_size=60))
def test_newcomers_without_end_do_not_starve_a_flow(places: int, newcomers: list[int]) -> None:
    pool = SimulatedPool(1, places)
    second = request("x", 2.0)
    submit(pool, request("x", 2.0), second)
    for number, seconds in enumerate(newcomers):
        pool.submit(request(f"newcomer {number}", seconds))
        pool.advance(seconds * 0.9)
    assert second in pool.started


def test_a_flow_that_was_idle_has_saved_up_nothing() -> None:
    pool = SimulatedPool(1, 64)
    submit(pool, *(request("x") for _ in range(20)))
    pool.advance(10.0)
    submit(pool, *(request("y") for _ in range(6)))
    pool.advance(12.0)
    assert flows(pool)[11:21] in ("yxyxyxyxyx", "yyxyxyxyxy")


def test_a_task_that_takes_longer_than_estimated_costs_its_flow_the_difference() -> None:
    pool = SimulatedPool(1, 64)
    slow, *others = (request("x") for _ in range(3))
    submit(pool, slow, *others, *(request("y") for _ in range(6)))
    pool.running[slow] = 4.0
    pool.advance(4.0)
    pool.queue._calibration._measured.clear()  # Other estimates stay.
    pool.queue._calibration._estimated.clear()
    pool.advance(7.0)
    assert flows(pool).startswith("xyyyy")


def test_uploads_do_not_keep_large_renders_waiting() -> None:
    pool = SimulatedPool(1, 64)
    renders = [request("y", 1.0, HEAVY) for _ in range(2)]
    submit(pool, *(request("x", 1.0, UPLOAD) for _ in range(8)), *renders)
    pool.advance(3.0)
    assert [pool.outcomes.get(each) for each in renders] == ["ended", None]
    pool.advance(1.0)
    assert pool.outcomes[renders[1]] == "ended"


@settings(deadline=None)
@given(
    SIZES,
    st.lists(st.tuples(st.sampled_from([HEAVY_UPLOAD, HEAVY, LIGHT]), SECONDS), max_size=30),
    SECONDS,
    SECONDS,
)
def test_a_light_upload_waits_for_no_task_of_other_classes(
    size: int, others: list[tuple[JobClass, float]], delay: float, seconds: float
) -> None:
    pool = SimulatedPool(size, 100)
    submit(pool, *(request("x", each, job_class) for job_class, each in others))
    pool.advance(delay)
    upload = request("y", seconds, UPLOAD)
    submit(pool, upload)
    assert upload in pool.running


@settings(deadline=None, max_examples=25)
@given(SIZES, BACKLOGS, st.integers(1, 6), st.integers(1, 6), st.integers(1, 8))
def test_light_uploads_of_an_account_wait_for_one_light_task_at_most_beside_the_uploads_of_another(
    size: int, backlogs: dict[str, list[float]], light: int, files: int, quarters: int
) -> None:
    pool, longest = SimulatedPool(size, 500), quarters / 4
    for each in chain.from_iterable(backlogs.values()):
        submit(pool, request("x", each, HEAVY_UPLOAD), *(request("x", longest, UPLOAD) for _ in range(light)))
    for _ in range(files):
        upload = request("y", 0.25, UPLOAD)
        submit(pool, upload)
        pool.advance(longest + 0.25)
        assert pool.outcomes.get(upload) == "ended"


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("job_class", [UPLOAD, HEAVY_UPLOAD])
def test_uploads_of_a_single_account_use_all_workers(size: int, job_class: JobClass) -> None:
    pool = SimulatedPool(size, 64)
    submit(pool, *(request("x", 1.0, job_class) for _ in range(12)))
    assert len(pool.running) == size


def test_a_full_queue_replaces_the_last_request_of_the_longest_flow() -> None:
    pool = SimulatedPool(1, 8)
    attack = [request("x", 1.0, UPLOAD) for _ in range(7)]
    submit(pool, *attack)
    assert pool.submit(request("x", 1.0, UPLOAD)) is not None
    others = [request("y", 1.0, UPLOAD) for _ in range(3)]
    submit(pool, *others)
    assert [pool.outcomes.get(each) for each in attack[-3:]] == ["replaced"] * 3
    assert pool.submit(request("y", 1.0, UPLOAD)) is not None
    submit(pool, request("z", 1.0, UPLOAD))
    pool.advance(LATER / 2)
    assert {pool.outcomes[each] for each in (*attack[:3], *others[:2])} == {"ended"}


def test_a_result_is_created_when_the_first_flow_that_waits_for_it_has_its_turn() -> None:
    pool = SimulatedPool(1, 64)
    behind = request("x", key="variant")
    submit(pool, *(request("x") for _ in range(8)), behind)
    own = request("y", key="variant")
    submit(pool, own)
    pool.advance(2.0)
    assert (pool.outcomes[own], pool.outcomes[behind]) == ("ended", "result")


def test_flows_that_have_had_their_share_are_forgotten() -> None:
    clock = VirtualClock()
    for number in range(100 * MIN_PRUNED):
        clock.start(number, clock.now, 1.0, 1)
        clock.prune(())
    assert len(clock._finish) <= 2 * MIN_PRUNED
