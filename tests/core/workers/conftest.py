"""What the tests of the workers share: a table of hostile tasks, and a short way to ask for one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from imagehost_core.workers import ImageExecutor
from imagehost_core.workers.executor import TaskCall

Ask = Callable[..., str]
HERE = Path(__file__).parent


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the module with the hostile tasks, which workers can import during the test."""
    monkeypatch.syspath_prepend(str(HERE))
    return "hostile_tasks"


@pytest.fixture
def make_pool(hostile: str) -> Iterator[Callable[..., ImageExecutor]]:
    """Make pools of hostile workers, which are closed after the test."""
    pools: list[ImageExecutor] = []

    def make(size: int = 1, **settings: Any) -> ImageExecutor:
        pools.append(ImageExecutor(size, tasks=hostile, **settings))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture
def pool(make_pool: Callable[..., ImageExecutor]) -> ImageExecutor:
    """A pool of one hostile worker."""
    return make_pool()


@pytest.fixture
def ask() -> Ask:
    """Have a hostile task done and return what it says."""

    def ask(pool: ImageExecutor, act: str = "", data: bytes = b"", deadline: float = 60) -> str:
        call = TaskCall("act", (act,), str, lambda _said: 1)
        said, blobs = pool.run(call, io.BytesIO(data), len(data), deadline=deadline, receive=b"".join)
        assert blobs == [data]
        return said

    return ask


@pytest.fixture
def run_script() -> Callable[..., subprocess.Popen[str]]:
    """Start a Python program of its own that can import the hostile tasks."""

    def run(script: str) -> subprocess.Popen[str]:
        paths = os.pathsep.join([str(HERE), *filter(None, sys.path)])
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONPATH": paths},
        )

    return run


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], bool]:
    """Say whether something becomes true within a minute."""

    def eventually(true: Callable[[], bool]) -> bool:
        until = time.monotonic() + 60
        while not true():
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    return eventually


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Say whether a process has ended, be it buried or not."""

    def gone(pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        return state == "Z"

    return gone
