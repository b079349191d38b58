"""Tests of the deadlines of tasks that wait for a core, on a clock and a waiting time that the test sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.workers.executor import MAX_EXTENSION_SECONDS, Deadline
from imagehost_core.workers.watchdog import Watchdog

UNTIL = 20.0


class Task:
    """A task of a worker process that has waited for a core, and its deadline."""

    def __init__(self, waited_before: float = 0.0) -> None:
        self.now, self.waited, self.is_killed = 0.0, waited_before, False
        watchdog = Watchdog()
        watchdog.close()  # It runs no timers: the test does.
        self.timeout_seconds = Deadline(watchdog, UNTIL, lambda: self.waited, self._kill, lambda: self.now)

    def _kill(self) -> None:
        self.is_killed = True

    def is_killed_at(self, now: float, waited: float) -> bool:
        self.now, self.waited = now, waited
        self.timeout_seconds.expire()
        return self.is_killed


def test_a_task_that_waited_for_a_core_is_not_ended_at_its_deadline_but_that_time_later() -> None:
    task = Task()
    assert not task.is_killed_at(UNTIL, waited=5)
    assert not task.is_killed_at(UNTIL + 4.9, waited=5)
    assert task.is_killed_at(UNTIL + 5, waited=5)
    assert not task.timeout_seconds.was_starved
    assert not task.timeout_seconds.cancel()


def test_a_task_that_had_a_core_all_the_time_is_ended_at_its_deadline() -> None:
    assert Task().is_killed_at(UNTIL, waited=0)


def test_a_deadline_is_put_off_by_sixty_seconds_at_most_and_the_task_then_has_not_been_too_slow() -> None:
    task = Task()
    assert MAX_EXTENSION_SECONDS == 60
    assert not task.is_killed_at(UNTIL + 59.9, waited=79)
    assert task.is_killed_at(UNTIL + 60, waited=79)
    assert task.timeout_seconds.was_starved


def test_a_task_that_has_ended_is_not_killed() -> None:
    task = Task()
    assert task.timeout_seconds.cancel()
    assert not task.is_killed_at(UNTIL + 600, waited=0)


@given(
    before=st.floats(0, 1e6),
    waits=st.lists(st.floats(0, 40), max_size=8),
    late=st.floats(0, 10),
)
def test_only_the_time_that_a_task_itself_waited_puts_its_deadline_off(
    before: float, waits: list[float], late: float
) -> None:
    task, waited = Task(before), 0.0
    for wait in waits:
        waited += wait
        now = UNTIL + min(waited, MAX_EXTENSION_SECONDS) - 0.1
        assert not task.is_killed_at(now, before + waited)
    assert task.is_killed_at(UNTIL + min(waited, MAX_EXTENSION_SECONDS) + 0.1 + late, before + waited)
