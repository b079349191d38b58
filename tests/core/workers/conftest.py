"""Fixtures of the worker tests: executors with a table of hostile tasks, and helpers to run such tasks."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.core.workers.image_uploads import heavy

from imagehost_core.workers.executor import ImageExecutor, TaskCall

RunTask = Callable[..., str]
HERE = Path(__file__).parent


@pytest.fixture
def hostile_tasks(monkeypatch: pytest.MonkeyPatch) -> str:
    """The module name of the hostile tasks, which worker processes can import during the test."""
    monkeypatch.syspath_prepend(str(HERE))
    return "hostile_tasks"


@pytest.fixture
def make_executor(hostile_tasks: str) -> Iterator[Callable[..., ImageExecutor]]:
    """Create executors of hostile tasks, which are closed after the test."""
    executors: list[ImageExecutor] = []

    def make(size: int = 1, **settings: Any) -> ImageExecutor:
        executors.append(ImageExecutor(size, tasks=hostile_tasks, **settings))
        return executors[-1]

    yield make
    for executor in executors:
        executor.close()


@pytest.fixture
def executor(make_executor: Callable[..., ImageExecutor]) -> ImageExecutor:
    """An executor of hostile tasks with one worker process."""
    return make_executor()


@pytest.fixture
def run_task() -> RunTask:
    """Run a hostile task and return its result."""

    def run_task(
        executor: ImageExecutor, action: str = "", data: bytes = b"", timeout_seconds: float = 60
    ) -> str:
        call = TaskCall("act", (action,), str, lambda _result: 1)
        result, blobs = executor.run(
            call, io.BytesIO(data), len(data), heavy(timeout_seconds), receive=b"".join
        )
        assert blobs == [data]
        return result

    return run_task


@pytest.fixture
def run_script() -> Callable[..., subprocess.Popen[str]]:
    """Start a Python script in another process that can import the hostile tasks."""

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
def has_exited() -> Callable[[int], bool]:
    """Return whether a process has exited; it may still be a zombie."""

    def has_exited(pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        return state == "Z"

    return has_exited
