"""The client's examples run as they stand, against a host, and print what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from imagehost_client.testing import FakeImageHost

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def promised(source: str) -> str:
    """Return what an example says that it prints: the comment at its end."""
    comment = list(takewhile(lambda line: line.startswith("#"), reversed(source.splitlines())))
    return "".join(f"{line[2:]}\n" for line in reversed(comment))


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("client_*.py")), ids=lambda path: path.stem)
def test_an_example_of_the_client_runs_as_it_stands(
    example: Path, served: FakeImageHost, tmp_path: Path
) -> None:
    variables = {"IMAGEHOST_BASE_URL": served.base_url, "IMAGEHOST_TOKEN": served.accounts["admin"]}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == promised(example.read_text(encoding="utf-8"))


def test_readme_shows_the_first_example_word_for_word(workspace: Path) -> None:
    example = (EXAMPLES / "client_start.py").read_text(encoding="utf-8")
    readme = (workspace / "packages" / "imagehost-client" / "README.md").read_text(encoding="utf-8")
    assert f"```python\n{example}```" in readme
