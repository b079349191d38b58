"""Fixtures of the tests of the repository itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagehost_server.testing import RunningServer, running


@pytest.fixture(scope="session")
def tracked(workspace: Path) -> list[Path]:
    """Return every file but stored data that git tracks, or without git every one outside hidden folders."""
    git = shutil.which("git")
    if git is not None and (workspace / ".git").exists():
        command = [git, "ls-files", "-z"]
        output = subprocess.run(command, cwd=workspace, capture_output=True, check=True, text=True).stdout
        paths = [workspace / name for name in output.split("\0") if name]
        return [path for path in paths if path.is_file() and "stored_data" not in path.parts]
    return [path for path in workspace.rglob("*") if path.is_file() and "/." not in path.as_posix()]


@pytest.fixture(scope="session")
def modules(workspace: Path) -> list[Path]:
    """Return every Python file of the three packages."""
    return sorted((workspace / "packages").glob("*/src/**/*.py"))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a server on an empty folder, as the first command of README does."""
    with running(tmp_path_factory.mktemp("served") / "data") as server:
        yield server
