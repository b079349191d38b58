"""The rules of the house that a machine can see."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from statistics import median

import pytest

PACKAGES = ("imagehost_core", "imagehost_server", "imagehost_client")


def length(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_module_is_longer_than_400_lines(modules: list[Path], workspace: Path) -> None:
    long = {str(path.relative_to(workspace)): length(path) for path in modules if length(path) > 400}
    assert long == {}


def test_half_of_the_modules_are_at_most_150_lines_long(modules: list[Path]) -> None:
    assert median(length(path) for path in modules) <= 150


def test_every_module_says_in_its_first_sentence_what_it_is_for(modules: list[Path], workspace: Path) -> None:
    silent = []
    for path in modules:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if len(text.split("\n\n")[0].split()) < 3:
            silent.append(str(path.relative_to(workspace)))
    assert silent == []


LAZY = {"__getattr__", "__dir__"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_only_re_exports(package: str) -> None:
    tree = ast.parse(Path(str(importlib.import_module(package).__file__)).read_text(encoding="utf-8"))
    made = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert [name for name in made if name not in LAZY] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_of_a_package_is_there_once(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(module.__all__) == sorted(name for name in set(module.__all__) if hasattr(module, name))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_ships_its_types(package: str) -> None:
    assert (Path(str(importlib.import_module(package).__file__)).parent / "py.typed").is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_the_packages_carry_the_licence_of_the_repository(package: str, workspace: Path) -> None:
    licence = workspace / "packages" / package.replace("_", "-") / "LICENSE"
    assert licence.read_bytes() == (workspace / "LICENSE").read_bytes()
