"""Tests of the queue's lanes: turns, places, deadlines and shared results, without processes."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import UnavailableError
from imagehost_core.workers.lanes import INITIAL_SECONDS, Lane, Lanes, WorkerRequest

FOREVER = 10**9
FLOWS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=40)


def request(flow: str = "", key: str | None = None, until: float = FOREVER) -> WorkerRequest:
    return WorkerRequest(until, Lane.HEAVY, key, flow)


def add_all(lanes: Lanes, *requests: WorkerRequest) -> None:
    for each in requests:
        lanes.add(each, 0.0, 0)


def run_all(lanes: Lanes) -> list[WorkerRequest]:
    """Start all requests, and complete their keys at once; return them in order."""
    started = []
    while (following := lanes.next(Lane.HEAVY)) is not None:
        lanes.start(following)
        started.append(following)
        if following.key is not None:
            lanes.complete(following.key, shared=True)
    return started


@given(FLOWS)
def test_flows_take_turns_however_many_requests_each_has(flows: list[str]) -> None:
    lanes = Lanes(10**6, 1)
    add_all(lanes, *(request(flow) for flow in flows))
    order = [each.flow for each in run_all(lanes)]
    assert Counter(order) == Counter(flows)
    for rounds in range(1, max(Counter(flows).values()) + 1):
        # After the n-th turn of a flow, every other one has had n, unless it has no more, give or take one.
        for end in (index for index, flow in enumerate(order) if order[: index + 1].count(flow) == rounds):
            for flow, total in Counter(flows).items():
                assert order[: end + 1].count(flow) >= min(total, rounds - 1)


@given(FLOWS)
def test_requests_of_a_flow_start_in_the_order_of_their_arrival(flows: list[str]) -> None:
    lanes = Lanes(10**6, 1)
    requests = [request(flow) for flow in flows]
    add_all(lanes, *requests)
    order = run_all(lanes)
    for flow in set(flows):
        assert [each for each in order if each.flow == flow] == [
            each for each in requests if each.flow == flow
        ]


@given(turns=st.integers(2, 20))
def test_between_two_turns_of_a_flow_each_that_waited_has_one_and_newcomers_have_none(
    turns: int,
) -> None:
    lanes, others = Lanes(10**6, 1), ["0"]
    add_all(lanes, *(request("patient") for _ in range(turns)), request("0"))
    expected = list[str]()
    for number in itertools.count(1):
        following = lanes.next(Lane.HEAVY)
        assert following is not None
        lanes.start(following)
        if following.flow == "patient":
            assert not expected
            expected, turns = others[:], turns - 1
            if not turns:
                return
        else:
            assert following.flow == expected.pop(0) == others.pop(0)
        others.append(str(number))
        lanes.add(request(str(number)), 0.0, 0)


@given(places=st.integers(1, 40), flows=st.lists(st.sampled_from("abcd"), max_size=120))
def test_a_flow_never_has_more_requests_than_others_leave_free_and_the_lane_no_more_than_its_places(
    places: int, flows: list[str]
) -> None:
    lanes, own = Lanes(places, 1), Counter[str]()
    for flow in flows:
        free = places - own.total()
        if own[flow] < free:
            lanes.add(request(flow), 0.0, 0)
            own[flow] += 1
        else:
            with pytest.raises(UnavailableError, match=f"expected at most {places} requests to") as caught:
                lanes.add(request(flow), 0.0, 0)
            assert caught.value.retry_after >= 1
    assert lanes.count(Lane.HEAVY) == own.total() <= places


@given(places=st.integers(2, 40), flows=st.integers(1, 39))
def test_a_flow_that_comes_last_finds_a_place_while_there_are_fewer_flows_than_places(
    places: int, flows: int
) -> None:
    lanes = Lanes(places, 1)
    for flow in range(min(flows, places - 1)):
        for _ in range(places if not flow else 1):
            try:
                lanes.add(request(str(flow)), 0.0, 0)
            except UnavailableError:
                break
    if lanes.count(Lane.HEAVY) < places:
        lanes.add(request("last"), 0.0, 0)


def test_a_request_for_which_a_worker_is_free_needs_no_place() -> None:
    lanes = Lanes(0, 1)
    lanes.add(request(), 0.0, 1)
    with pytest.raises(UnavailableError, match="expected at most 0 requests to wait"):
        lanes.add(request(), 0.0, 1)


@given(waiting=st.integers(0, 30), workers=st.integers(1, 8), timeout=st.floats(0.1, 60))
def test_a_request_is_rejected_at_once_if_its_turn_would_come_after_its_deadline(
    waiting: int, workers: int, timeout: float
) -> None:
    lanes = Lanes(10**6, workers)
    add_all(lanes, *(request() for _ in range(waiting)))
    turn = (waiting + 1) * INITIAL_SECONDS[1] / workers
    if turn <= timeout:
        lanes.add(request(until=timeout), 0.0, 0)
        return
    with pytest.raises(UnavailableError) as caught:
        lanes.add(request(until=timeout), 0.0, 0)
    flows = (1 if waiting else 0) * INITIAL_SECONDS[1] / workers
    assert caught.value.retry_after == max(1, math.ceil(max(turn - timeout, flows)))


def test_only_the_turns_of_other_flows_delay_a_request_and_not_all_their_requests() -> None:
    lanes = Lanes(1_000, 1)
    add_all(lanes, *(request("busy") for _ in range(100)))
    lanes.add(request("other", until=3.0), 0.0, 0)
    with pytest.raises(UnavailableError, match="too many tasks wait before"):
        lanes.add(request("busy", until=3.0), 0.0, 0)


@given(st.lists(st.floats(0.01, 30), min_size=1, max_size=50))
def test_the_mean_is_within_the_range_of_the_measured_durations(seconds: list[float]) -> None:
    lanes = Lanes(64, 1)
    for each in seconds:
        lanes.record(Lane.HEAVY, each)
    add_all(lanes, request("a"))
    retry_after = lanes.retry_after(request("b"))
    assert math.floor(min(*seconds, INITIAL_SECONDS[1])) <= retry_after
    assert retry_after <= math.ceil(max(*seconds, INITIAL_SECONDS[1]))


def test_a_result_is_made_once_when_the_first_flow_that_waits_for_it_has_its_turn() -> None:
    lanes = Lanes(1_000, 1)
    add_all(lanes, request("busy"), request("busy"), request("busy", "variant"), request("other", "variant"))
    assert [(each.flow, each.key) for each in run_all(lanes)] == [
        ("busy", None),
        ("other", "variant"),
        ("busy", None),
    ]


def test_requests_for_a_result_that_is_waited_for_or_being_made_need_no_place() -> None:
    lanes = Lanes(1, 1)
    for number in range(5):
        lanes.add(request(f"{number}", "variant"), 0.0, 0)
    assert lanes.count(Lane.HEAVY) == 1
    first = lanes.next(Lane.HEAVY)
    assert first is not None
    lanes.start(first)
    late = request("late", "variant")
    lanes.add(late, 0.0, 0)
    assert lanes.next(Lane.HEAVY) is None
    done = lanes.complete("variant", shared=True)
    assert len(done) == 5
    assert late in done
    assert not len(lanes)


@given(st.lists(st.sampled_from("ab"), min_size=2, max_size=8), st.data())
def test_after_a_failure_of_one_request_the_others_try_one_after_the_other(
    flows: list[str], data: st.DataObject
) -> None:
    lanes = Lanes(100, 1)
    requests = [request(flow, "variant") for flow in flows]
    add_all(lanes, *requests)
    removed = data.draw(st.sampled_from(requests))
    lanes.remove(removed)
    started = []
    while (following := lanes.next(Lane.HEAVY)) is not None:
        lanes.start(following)
        assert lanes.next(Lane.HEAVY) is None
        started.append(following)
        assert lanes.complete("variant", shared=False) == []
    assert sorted(map(requests.index, started)) == [
        index for index, each in enumerate(requests) if each is not removed
    ]
