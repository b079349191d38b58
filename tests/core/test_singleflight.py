"""Single flight: equal work that is asked for at the same time is done once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import sleep

import pytest

from imagehost_core._util.singleflight import SingleFlight

PATIENCE = 30


class Work:
    """Work that waits until it is let go, and counts how often it was done."""

    def __init__(self, outcome: Callable[[], str]) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.times = 0
        self._outcome = outcome

    def __call__(self) -> str:
        self.times += 1
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        return self._outcome()


def fly(
    flights: SingleFlight[str, str], work: Work, crew: ThreadPoolExecutor, *, followers: int, key: str = "a"
) -> list[Future[str]]:
    """Let one thread lead, and the others come while its work is under way."""
    flying = [crew.submit(flights.run, key, work)]
    assert work.begun.wait(PATIENCE)
    flying += [crew.submit(flights.run, key, work) for _ in range(followers)]
    sleep(0.05)  # so that they wait for it, and do not come after it
    work.go_on.set()
    return flying


def fail() -> str:
    raise ValueError("the work failed")


def test_equal_work_under_way_is_done_once_and_everybody_has_what_it_gave() -> None:
    work = Work(lambda: "picture")
    with ThreadPoolExecutor(8) as crew:
        flying = fly(SingleFlight(), work, crew, followers=7)
        assert {flight.result(PATIENCE) for flight in flying} == {"picture"}
    assert work.times == 1


def test_an_error_is_shared_like_a_result() -> None:
    work = Work(fail)
    with ThreadPoolExecutor(4) as crew:
        for flight in fly(SingleFlight(), work, crew, followers=3):
            with pytest.raises(ValueError, match="the work failed"):
                flight.result(PATIENCE)
    assert work.times == 1


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_hits_only_the_one_who_does_the_work(interrupt: type[BaseException]) -> None:
    outcomes = iter([interrupt])

    def outcome() -> str:
        for error in outcomes:
            raise error
        return "picture"

    work = Work(outcome)
    with ThreadPoolExecutor(4) as crew:
        leader, *followers = fly(SingleFlight(), work, crew, followers=3)
        with pytest.raises(interrupt):
            leader.result(PATIENCE)
        assert [follower.result(PATIENCE) for follower in followers] == ["picture"] * 3
    assert work.times >= 2


def test_different_work_does_not_wait() -> None:
    flights: SingleFlight[str, str] = SingleFlight()
    work = Work(lambda: "slow")
    with ThreadPoolExecutor(1) as crew:
        slow = crew.submit(flights.run, "a", work)
        assert work.begun.wait(PATIENCE)
        assert flights.run("b", lambda: "quick") == "quick"
        work.go_on.set()
        assert slow.result(PATIENCE) == "slow"


def test_work_that_has_ended_is_done_again_when_it_is_asked_for_again() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    results = iter(range(3))
    assert [flights.run("a", lambda: next(results)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(StopIteration):
        flights.run("a", lambda: next(results))
    assert flights.run("a", lambda: 7) == 7
