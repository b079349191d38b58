"""Names of modules, classes and functions in docstrings and pages: each exists."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

FULL_NAME = re.compile(
    r"`(?:(?:imagehost_)?(core|server|client)/|imagehost_(core|server|client)\.)([\w./]+?)/?(?:\(\))?`"
)
"""The name of a module or of what it defines, such as `core/formats.FORMATS`."""
MEMBER = re.compile(r"`([A-Z]\w+)\.(\w+)(?:\(\))?`")
"""The name of a member of a class."""
FILE = re.compile(r"(?:^|/)test_\w+\.py$|\.toml$")
"""The end of what is a file of the tests, or of texts, and no module."""


def has_member(owner: object, name: str) -> bool:
    """Return whether a module or class has a member, also one that only its instances have."""
    bases = getattr(owner, "__mro__", ())
    return (
        hasattr(owner, name)
        or any(name in getattr(base, "__annotations__", ()) for base in bases)
        or (inspect.isclass(owner) and f"self.{name}" in inspect.getsource(owner))
    )


def exists(name: str) -> bool:
    """Return whether a dotted name is that of a module, or of a member of a module or class."""
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ModuleNotFoundError):
        owner, _, member = name.rpartition(".")
        return "." in owner and exists(owner) and has_member(pkgutil.resolve_name(owner), member)
    return True


@pytest.fixture(scope="module")
def classes(modules: list[Path]) -> dict[str, list[type]]:
    """Return the classes of the packages by their names."""
    found: dict[str, list[type]] = {}
    for path in modules:
        name = ".".join(path.with_suffix("").parts[path.parts.index("src") + 1 :]).removesuffix(".__init__")
        if not name.endswith("__main__"):
            for key, value in vars(importlib.import_module(name)).items():
                if inspect.isclass(value) and value.__module__.startswith("imagehost_"):
                    found.setdefault(key, []).append(value)
    return found


def test_every_full_name_of_the_packages_exists(tracked: list[Path], workspace: Path) -> None:
    named = {
        (
            str(path.relative_to(workspace)),
            f"imagehost_{match[1] or match[2]}.{match[3].removesuffix('.py').replace('/', '.')}",
        )
        for path in tracked
        if path.suffix in {".py", ".md"} and "findings" not in path.parts
        for match in FULL_NAME.finditer(path.read_text(encoding="utf-8"))
        if not FILE.search(match[3])
    }
    assert len(named) > 100
    assert sorted(each for each in named if not exists(each[1])) == []


def test_every_member_of_a_class_that_a_docstring_names_exists(
    modules: list[Path], classes: dict[str, list[type]]
) -> None:
    named = {
        (path.name, match[1], match[2])
        for path in modules
        for match in MEMBER.finditer(path.read_text(encoding="utf-8"))
        if match[1] in classes
    }
    assert len(named) > 30
    missing = [each for each in named if not any(has_member(kind, each[2]) for kind in classes[each[1]])]
    assert sorted(missing) == []


def test_a_name_that_does_not_exist_is_found() -> None:
    assert exists("imagehost_core.services.upload.UploadService.upload")
    assert not exists("imagehost_core.services.upload.UploadService.download")
    assert not exists("imagehost_core.services.download")
