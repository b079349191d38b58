"""Helpers of the tests about the repository itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagehost_server.testing import RunningServer, running


@pytest.fixture(scope="session")
def tracked(workspace: Path) -> list[Path]:
    """Every file that git tracks, or every file outside hidden folders where there is no git."""
    git = shutil.which("git")
    if git is not None and (workspace / ".git").exists():
        listed = subprocess.run(
            [git, "ls-files", "-z"], cwd=workspace, capture_output=True, check=True, text=True
        )
        paths = [workspace / name for name in listed.stdout.split("\0") if name]
        return [path for path in paths if path.is_file()]
    return [path for path in workspace.rglob("*") if path.is_file() and "/." not in path.as_posix()]


@pytest.fixture(scope="session")
def modules(workspace: Path) -> list[Path]:
    """Every Python file of the three packages."""
    return sorted((workspace / "packages").glob("*/src/**/*.py"))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server on an empty folder, as the first command of README starts it."""
    with running(tmp_path_factory.mktemp("served") / "data") as server:
        yield server
