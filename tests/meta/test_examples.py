"""The examples of the documentation run, and print what they say that they print."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def promised(source: str) -> str:
    """Return what an example says that it prints: the comment at its end."""
    comment = list(takewhile(lambda line: line.startswith("#"), reversed(source.splitlines())))
    return "".join(f"{line[2:]}\n" for line in reversed(comment))


def run(example: Path, folder: Path, **variables: str) -> None:
    """Run `example` as a user would, in an empty folder, and compare what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **variables},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == promised(example.read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("embed_*.py")), ids=lambda path: path.stem)
def test_an_example_of_embedding_runs_as_it_stands(example: Path, tmp_path: Path) -> None:
    run(example, tmp_path)
