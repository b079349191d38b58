"""Helpers of the tests about the repository itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


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
