"""Plant one-line faults into a copy of the tree, one at a time, and tell which test sees each.

    python -m bench.planted_faults                  # all of them
    python -m bench.planted_faults cursor quota     # those whose family or name has one of the words
    python -m bench.planted_faults --file services/albums.py   # those in a file that has changed
    python -m bench.planted_faults --list

It is mutation testing by hand: `planted_faults.toml` has mistakes that a maintainer could make, one line
each, in every family of rules. Each has the package, a text that occurs exactly once in it, its
replacement, and the test modules that guard the rule: their names, or the ends of their paths. Those tests
of the default suite run up to the first failure. A fault that no test sees is a rule without a guard, and
makes the exit status 1; so does a test that fails without a fault, which the last run looks for.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from attrs import field, frozen

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".toml")
SOURCES = {name: f"packages/imagehost-{name}/src/imagehost_{name}" for name in ("core", "server", "client")}
"""The modules of each package."""
SUITE = ("core", "server", "client", "contract", "meta")
"""The folders of the default suite."""
RUN_SECONDS = 900
"""The longest run of the tests of one fault, on the slowest machine: one that makes a test hang is seen."""
OPTIONS = (
    *("-q", "--tb=no", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
    *("-m", "not slow and not external and not faults"),
)
IMPORTED = (
    *("PIL.Image", "anyio", "argon2", "cattrs", "click", "httpcore2", "httptools", "httpx2", "hypothesis"),
    *(
        "jsonschema",
        "litestar.testing",
        "msgspec",
        "multipart",
        "prometheus_client",
        "psycopg",
        "rich",
        "trio",
    ),
    *("uvicorn", "xdist.workermanage"),
)
"""Modules of others, which are imported once: that takes two thirds of the time of a short run."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::[^\s\[]+)", re.MULTILINE)


@cache
def read_package(root: Path, package: str) -> Mapping[Path, str]:
    """Return the modules of a package in a tree without a fault, with their text."""
    return {path: path.read_text() for path in (root / SOURCES[package]).rglob("*.py")}


@cache
def list_test_modules(root: Path) -> Sequence[str]:
    """Return the paths of the test modules of the default suite in a tree."""
    paths = (path.relative_to(root) for path in (root / "tests").rglob("test_*.py"))
    return [path.as_posix() for path in paths if path.parts[1] in SUITE and "extended" not in path.parts]


@frozen
class Fault:
    """A mistake of a maintainer, and the tests that must see it.

    Attributes:
        family: The rules that it breaks.
        name: What the faulty program does.
        package: `core`, `server` or `client`.
        text: What is replaced; it occurs once in the package.
        replacement: What takes its place.
        tests: The test modules that guard the rule, by name or by the end of their path.
    """

    family: str
    name: str
    package: str
    text: str
    replacement: str
    tests: tuple[str, ...] = field(converter=tuple)

    def locate(self, root: Path) -> Path:
        """Return the module with the text.

        Raises:
            LookupError: The text occurs never, or several times.
        """
        counts = {path: text.count(self.text) for path, text in read_package(root, self.package).items()}
        if sum(counts.values()) != 1:
            received = f"{sum(counts.values())} times"
            raise LookupError(f"expected its text once in {self.package} but received it {received}")
        return next(path for path, count in counts.items() if count)

    def modules(self, root: Path) -> list[str]:
        """Return the paths of the test modules.

        Raises:
            LookupError: There is no such module in the default suite.
        """
        found = {
            name: [path for path in list_test_modules(root) if f"/{path}".endswith(f"/{name}.py")]
            for name in self.tests
        }
        missing = [name for name, paths in found.items() if not paths]
        if missing:
            raise LookupError(f"expected the test module {missing[0]} in the default suite but received none")
        return [path for paths in found.values() for path in paths]


def read_faults() -> list[Fault]:
    """Return the faults of the table."""
    table = tomllib.loads(TABLE.read_text())
    return [Fault(family, name, **row) for family, rows in table.items() for name, row in rows.items()]


def find_errors(faults: Iterable[Fault], root: Path = ROOT) -> list[str]:
    """Return why faults cannot be planted into a tree: each fault with an error, by its name."""
    errors = []
    for fault in faults:
        try:
            fault.locate(root)
            fault.modules(root)
        except LookupError as error:
            errors.append(f"{fault.family}, {fault.name}: {error}")
    return errors


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Yield a copy of the working tree, with the compiled modules."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    compiled = (str(path.relative_to(ROOT)) for path in (ROOT / "packages").rglob("*.so"))
    with tempfile.TemporaryDirectory(prefix="planted-faults-") as folder:
        for name in filter(None, (*listed, *compiled)):
            if (ROOT / name).is_file():
                target = Path(folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        yield Path(folder)


@contextmanager
def planted(fault: Fault, tree: Path) -> Iterator[None]:
    """Replace the text of a fault in a tree while the block runs."""
    path = fault.locate(tree)
    content = read_package(tree, fault.package)[path]
    try:
        _write(path, content.replace(fault.text, fault.replacement))
        yield
    finally:
        _write(path, content)


def _write(path: Path, content: str) -> None:
    path.write_text(content)
    # Bytecode is valid by the size and the second of its source, which may be the same.
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def run_tests(tree: Path, arguments: Sequence[str]) -> list[str]:
    """Run pytest in a tree, and return the names of the failed tests, without parameters."""
    output = tree / "pytest.txt"
    process = multiprocessing.get_context("fork").Process(target=_run_pytest, args=(tree, output, arguments))
    process.start()
    process.join(RUN_SECONDS)
    if process.is_alive():
        process.kill()
        return [f"no end of the tests within {RUN_SECONDS} s"]
    text, status = output.read_text(), process.exitcode
    failed = list(dict.fromkeys(_FAILED.findall(text)))
    if status not in (0, 1) or bool(status) != bool(failed):
        raise SystemExit(f"expected tests that run but received exit status {status}:\n{text}")
    return failed


def _run_pytest(tree: Path, output: Path, arguments: Sequence[str]) -> None:
    """Run pytest in this process, which has been forked for it, and end with its exit status."""
    os.chdir(tree)
    with output.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    paths = [str(tree), *(str((tree / source).parent) for source in SOURCES.values())]
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    raise SystemExit(pytest.main([*OPTIONS, *arguments]))


def select(faults: Iterable[Fault], words: Sequence[str], files: Sequence[str]) -> list[Fault]:
    """Return the faults with one of some words in `family: name`, and in one of some files."""
    return [
        fault
        for fault in faults
        if (not words or any(word in f"{fault.family}: {fault.name}" for word in words))
        and (not files or any(str(fault.locate(ROOT)).endswith(file) for file in files))
    ]


def print_summary(seen: Mapping[Fault, str | None]) -> None:
    """Print how many faults of each family were planted, and how many of them tests have seen."""
    planted_by_family = Counter(fault.family for fault in seen)
    seen_by_family = Counter(fault.family for fault, test in seen.items() if test)
    print("\n| rules | planted | seen |\n|---|---|---|")
    for family, count in planted_by_family.items():
        print(f"| {family} | {count} | {seen_by_family[family]} |")
    print(f"| all | {len(seen)} | {seen_by_family.total()} |")


def main() -> int:
    """Run the program, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="words of families or names, each of which selects faults")
    parser.add_argument(
        "--file", action="append", default=[], help="only faults in this file, by the end of its path"
    )
    parser.add_argument("--list", action="store_true", help="list the faults, and plant none")
    options = parser.parse_args()
    faults = read_faults()
    errors = find_errors(faults)
    if errors:
        print(*errors, sep="\n")
        return 1
    faults = select(faults, options.words, options.file)
    if options.list:
        print(
            *(f"{fault.family}: {fault.name} ({fault.locate(ROOT).relative_to(ROOT)})" for fault in faults),
            sep="\n",
        )
        return 0
    for module in IMPORTED:
        importlib.import_module(module)
    seen: dict[Fault, str | None] = {}
    with copied_tree() as tree:
        for fault in faults:
            with planted(fault, tree):
                failed = run_tests(tree, ("-x", *fault.modules(tree)))
            seen[fault] = failed[0] if failed else None
            print(f"{fault.family}: {fault.name} → {seen[fault] or 'NOT SEEN'}", flush=True)
        guards = sorted({test for test in seen.values() if test and "::" in test})
        broken = run_tests(tree, guards) if guards else []
    print_summary(seen)
    for test in broken:
        print(f"fails without a fault: {test}")
    return 1 if broken or None in seen.values() else 0


if __name__ == "__main__":
    raise SystemExit(main())
