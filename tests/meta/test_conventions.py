"""Conventions of the code that can be checked automatically."""

from __future__ import annotations

import ast
import importlib
import pydoc
import re
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

PACKAGES = ("imagehost_core", "imagehost_server", "imagehost_client")
LAZY_IMPORT_HOOKS = {"__getattr__", "__dir__"}
"""The functions that an `__init__` may define: they import the public names on first use."""
OTHER_DOCUMENTS = r"(?:contract|spec|evidence) \d|(?:spec|contract|evidence|architecture|names)\.(?:txt|md)"
"""References to documents that are not in the repository."""
WAITS = {"run", "communicate", "wait", "wait_for", "join", "result", "urlopen", "create_connection"}
"""Functions that wait for another process, thread or server until a `timeout`."""
DIRECTORIES = ("packages", "tests", "docs", "bench", ".ci")
TEXT = {".py", ".c", ".h", ".md", ".toml", ".json", ".html", ".css", ".js", ".cjs", ""}


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_every_module_has_a_docstring_with_a_sentence(modules: list[Path], workspace: Path) -> None:
    undocumented = []
    for path in modules:
        summary = (ast.get_docstring(parse(path)) or "").split("\n\n")[0]
        if len(summary.split()) < 3:
            undocumented.append(str(path.relative_to(workspace)))
    assert undocumented == []


def test_waits_of_tests_end_only_by_the_common_bound(workspace: Path) -> None:
    """A number of seconds in a wait fails on a slow machine; tests of faults expect responses in time."""
    waits = {
        f"{path.relative_to(workspace)}: {ast.unparse(node)}"
        for path in (workspace / "tests").rglob("*.py")
        if "faults" not in path.parts and re.search(r"timeout=|monotonic\(\) *\+", path.read_text("utf-8"))
        for node in ast.walk(parse(path))
        if has_seconds(node)
    }
    assert waits == set()


def has_seconds(node: ast.AST) -> bool:
    """Return whether a node waits for at least a second, or adds a second or more to the time."""
    if isinstance(node, ast.BinOp):
        return is_long(node.right) and ast.unparse(node.left).endswith("monotonic()")
    return (
        isinstance(node, ast.Call)
        and any(keyword.arg == "timeout" and is_long(keyword.value) for keyword in node.keywords)
        and ast.unparse(node.func).rpartition(".")[2] in WAITS
    )


def is_long(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, int | float) and 1 <= node.value < PATIENCE
    )


def test_every_init_module_only_re_exports(modules: list[Path], workspace: Path) -> None:
    definitions = [
        f"{path.relative_to(workspace)}: {node.name}"
        for path in modules
        if path.name == "__init__.py"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.name not in LAZY_IMPORT_HOOKS
    ]
    assert definitions == []


def test_no_line_has_two_effects(modules: list[Path], workspace: Path) -> None:
    """A reader of `a, b = f(), g()` must count commas to see which value is whose."""
    effects = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)
    found = [
        f"{path.relative_to(workspace)}:{node.lineno}"
        for path in modules
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and isinstance(node.targets[0], ast.Tuple)
        and sum(any(isinstance(part, effects) for part in ast.walk(value)) for value in node.value.elts) > 1
    ]
    assert found == []


def test_no_file_refers_to_a_document_outside_the_repository(tracked: list[Path], workspace: Path) -> None:
    pattern = re.compile(rf"(?<![\"\w])(?:{OTHER_DOCUMENTS})\b", re.IGNORECASE)
    matches = {
        str(path.relative_to(workspace)): found
        for path in tracked
        if path.suffix in TEXT and path != Path(__file__).resolve()
        if path.parent == workspace or path.relative_to(workspace).parts[0] in DIRECTORIES
        if (found := pattern.findall(path.read_text(encoding="utf-8")))
    }
    assert matches == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_lists_each_public_name_once(package: str) -> None:
    module = importlib.import_module(package)
    assert dir(module) == sorted(name for name in set(dir(module)) if hasattr(module, name))


HELP_LINES = 130


@pytest.mark.parametrize("package", ["imagehost_core", "imagehost_client"])
def test_help_of_a_package_is_a_few_screens(package: str) -> None:
    text = pydoc.render_doc(importlib.import_module(package))
    assert len(text.splitlines()) <= HELP_LINES


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_ships_its_types(package: str) -> None:
    assert (Path(str(importlib.import_module(package).__file__)).parent / "py.typed").is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_contains_the_licence_of_the_repository(package: str, workspace: Path) -> None:
    licence = workspace / "packages" / package.replace("_", "-") / "LICENSE"
    assert licence.read_bytes() == (workspace / "LICENSE").read_bytes()
