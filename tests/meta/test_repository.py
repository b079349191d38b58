"""The files of the repository, its README and its continuous integration."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import imagehost_client

START = "pip install uv && uv run imagehost serve --data ./data"
TEST = "pip install uv && uvx nox -s tests"

LOCK_FILES = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "package-lock.json", "yarn.lock"}
INDEX_SETTINGS = re.compile(r"^\s*(\[\[tool\.uv\.index\]\]|registry\s*=)|index-url\b", re.MULTILINE)
MACHINE_PATHS = re.compile(r"(?<![\w/])/(?:work|root|home/\w+|Users/\w+)/")
TEXT = {".py", ".toml", ".md", ".yml", ".cfg", ".ini", ".txt", ".json", ".sh", ""}


def texts(tracked: list[Path]) -> dict[Path, str]:
    """Return the text files of `tracked` except this module, which contains the forbidden patterns."""
    paths = [path for path in tracked if path.suffix in TEXT and path != Path(__file__).resolve()]
    return {path: path.read_text(encoding="utf-8") for path in paths}


def test_no_lock_file_is_committed(tracked: list[Path]) -> None:
    assert [path.name for path in tracked if path.name in LOCK_FILES] == []


def test_no_file_sets_a_package_index(tracked: list[Path]) -> None:
    assert [str(path) for path, text in texts(tracked).items() if INDEX_SETTINGS.search(text)] == []


def test_no_file_contains_an_absolute_path_of_a_machine(tracked: list[Path]) -> None:
    assert [str(path) for path, text in texts(tracked).items() if MACHINE_PATHS.search(text)] == []


def test_no_file_contains_the_markers_of_a_merge_conflict(tracked: list[Path]) -> None:
    markers = re.compile(r"^(<<<<<<<|>>>>>>>) ", re.MULTILINE)
    assert [str(path) for path, text in texts(tracked).items() if markers.search(text)] == []


def test_readme_has_one_command_to_start_and_one_to_test(workspace: Path) -> None:
    lines = (workspace / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines.count(START) == 1
    assert lines.count(TEST) == 1


def test_continuous_integration_runs_the_test_command_of_readme(workspace: Path) -> None:
    script = workspace / ".ci" / "run"
    assert TEST in script.read_text(encoding="utf-8")
    assert script.stat().st_mode & 0o111


def test_continuous_integration_runs_every_default_session_and_the_extended_tests(workspace: Path) -> None:
    script = (workspace / ".ci" / "run").read_text(encoding="utf-8")
    noxfile = (workspace / "noxfile.py").read_text(encoding="utf-8")
    match = re.search(r"options\.sessions = \[(.*)\]", noxfile)
    assert match is not None
    sessions = [*re.findall(r"\w+", match.group(1)), "extended"]
    assert [name for name in sessions if not re.search(rf"\b{name}\b", script)] == []


def test_the_three_packages_have_one_version_which_the_changelog_lists(workspace: Path) -> None:
    files = sorted((workspace / "packages").glob("*/pyproject.toml"))
    versions = {tomllib.loads(path.read_text(encoding="utf-8"))["project"]["version"] for path in files}
    versions.add(imagehost_client.__version__)
    assert len(files) == 3
    assert len(versions) == 1
    assert f"## [{versions.pop()}]" in (workspace / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_finding_is_explained_and_the_tests_that_it_names_exist(workspace: Path) -> None:
    table = (workspace / "findings" / "README.md").read_text(encoding="utf-8")
    scripts = {path.stem for path in (workspace / "findings").glob("*.sh")}
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == scripts
    for module, test in re.findall(r"`(\w+/[\w/]+\.py)(?:::(\w+))?`", table):
        path = workspace / module if module.startswith("tests/") else workspace / "tests" / module
        assert path.is_file(), module
        assert f"def {test}" in path.read_text(encoding="utf-8"), f"{module}::{test}"
