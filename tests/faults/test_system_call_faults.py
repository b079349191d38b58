"""Operations while a system call on the host's files fails: EIO or ENOSPC, once or from then on.

An operation that succeeds is complete after a crash, as another host reads it. One that raises an error of
imagehost has left nothing, and the host goes on once the disk works again. `system_call_operations.py` has
the operations and what is checked, and `system_call_trials.py` the trials.

In CI a few calls of each operation fail; in the soak each call, with each error.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.faults.system_calls import build_library, preload_variables
from tests.faults.trials import SOAK, run_trials, trial_count

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs LD_PRELOAD, cc"),
]
ROOT = Path(__file__).parents[2]

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("library"))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """An empty directory, in memory if possible: a crash of a process loses nothing of it either."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as path:
        yield Path(path)


def test_a_system_call_that_fails_makes_no_success_wrong_and_leaves_nothing(
    library: Path, directory: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    program = [sys.executable, "-m", "tests.faults.system_call_trials"]
    variables = preload_variables(library, tmp_path / "control")
    with run_trials("system calls fail", "sqlite+folder", record_property) as trials:
        number = trial_count(quick=5, soak=0)
        arguments = [str(directory), str(tmp_path / "report"), str(number), str(trials.seed)]
        environ = {**os.environ, **variables}
        subprocess.run([*program, *arguments], cwd=ROOT, env=environ, check=True)
        report = json.loads((tmp_path / "report").read_text("utf-8"))
        trials.add(report["tried"], report["failures"])
        log.info("calls %s", report["calls"])
        log.info("results %s", report["results"])
    assert trials.tried > (4_000 if SOAK else 50)
    assert all(report["found"].values()), f"planted faults that no trial has found: {report['found']}"
