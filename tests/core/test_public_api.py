"""The public surface of imagehost_core: lazy root, packages that are importable alone, exported types."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import pytest
from tests.open_host import open_host

import imagehost_core
from imagehost_core import ImageExecutor, ImageHost, UploadKeywords, settings

PURE = ["transform", "limits", "events", "uploads", "webhooks", "settings"]
HEAVY_MODULES = {"PIL", "pillow_avif", "sqlite3", "sqlite_utils", "cattrs"}


def loaded_modules(statement: str) -> set[str]:
    """Return the modules that a new interpreter has loaded after a statement."""
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    # Measuring coverage in the child would load SQLite.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    return set(result.stdout.split())


@pytest.mark.parametrize("name", PURE)
def test_a_pure_package_loads_neither_pillow_nor_sqlite_nor_the_services(name: str) -> None:
    modules = loaded_modules(f"from imagehost_core.{name} import *")
    assert f"imagehost_core.{name}" in modules
    assert not modules & HEAVY_MODULES
    for internal in ("host", "maintenance", "services", "db", "storage", "workers", "pixels", "sandbox"):
        assert f"imagehost_core.{internal}" not in modules


def test_the_root_alone_loads_no_other_module_of_the_package() -> None:
    assert not [
        name for name in loaded_modules("import imagehost_core") if name.startswith("imagehost_core.")
    ]


def test_a_host_that_shares_nothing_loads_nothing_of_several_hosts() -> None:
    modules = loaded_modules("from imagehost_core import ImageHost\nImageHost.open(':memory:').close()")
    assert "imagehost_core.host" in modules
    assert not [name for name in modules if name.startswith("imagehost_core.cluster")]


def test_storage_loads_neither_pillow_nor_sqlite() -> None:
    assert not loaded_modules("import imagehost_core.storage") & HEAVY_MODULES


def test_render_alone_loads_neither_the_store_nor_worker_processes() -> None:
    loaded = loaded_modules("from imagehost_core import render")
    of_a_host = {"cattrs", "concurrent.futures", "email", "importlib.metadata", "socket", "sqlite3"}
    packages = (
        *("settings", "storage", "workers.executor", "db", "coordination", "host"),
        *("models", "uploads", "events", "headers.camera"),
    )
    assert not loaded & {*of_a_host, *(f"imagehost_core.{name}" for name in packages)}


@pytest.mark.parametrize("name", [*PURE, "storage"])
def test_the_example_of_a_package_is_correct(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"imagehost_core.{name}"))
    assert results.attempted > 0
    assert results.failed == 0


def test_the_examples_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = Path(__file__).parents[2] / "packages" / "imagehost-core" / "README.md"
    examples = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    assert len(examples) == 5
    for example in examples:
        exec(compile(example, str(readme), "exec"), {})


def test_all_exported_names_exist() -> None:
    for exported in dir(imagehost_core):
        assert getattr(imagehost_core, exported) is not None
    for exported in settings.__all__:
        assert getattr(settings, exported) is not None


MOST_NAMES = 70
SCREEN_LINES = 40


def test_the_root_has_few_names_and_its_docstring_all_of_them_on_a_screen() -> None:
    lines = inspect.cleandoc(imagehost_core.__doc__ or "").splitlines()
    assert len(dir(imagehost_core)) <= MOST_NAMES
    assert len(lines) <= SCREEN_LINES
    assert set(dir(imagehost_core)) <= {word for line in lines for word in line.split()}


def test_an_unknown_name_of_the_root_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'imagehost_core' has no attribute 'nothing'"):
        getattr(imagehost_core, "nothing")  # noqa: B009 - a checker would report the attribute


def test_the_names_for_type_checkers_are_those_that_are_exported() -> None:
    tree = ast.parse(Path(inspect.getfile(imagehost_core)).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    origins = {alias.name: str(node.module) for node in imports for alias in node.names}
    (declared,) = (node.value for node in block.body if isinstance(node, ast.Assign))
    assert sorted(origins) == sorted(ast.literal_eval(declared)) == dir(imagehost_core)
    for name, module in origins.items():
        assert getattr(imagehost_core, name) is getattr(importlib.import_module(module), name)


def named_types(annotation: object) -> Iterator[Any]:
    """Yield the classes and NewTypes of this package in an annotation."""
    ours = getattr(annotation, "__module__", "").startswith("imagehost_core")
    if ours and get_origin(annotation) is None and not isinstance(annotation, TypeVar):
        yield annotation
    for argument in (get_origin(annotation), *get_args(annotation)):
        for part in argument if isinstance(argument, list) else [argument]:
            if part is not None:
                yield from named_types(part)


def public_members(kind: type) -> Iterator[object]:
    """Yield the public functions of a class, including those of properties and class methods."""
    for name, member in inspect.getmembers_static(kind):
        if not name.startswith("_") and getattr(member, "__module__", kind.__module__) is not None:
            if isinstance(member, property):
                yield member.fget
            elif isinstance(member, classmethod | staticmethod):
                yield member.__func__
            elif inspect.isfunction(member):
                yield member


def signature_types(subject: Any) -> Iterator[Any]:
    """Yield the types in the public signature of a function, or of a class's methods and fields."""
    if not inspect.isclass(subject):
        # `render` names its type for checkers only, as it is slow to import.
        names = {"ImageExecutor": ImageExecutor}
        hints = get_type_hints(subject, localns=names) if inspect.isfunction(subject) else {}
    elif issubclass(subject, Enum):
        hints = {}
    else:
        fields = get_type_hints(subject)
        hints = {name: hint for name, hint in fields.items() if not name.startswith("_")}
        for member in public_members(subject):
            yield from signature_types(member)
    for hint in hints.values():
        yield from named_types(hint)


def reachable_types(subjects: Iterable[Any]) -> set[Any]:
    """Return the types in the public signatures of subjects, and in those of the types themselves."""
    types: set[Any] = set()
    pending = [kind for subject in subjects for kind in (*signature_types(subject), *named_types(subject))]
    while pending:
        kind = pending.pop()
        if kind not in types and not inspect.isfunction(kind):
            types.add(kind)
            pending.extend(signature_types(kind))
    return types


def importable_from(kind: Any) -> str | None:
    """Return the public module that a type is imported from, or `None`: of a pure package, the package."""
    name = (type(kind) if isinstance(kind, Enum) else kind).__name__
    package = kind.__module__.split(".")[1]
    module = f"imagehost_core.{package}" if package == "settings" else kind.__module__
    is_public = not any(part.startswith("_") for part in (*module.split("."), name))
    return module if is_public and hasattr(importlib.import_module(module), name) else None


def test_every_type_of_a_public_signature_can_be_imported_from_a_public_module() -> None:
    with open_host() as host:
        services = [type(value) for name, value in vars(host).items() if not name.startswith("_")]
    exported = [getattr(imagehost_core, name) for name in dir(imagehost_core)]
    rules = [
        rule
        for module in (importlib.import_module(f"imagehost_core.{name}") for name in PURE)
        for name, rule in vars(module).items()
        if not name.startswith("_") and getattr(rule, "__module__", "") == module.__name__
    ]
    types = reachable_types([*exported, *services, *filter(callable, rules)])
    assert ImageHost in types
    assert UploadKeywords in types
    assert (
        sorted(f"{kind.__module__}.{kind.__name__}" for kind in types if importable_from(kind) is None) == []
    )
