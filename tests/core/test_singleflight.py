"""Single flight: concurrent calls with the same key run once and share the result."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import sleep

import pytest

from imagehost_core._util.singleflight import SingleFlight

TIMEOUT = 30


class BlockingFunction:
    """A function that waits for `proceed`, and counts its calls."""

    def __init__(self, outcome: Callable[[], str]) -> None:
        self.started, self.proceed = threading.Event(), threading.Event()
        self.calls = 0
        self._outcome = outcome

    def __call__(self) -> str:
        self.calls += 1
        self.started.set()
        assert self.proceed.wait(TIMEOUT)
        return self._outcome()


def call_concurrently(
    function: BlockingFunction, executor: ThreadPoolExecutor, calls: int
) -> list[Future[str]]:
    """Start a call, and further calls with the same key while it is in progress."""
    single_flight: SingleFlight[str, str] = SingleFlight()
    futures = [executor.submit(single_flight.run, "a", function)]
    assert function.started.wait(TIMEOUT)
    futures += [executor.submit(single_flight.run, "a", function) for _ in range(calls - 1)]
    sleep(0.05)  # so that they wait for the first call, and do not start after it
    function.proceed.set()
    return futures


def fail() -> str:
    raise ValueError("the call failed")


def test_concurrent_calls_with_the_same_key_run_once_and_share_the_result() -> None:
    function = BlockingFunction(lambda: "image")
    with ThreadPoolExecutor(8) as executor:
        futures = call_concurrently(function, executor, calls=8)
        assert {future.result(TIMEOUT) for future in futures} == {"image"}
    assert function.calls == 1


def test_an_exception_is_shared_like_a_result() -> None:
    function = BlockingFunction(fail)
    with ThreadPoolExecutor(4) as executor:
        for future in call_concurrently(function, executor, calls=4):
            with pytest.raises(ValueError, match="the call failed"):
                future.result(TIMEOUT)
    assert function.calls == 1


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_raised_only_in_the_thread_that_made_the_call(interrupt: type[BaseException]) -> None:
    outcomes = iter([interrupt])

    def outcome() -> str:
        for error in outcomes:
            raise error
        return "image"

    function = BlockingFunction(outcome)
    with ThreadPoolExecutor(4) as executor:
        leader, *followers = call_concurrently(function, executor, calls=4)
        with pytest.raises(interrupt):
            leader.result(TIMEOUT)
        assert [follower.result(TIMEOUT) for follower in followers] == ["image"] * 3
    assert function.calls >= 2


def test_calls_with_different_keys_do_not_wait() -> None:
    single_flight: SingleFlight[str, str] = SingleFlight()
    function = BlockingFunction(lambda: "slow")
    with ThreadPoolExecutor(1) as executor:
        slow = executor.submit(single_flight.run, "a", function)
        assert function.started.wait(TIMEOUT)
        assert single_flight.run("b", lambda: "fast") == "fast"
        function.proceed.set()
        assert slow.result(TIMEOUT) == "slow"


def test_a_later_call_runs_again() -> None:
    single_flight: SingleFlight[str, int] = SingleFlight()
    results = iter(range(3))
    assert [single_flight.run("a", lambda: next(results)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(StopIteration):
        single_flight.run("a", lambda: next(results))
    assert single_flight.run("a", lambda: 7) == 7
