"""The keeper does what it was told at its time, unless it was told otherwise before."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.workers.watchdog import Watchdog


@given(st.lists(st.integers(-1000, 10), min_size=1, max_size=20))
def test_actions_are_done_in_the_order_of_their_moments(delays: list[int]) -> None:
    keeper, done, now, gate = Watchdog(), [], time.monotonic(), threading.Event()
    keeper.call_at(now - 2, gate.wait)
    for delay in delays:
        keeper.call_at(now + delay / 1000, lambda delay=delay: done.append(delay))  # type: ignore[misc]
    last = threading.Event()
    keeper.call_at(now + 0.02, last.set)
    gate.set()
    assert last.wait(60)
    keeper.close()
    assert done == sorted(delays)


def test_an_alarm_that_is_cancelled_in_time_does_not_ring() -> None:
    keeper, rung, last, busy = Watchdog(), threading.Event(), threading.Event(), threading.Event()
    keeper.call_at(0, lambda: busy.wait(60))
    now = time.monotonic()
    alarm = keeper.call_at(now, rung.set)
    assert keeper.cancel(alarm)
    assert keeper.cancel(alarm)
    keeper.call_at(now, last.set)
    busy.set()
    assert last.wait(60)
    assert not rung.is_set()
    keeper.close()


def test_an_alarm_that_rang_cannot_be_cancelled() -> None:
    keeper, rung = Watchdog(), threading.Event()
    alarm = keeper.call_at(0, rung.set)
    assert rung.wait(60)
    assert not keeper.cancel(alarm)
    keeper.close()


def test_an_earlier_alarm_is_not_held_up_by_a_later_one() -> None:
    keeper, rung = Watchdog(), threading.Event()
    keeper.call_at(time.monotonic() + 3600, threading.Event().set)
    keeper.call_at(time.monotonic(), rung.set)
    assert rung.wait(60)
    keeper.close()


def test_a_closed_keeper_does_nothing_any_more_and_its_thread_has_ended() -> None:
    keeper, rung = Watchdog(), threading.Event()
    keeper.call_at(time.monotonic() + 3600, rung.set)
    keeper.close()
    assert keeper._thread is not None
    assert not keeper._thread.is_alive()
    keeper.call_at(0, rung.set)
    assert not rung.wait(0.05)


@pytest.mark.parametrize("used", [False, True])
def test_a_keeper_can_be_closed_twice_even_by_its_own_thread(used: bool) -> None:
    keeper, closed = Watchdog(), threading.Event()

    def close() -> None:
        keeper.close()
        closed.set()

    if used:
        keeper.call_at(0, close)
        assert closed.wait(60)
    keeper.close()
    keeper.close()
