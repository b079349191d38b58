"""Locks exclude threads and processes, and are released when their process dies."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import PATIENCE

from imagehost_core.coordination.locks import STRIPES, LockManager, lock_file, stripe, unlock_file

if TYPE_CHECKING:
    from tests.programs import Program

HOLD = """
    import sys
    from pathlib import Path
    from imagehost_core.coordination.locks import LockManager
    with LockManager(Path(sys.argv[1])).acquire("image", "key"):
        print("held")
        sys.stdin.readline()
    print("released")
    sys.stdin.readline()
"""


@pytest.fixture
def locks(tmp_path: Path) -> LockManager:
    return LockManager(tmp_path / "locks")


@given(st.text())
def test_every_key_has_one_stripe_which_is_always_the_same(key: str) -> None:
    assert 0 <= stripe(key) < STRIPES
    assert stripe(key) == stripe(str(key))


def test_threads_exclude_each_other(locks: LockManager) -> None:
    holders, max_holders = 0, 0
    counter_lock = threading.Lock()

    def work(_turn: int) -> None:
        nonlocal holders, max_holders
        with locks.acquire("image", "key"):
            with counter_lock:
                holders += 1
                max_holders = max(max_holders, holders)
            threading.Event().wait(0.002)
            with counter_lock:
                holders -= 1

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(work, range(24)))
    assert max_holders == 1


def test_locks_of_different_purposes_are_independent(locks: LockManager) -> None:
    with locks.acquire("image", "key"), locks.acquire("render", "key"):
        pass


def test_processes_exclude_each_other(
    locks: LockManager, tmp_path: Path, program: Callable[..., Program]
) -> None:
    other = program(HOLD, tmp_path / "locks")
    assert other.read_line() == "held"
    with locks.try_acquire("image", stripe("key")) as acquired:
        assert not acquired
    other.write_line()
    assert other.read_line() == "released"
    with locks.try_acquire("image", stripe("key")) as acquired:
        assert acquired


def test_the_lock_of_a_killed_process_is_free(
    locks: LockManager, tmp_path: Path, program: Callable[..., Program]
) -> None:
    other = program(HOLD, tmp_path / "locks")
    assert other.read_line() == "held"
    other.kill()
    with locks.try_acquire("image", stripe("key")) as acquired:
        assert acquired


def test_a_lock_is_released_though_a_fork_has_inherited_its_descriptor(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    forked = program(
        """
        import os, sys
        from pathlib import Path
        from imagehost_core.coordination.locks import LockManager
        locks = LockManager(Path(sys.argv[1]))
        read_end, write_end = os.pipe()
        with locks.acquire("image", "key"):
            child = os.fork()
            if child == 0:
                os.close(write_end)
                os.read(read_end, 1)
                os._exit(0)
        with locks.try_acquire("image", int(sys.argv[2])) as acquired:
            print("free" if acquired else "held")
        os.close(write_end)
        os.waitpid(child, 0)
        """,
        tmp_path,
        stripe("key"),
    )
    assert forked.read_line() == "free"
    assert forked.end() == 0


def test_try_acquire_yields_whether_the_lock_was_free(locks: LockManager) -> None:
    with locks.try_acquire("sweep") as first, locks.try_acquire("sweep") as second:
        assert (first, second) == (True, False)
    with locks.try_acquire("sweep") as again:
        assert again


@pytest.mark.time_limit(30)
def test_an_attempt_to_acquire_gives_up_after_the_timeout(locks: LockManager) -> None:
    number = stripe("key")
    with locks.acquire("idempotency", "key"), locks.try_acquire("idempotency", number, seconds=0.05) as held:
        assert not held
    with locks.try_acquire("idempotency", number, seconds=0.05) as held:
        assert held
        with locks.try_acquire("idempotency", stripe("key")) as acquired:
            assert not acquired
    with locks.try_acquire("idempotency", stripe("key")) as acquired:
        assert acquired


def test_a_failed_attempt_leaves_no_descriptor_open(tmp_path: Path) -> None:
    held = lock_file(tmp_path / "lock")
    assert held is not None
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert lock_file(tmp_path / "lock", wait=False) is None
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    unlock_file(held)


def test_an_interrupt_while_waiting_leaves_no_descriptor_open(tmp_path: Path) -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    held = lock_file(tmp_path / "lock")
    assert held is not None
    before = len(list(Path("/proc/self/fd").iterdir()))
    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            lock_file(tmp_path / "lock")
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    unlock_file(held)


@given(st.lists(st.text(), min_size=1, max_size=40))
def test_several_keys_are_locked_together_also_those_of_one_stripe(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str]
) -> None:
    locks = LockManager(tmp_path_factory.mktemp("several"))
    numbers = {stripe(key) for key in keys}
    with locks.acquire("image", *keys):
        for number in range(STRIPES):
            with locks.try_acquire("image", number) as free:
                assert free is (number not in numbers)
    for number in numbers:
        with locks.try_acquire("image", number) as free:
            assert free


def test_threads_that_lock_the_same_keys_in_other_orders_do_not_wait_for_each_other(
    locks: LockManager,
) -> None:
    keys = [f"key {number}" for number in range(50)]

    def work(turn: int) -> int:
        with locks.acquire("image", *(keys[::-1] if turn % 2 else keys)):
            return turn

    with ThreadPoolExecutor(8) as executor:
        assert sorted(executor.map(work, range(200), timeout=PATIENCE)) == list(range(200))
