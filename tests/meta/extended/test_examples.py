"""The examples of the documentation run and print the output in their last comment."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"


def documented_output(source: str) -> str:
    """Return the output that the comment at the end of an example documents."""
    comment = list(takewhile(lambda line: line.startswith("#"), reversed(source.splitlines())))
    return "".join(f"{line[2:]}\n" for line in reversed(comment))


def run(example: Path, folder: Path, **variables: str) -> None:
    """Run `example` in an empty folder, as a user would, and compare its output."""
    process = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **variables},
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == documented_output(example.read_text(encoding="utf-8"))


PROGRAMS = sorted(EXAMPLES.glob("embed_*.py"))


@pytest.mark.parametrize("example", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_of_embedding_prints_its_documented_output(example: Path, tmp_path: Path) -> None:
    run(example, tmp_path)
