"""The client's examples run against the host in memory, and print the documented output."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from base64 import b64encode
from itertools import takewhile
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

from imagehost_client import Client, errors
from imagehost_client._cli.app import cli
from imagehost_client.client import Resource
from imagehost_client.testing import FakeImageHost, make_png

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"


def expected_output(source: str) -> str:
    """Return the documented output of an example: the comment at its end."""
    comment = list(takewhile(lambda line: line.startswith("#"), reversed(source.splitlines())))
    return "".join(f"{line[2:]}\n" for line in reversed(comment))


PROGRAMS = sorted((*EXAMPLES.glob("client_*.py"), *EXAMPLES.glob("program_*")))


@pytest.mark.parametrize("example", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_of_the_client_prints_its_documented_output(
    example: Path, served: FakeImageHost, tmp_path: Path
) -> None:
    variables = {
        "IMAGEHOST_BASE_URL": served.base_url,
        "IMAGEHOST_TOKEN": served.accounts["admin"],
        "PASSWORD": "secret",
        "CHART": b64encode(make_png(400, 300)).decode(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    interpreter = ["sh"] if example.suffix == ".sh" else [sys.executable, "-W", "error"]
    process = subprocess.run(
        [*interpreter, str(example)],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == expected_output(example.read_text(encoding="utf-8"))


def test_readme_contains_exactly_the_examples(workspace: Path) -> None:
    readme = (workspace / "packages" / "imagehost-client" / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert sorted(programs) == sorted(
        path.read_text(encoding="utf-8") for path in EXAMPLES.glob("client_*.py")
    )


def test_the_first_example_has_at_most_twelve_lines() -> None:
    start = (EXAMPLES / "client_start.py").read_text(encoding="utf-8")
    assert len([line for line in start.splitlines() if line and not line.startswith("#")]) <= 12


def test_readme_has_every_error_with_its_code(workspace: Path) -> None:
    readme = (workspace / "packages" / "imagehost-client" / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| `([A-Z_]+)`", readme, re.MULTILINE))
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert rows == {
        kind.__name__: kind.code
        for kind in classes
        if issubclass(kind, errors.ImageHostError) and kind is not errors.ImageHostError
    }


def test_readme_names_every_operation(workspace: Path) -> None:
    readme = (workspace / "packages" / "imagehost-client" / "README.md").read_text(encoding="utf-8")
    with FakeImageHost().client() as client:
        for name, resource in vars(client).items():
            if isinstance(resource, Resource):
                names = [method for method in vars(type(resource)) if not method.startswith("_")]
                row = next(line for line in readme.splitlines() if f"`client.{name}." in line)
                assert [method for method in names if f".{method}(" not in readme] == [], (name, row)


def test_readme_names_every_command_and_setting(workspace: Path) -> None:
    readme = (workspace / "packages" / "imagehost-client" / "README.md").read_text(encoding="utf-8")
    commands = [name for name, command in cli.commands.items() if not command.hidden]
    settings = list(inspect.signature(Client).parameters)
    assert [word for word in commands if not re.search(rf"`{word}`|imagehost-client {word}\b", readme)] == []
    assert [name for name in settings if not re.search(rf"`{name}\b", readme)] == []
