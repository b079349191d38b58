"""Pacing: room in a window is taken before a request is sent, and nobody takes it twice."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from imagehost_client import RateLimit
from imagehost_client._pacing import RateLimitPacer

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
COUNTS = st.integers(0, 20)


def told(limit: int, remaining: int, seconds: float = 30.0) -> RateLimitPacer:
    pace = RateLimitPacer()
    pace.update(RateLimit(limit, remaining, NOW + timedelta(seconds=seconds)), upload=False)
    return pace


def takes(pace: RateLimitPacer, times: int, now: datetime = NOW) -> list[float]:
    return [pace.acquire(now, upload=False, max_wait=60.0) for _ in range(times)]


@given(COUNTS, COUNTS)
def test_as_many_requests_go_as_there_is_room_for_and_the_next_waits_for_the_end(
    remaining: int, more: int
) -> None:
    assert takes(told(60, remaining), remaining + more) == [0.0] * remaining + [30.0] * more


@given(st.lists(COUNTS, min_size=1))
def test_of_answers_in_any_order_the_smallest_number_holds(remaining: list[int]) -> None:
    pace = told(60, remaining[0])
    for number in remaining[1:]:
        pace.update(RateLimit(60, number, NOW + timedelta(seconds=30)), upload=False)
    assert takes(pace, min(remaining) + 1).count(0.0) == min(remaining)


def test_another_window_has_its_own_room() -> None:
    pace = told(60, 0)
    pace.update(RateLimit(60, 5, NOW + timedelta(seconds=90)), upload=False)
    assert takes(pace, 1) == [0.0]
    pace.update(RateLimit(1000, 0, NOW + timedelta(seconds=20)), upload=False)
    assert takes(pace, 1) == [20.0]


def test_after_its_end_a_window_is_thought_to_be_empty_until_the_host_says_more() -> None:
    later = NOW + timedelta(seconds=31)
    assert takes(told(3, 0), 5, later) == [0.0, 0.0, 0.0, 60.0, 60.0]


def test_a_wait_beyond_the_longest_is_not_begun() -> None:
    assert takes(told(60, 0, 60.0), 1) == [60.0]
    assert takes(told(60, 0, 61.0), 1) == [0.0]


def test_a_client_that_knows_nothing_asks() -> None:
    assert takes(RateLimitPacer(), 3) == [0.0] * 3
    pace = told(60, 0)
    assert pace.acquire(NOW, upload=True, max_wait=60.0) == 0.0


def test_of_many_threads_each_place_goes_to_one() -> None:
    pace, went = told(600, 100), []

    def work() -> None:
        went.extend(takes(pace, 50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(went), went.count(0.0)) == (200, 100)
