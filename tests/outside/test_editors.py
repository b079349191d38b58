"""Editors that hand over images: the lines of the page, as they stand there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "editors.md"
SIZES = {"a.png": (64, 48), "b.png": (32, 16)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that anyone on this machine may use without a certificate."""
    with running(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the document, with images below it."""
    (tmp_path / "attachments").mkdir()
    for name, size in SIZES.items():
        (tmp_path / "attachments" / name).write_bytes(make_image(*size))
    return tmp_path


def block(heading: str, language: str) -> str:
    """Return the first block of code below a heading of the page."""
    text = PAGE.read_text("utf-8").split(f"## {heading}\n")[1]
    match = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert match is not None
    return match[1].strip()


def run(command: str, server: RunningServer, folder: Path) -> list[str]:
    """Run a line in the folder, and return the lines that it prints."""
    variables = {
        **{name: os.environ[name] for name in ("DISPLAY", "XAUTHORITY", "HOME") if name in os.environ},
        "IMAGEHOST_BASE_URL": server.base_url,
        "IMAGEHOST_TOKEN": server.token,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    output = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=variables,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
    ).stdout
    return output.splitlines()


def test_the_line_for_typora_prints_the_url_of_each_path_and_stores_none_twice(
    server: RunningServer, folder: Path
) -> None:
    paths = [str(folder / "attachments" / name) for name in SIZES]
    urls = run(f"{block('Typora', 'sh')} {' '.join(paths)}", server, folder)
    assert len(set(urls)) == 2
    assert all(httpx2.get(url, timeout=PATIENCE).status_code == 200 for url in urls)
    assert run(f"{block('Typora', 'sh')} {' '.join(paths)}", server, folder) == urls


def test_the_line_for_obsidian_prints_markdown_of_the_folder_and_can_be_repeated(
    server: RunningServer, folder: Path
) -> None:
    line = block("Obsidian", "sh")
    printed = run(line, server, folder)
    assert [text[:2] for text in printed] == ["![", "!["]
    assert run(line, server, folder) == printed


def test_the_task_for_vs_code_leaves_the_markdown_of_the_pasted_picture_in_the_clipboard(
    server: RunningServer, folder: Path
) -> None:
    missing = [name for name in ("xvfb-run", "xauth", "xclip") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"NOT TESTED with a clipboard: {', '.join(missing)} not installed")
    [task] = json.loads(block("VS Code", "json"))["tasks"]
    assert task["type"] == "shell"
    copy = "xclip -in -selection clipboard -target image/png attachments/a.png"
    (folder / "paste.sh").write_text(f"{copy}\n{task['command']}\nxclip -out -selection clipboard\n")
    shown, copied = run("xvfb-run --auto-servernum sh paste.sh", server, folder)
    assert shown == copied
    match = re.fullmatch(r"!\[.*\]\((.+)\)", shown)
    assert match is not None
    assert httpx2.get(match[1], timeout=PATIENCE).status_code == 200
