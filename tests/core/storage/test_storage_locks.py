"""Locks hold between threads, between processes, and not beyond the death of their holder."""

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

from imagehost_core.storage import LockManager
from imagehost_core.storage.locks import STRIPES, lock_file, stripe, unlock_file

if TYPE_CHECKING:
    from tests.core.conftest import Program

HOLD = """
    import sys
    from pathlib import Path
    from imagehost_core.storage import LockManager
    with LockManager(Path(sys.argv[1])).acquire("image", "key"):
        print("held")
        sys.stdin.readline()
    print("let go")
    sys.stdin.readline()
"""


@pytest.fixture
def locks(tmp_path: Path) -> LockManager:
    return LockManager(tmp_path / "locks")


@given(st.text())
def test_every_key_falls_on_one_of_the_stripes_and_always_on_the_same(key: str) -> None:
    assert 0 <= stripe(key) < STRIPES
    assert stripe(key) == stripe(str(key))


def test_threads_exclude_each_other(locks: LockManager) -> None:
    inside, most = 0, 0
    count = threading.Lock()

    def work(_turn: int) -> None:
        nonlocal inside, most
        with locks.acquire("image", "key"):
            with count:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.002)
            with count:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(24)))
    assert most == 1


def test_one_key_may_be_held_for_two_purposes(locks: LockManager) -> None:
    with locks.acquire("image", "key"), locks.acquire("render", "key"):
        pass


def test_processes_exclude_each_other(
    locks: LockManager, tmp_path: Path, program: Callable[..., Program]
) -> None:
    other = program(HOLD, tmp_path / "locks")
    assert other.hear() == "held"
    with locks.try_acquire("image", stripe("key")) as alone:
        assert not alone
    other.tell()
    assert other.hear() == "let go"
    with locks.try_acquire("image", stripe("key")) as alone:
        assert alone


def test_the_lock_of_a_dead_process_is_free(
    locks: LockManager, tmp_path: Path, program: Callable[..., Program]
) -> None:
    other = program(HOLD, tmp_path / "locks")
    assert other.hear() == "held"
    other.kill()
    with locks.try_acquire("image", stripe("key")) as alone:
        assert alone


def test_a_lock_is_let_go_though_a_fork_made_meanwhile_still_has_its_descriptor(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    forked = program(
        """
        import os, sys
        from pathlib import Path
        from imagehost_core.storage import LockManager
        locks = LockManager(Path(sys.argv[1]))
        waiting, go_on = os.pipe()
        with locks.acquire("image", "key"):
            child = os.fork()
            if child == 0:
                os.close(go_on)
                os.read(waiting, 1)
                os._exit(0)
        with locks.try_acquire("image", int(sys.argv[2])) as alone:
            print("free" if alone else "held")
        os.close(go_on)
        os.waitpid(child, 0)
        """,
        tmp_path,
        stripe("key"),
    )
    assert forked.hear() == "free"
    assert forked.end() == 0


def test_an_attempt_tells_whether_another_thread_holds_the_lock(locks: LockManager) -> None:
    with locks.try_acquire("sweep") as first, locks.try_acquire("sweep") as second:
        assert (first, second) == (True, False)
    with locks.try_acquire("sweep") as again:
        assert again


def test_a_lock_may_be_waited_for_no_longer_than_some_seconds(locks: LockManager) -> None:
    with locks.acquire("once", "key"), locks.acquire_with_timeout("once", "key", 0.05) as held:
        assert not held
    with locks.acquire_with_timeout("once", "key", 0.05) as held:
        assert held
        with locks.try_acquire("once", stripe("key")) as alone:
            assert not alone
    with locks.try_acquire("once", stripe("key")) as alone:
        assert alone


def test_a_lock_that_cannot_be_had_leaves_no_descriptor_open(tmp_path: Path) -> None:
    held = lock_file(tmp_path / "lock")
    assert held is not None
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert lock_file(tmp_path / "lock", wait=False) is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    unlock_file(held)


def test_whoever_is_interrupted_while_waiting_leaves_no_descriptor_open(tmp_path: Path) -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    held = lock_file(tmp_path / "lock")
    assert held is not None
    before = len(list(Path("/proc/self/fd").iterdir()))
    usual = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            lock_file(tmp_path / "lock")
    finally:
        signal.signal(signal.SIGALRM, usual)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    unlock_file(held)
