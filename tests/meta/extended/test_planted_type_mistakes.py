"""Type checkers report each planted mistake in the programs that use the packages, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FILES = ("tests/client/typed_client.py", "tests/core/typed_core.py")
COMMANDS = {
    "mypy": (sys.executable, "-m", "mypy", "--cache-dir", "{cache}", *FILES),
    "basedpyright": (str(Path(sys.executable).parent / "basedpyright"), "--pythonpath", sys.executable),
}


@pytest.mark.parametrize("checker", COMMANDS)
def test_a_type_checker_reports_each_planted_mistake(checker: str, tmp_path: Path, workspace: Path) -> None:
    command = [part.format(cache=tmp_path) for part in COMMANDS[checker]]
    process = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout
    assert "Success" in process.stdout or "0 errors, 0 warnings" in process.stdout


def test_the_programs_have_at_least_thirty_mistakes_of_each_package(workspace: Path) -> None:
    for name in FILES:
        assert (workspace / name).read_text("utf-8").count("# type: ignore[") >= 30
