"""What a release publishes, and the check of its version."""

from __future__ import annotations

import gzip
import importlib.util
import io
import os
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType

import pytest


def load(workspace: Path, name: str) -> ModuleType:
    """Return a program of `.ci` as a module."""
    spec = importlib.util.spec_from_file_location(name, workspace / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_sdist(path: Path, names: tuple[str, ...], seconds: int, owner: str) -> None:
    """Write an sdist as a build does: in some order, with times and the owner of the files."""
    with (
        path.open("wb") as file,
        gzip.GzipFile(path.name, "wb", fileobj=file, mtime=seconds) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname, member.uid = len(name), seconds, owner, seconds
            archive.addfile(member, io.BytesIO(name.encode()))


def test_two_builds_of_the_same_files_are_the_same_bytes_once_repacked(
    workspace: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.tar.gz", tmp_path / "second.tar.gz"
    write_sdist(first, ("p/a", "p/b"), 1_700_000_000, "one")
    write_sdist(second, ("p/b", "p/a"), 1_800_000_000, "two")
    repack = load(workspace, "repack_sdist").repack
    repack(first)
    repack(second)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        contents = [(member.name, archive.extractfile(member)) for member in archive.getmembers()]
    assert [name for name, _ in contents] == ["p/a", "p/b"]


PACKAGE = """
[project]
version = "1.2.0"
dependencies = ["imagehost-core[object-store]==1.2.0"]

[project.urls]
Source = "https://example.com/r"
Changelog = "https://example.com/r/CHANGELOG.md"
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose three packages and changelog have version 1.2.0."""
    for package in ("core", "server", "client"):
        path = tmp_path / "packages" / package / "pyproject.toml"
        path.parent.mkdir(parents=True)
        path.write_text(PACKAGE, encoding="utf-8")
    release = '[tool.release]\nversion = "1.2.0"\nrepository = "https://example.com/r"\n'
    (tmp_path / "pyproject.toml").write_text(release, encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [1.2.0] - 2027-01-31\n", encoding="utf-8")
    variables = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    author = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    for command in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message=first")):
        subprocess.run(["git", *command], cwd=tmp_path, env=variables, check=True)
    return tmp_path


def test_a_clean_repository_of_one_version_can_be_released(workspace: Path, repository: Path) -> None:
    assert load(workspace, "release").problems("1.2.0", repository) == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("packages/core/pyproject.toml", PACKAGE.replace('n = "1.2.0"', 'n = "1.1.0"'), "received 1.1.0"),
        ("packages/core/pyproject.toml", PACKAGE.replace("==1.2.0", "==1.1.0"), "received 1.1.0"),
        ("packages/core/pyproject.toml", PACKAGE.replace("/r/", "/s/"), "received https://example.com/s"),
        ("pyproject.toml", '[tool.release]\nversion = "1.1.0"\nrepository = "https://a"\n', "received 1.1.0"),
        (
            "pyproject.toml",
            '[tool.release]\nversion = "1.2.0"\nrepository = "https://repository.example/imagehost"\n',
            "the address",
        ),
        ("CHANGELOG.md", "## [1.2.0] - unreleased\n", "the heading"),
        ("CHANGELOG.md", "## [1.20] - 2027-01-31\n", "the heading"),
        ("a.txt", "", "no changed files"),
    ],
)
def test_a_release_is_refused_with_each_reason(
    workspace: Path, repository: Path, path: str, text: str, expected: str
) -> None:
    (repository / path).write_text(text, encoding="utf-8")
    problems = load(workspace, "release").problems("1.2.0", repository)
    assert any(expected in problem for problem in problems)


def test_version_and_address_are_written_to_each_place(workspace: Path, repository: Path) -> None:
    release = load(workspace, "release")
    text = '[tool.release]\nversion = "2.0.0rc1"\nrepository = "https://example.com/other"\n'
    (repository / "pyproject.toml").write_text(text, encoding="utf-8")
    assert len(release.differences(repository)) == 12
    release.write(repository)
    assert release.differences(repository) == []
    package = (repository / "packages" / "core" / "pyproject.toml").read_text(encoding="utf-8")
    assert package == PACKAGE.replace("1.2.0", "2.0.0rc1").replace(".com/r", ".com/other")


def test_the_packages_have_the_version_and_the_address_of_the_workspace(workspace: Path) -> None:
    assert load(workspace, "release").differences(workspace) == []


def test_every_session_that_a_workflow_runs_exists(workspace: Path) -> None:
    listed = (workspace / "noxfile.py").read_text(encoding="utf-8")
    for path in (workspace / ".github" / "workflows").glob("*.yml"):
        lines = path.read_text(encoding="utf-8").splitlines()
        commands = [line.partition("run: ")[2] for line in lines if "run: " in line]
        for command in commands:
            if command.startswith("uvx nox -s "):
                assert f"\ndef {command.split()[3]}(" in listed, command
            else:
                assert command.endswith("bash .ci/run"), command


def test_the_page_of_licences_has_every_dependency_of_the_packages(workspace: Path) -> None:
    page = (workspace / "docs" / "licences.md").read_text(encoding="utf-8").lower()
    for path in (workspace / "packages").glob("*/pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        extras = project.get("optional-dependencies", {}).values()
        for requirement in (*project["dependencies"], *(each for extra in extras for each in extra)):
            match = re.match(r"[\w.-]+", requirement)
            assert match is not None
            name = match[0].lower()
            names = {name, name.replace("-", "_")}
            assert name.startswith("imagehost-") or any(f"\n| {each} | " in page for each in names), name
