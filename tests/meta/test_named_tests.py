"""The pages about reliability and threats name tests that exist, and runs that are described whole."""

from __future__ import annotations

import ast
import re
from datetime import date
from pathlib import Path

import pytest

NODE_ID = re.compile(r"`([\w/]+\.py)::(\w+)`")
PAGES = ("reliability.md", "threat-model.md")
ENGINES = {"sqlite+folder", "sqlite+s3", "postgres+folder", "postgres+s3"}
"""The names of engines in the table of runs; a check that needs no host has none, which is `–`."""
COLUMNS = 8
"""check, engine, tried, failed, seed, version, date, command."""


def page(workspace: Path, name: str) -> str:
    return (workspace / "docs" / name).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """Return the cells of each row of the tables in `text`, without heads and their rules."""
    lines = text.splitlines()
    rules = {number for number, line in enumerate(lines) if re.fullmatch(r"\|(-+\|)+", line)}
    heads = {number - 1 for number in rules}
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        for number, line in enumerate(lines)
        if line.startswith("|") and number not in rules | heads
    ]


def functions(path: Path) -> set[str]:
    """Return the names of the functions of a module; of none, if it does not exist."""
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def missing_tests(text: str, tests: Path) -> list[str]:
    """Return the node ids in `text` of which no test exists."""
    named = sorted(set(NODE_ID.findall(text)))
    known = {path: functions(tests / path) for path in {path for path, _ in named}}
    return [f"{path}::{name}" for path, name in named if name not in known[path]]


@pytest.mark.parametrize("name", PAGES)
def test_every_test_that_a_page_names_exists(name: str, workspace: Path) -> None:
    text = page(workspace, name)
    assert len(NODE_ID.findall(text)) > 20
    assert missing_tests(text, workspace / "tests") == []


def test_a_test_that_does_not_exist_is_found(workspace: Path) -> None:
    text = "`meta/test_named_tests.py::test_none` `meta/none.py::test_none`"
    assert missing_tests(text, workspace / "tests") == [
        "meta/none.py::test_none",
        "meta/test_named_tests.py::test_none",
    ]


def test_every_promise_and_every_fault_has_a_test(workspace: Path) -> None:
    text = page(workspace, "reliability.md")
    promises = text.partition("## Promises")[2].partition("What a confirmed change")[0]
    faults = text.partition("## Behaviour at faults")[2].partition("## What is not promised")[0]
    checked = rows(promises) + rows(faults)
    assert len(checked) > 20
    assert [row[0] for row in checked if not NODE_ID.search(row[-1])] == []


def test_every_threat_has_a_test_or_is_named_as_not_stopped(workspace: Path) -> None:
    text = page(workspace, "threat-model.md").partition("## Entries")[2]
    threats = rows(text)
    assert len(threats) > 40
    assert [
        row[0] for row in threats if not (NODE_ID.search(row[-1]) or row[-1].startswith("**not stopped**"))
    ] == []


def test_every_run_has_its_figures_seed_version_date_and_command(workspace: Path) -> None:
    runs = rows(page(workspace, "reliability.md").partition("## What was run")[2])
    assert len(runs) >= 1
    for row in runs:
        assert len(row) == COLUMNS, row
        check, engine, tried, failed, seed, version, day, command = row
        assert check
        assert engine in ENGINES | {"–"}, row
        assert int(tried.replace(",", "")) >= int(failed.replace(",", "")) >= 0, row
        assert all(map(str.isdigit, seed.split(", "))) or seed == "–", row
        assert re.fullmatch(r"[0-9a-f]{7}(, [0-9a-f]{7})*", version), row
        assert day == date.fromisoformat(day).isoformat()
        assert re.fullmatch(r"`.+`", command), row
