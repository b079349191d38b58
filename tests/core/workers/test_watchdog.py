"""Tests of the watchdog: it runs actions at their times unless they are cancelled before."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.workers.watchdog import Watchdog


@given(st.lists(st.integers(-1000, 10), min_size=1, max_size=20))
def test_actions_run_in_the_order_of_their_times(delays: list[int]) -> None:
    watchdog, completed, now, gate = Watchdog(), [], time.monotonic(), threading.Event()
    watchdog.call_at(now - 2, gate.wait)
    for delay in delays:
        watchdog.call_at(now + delay / 1000, lambda delay=delay: completed.append(delay))  # type: ignore[misc]
    last = threading.Event()
    watchdog.call_at(now + 0.02, last.set)
    gate.set()
    assert last.wait(60)
    watchdog.close()
    assert completed == sorted(delays)


def test_a_timer_that_is_cancelled_in_time_does_not_fire() -> None:
    watchdog, fired, last, busy = Watchdog(), threading.Event(), threading.Event(), threading.Event()
    watchdog.call_at(0, lambda: busy.wait(60))
    now = time.monotonic()
    timer = watchdog.call_at(now, fired.set)
    watchdog.cancel(timer)
    watchdog.cancel(timer)
    watchdog.call_at(now, last.set)
    busy.set()
    assert last.wait(60)
    assert not fired.is_set()
    watchdog.close()


def test_an_earlier_timer_is_not_delayed_by_a_later_one() -> None:
    watchdog, fired = Watchdog(), threading.Event()
    watchdog.call_at(time.monotonic() + 3600, threading.Event().set)
    watchdog.call_at(time.monotonic(), fired.set)
    assert fired.wait(60)
    watchdog.close()


def test_a_closed_watchdog_runs_no_actions_and_has_no_thread() -> None:
    threads = threading.enumerate()
    watchdog, fired = Watchdog(), threading.Event()
    watchdog.call_at(time.monotonic() + 3600, fired.set)
    assert len(threading.enumerate()) == len(threads) + 1
    watchdog.close()
    assert threading.enumerate() == threads
    watchdog.call_at(0, fired.set)
    assert threading.enumerate() == threads
    assert not fired.wait(0.05)


@pytest.mark.parametrize("used", [False, True])
def test_a_watchdog_can_be_closed_twice_even_by_its_own_thread(used: bool) -> None:
    watchdog, closed = Watchdog(), threading.Event()

    def close() -> None:
        watchdog.close()
        closed.set()

    if used:
        watchdog.call_at(0, close)
        assert closed.wait(60)
    watchdog.close()
    watchdog.close()
