"""Batch uploads through a faulty network by a client that is killed: each file is stored once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

pytestmark = pytest.mark.faults


def test_each_file_is_stored_once_despite_faults_and_kills(workspace: Path) -> None:
    """The benchmark of 2,000 files, with 100."""
    options = ["--files", "100", "--kills", "3", "--share", "0.3", "--seed", "1"]
    process = subprocess.run(
        [sys.executable, "-m", "bench.storm", *options],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert "100 of 100 files stored, 0 duplicates" in process.stdout
    assert re.match(r"[2-9]|\d\d", process.stdout)
    assert " × " in process.stdout
