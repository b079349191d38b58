"""The configuration of cibuildwheel, which builds the wheels of imagehost-core on each platform."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.outside.packages import install_python

VERSION = "4.3.3"
WHEELS = {
    "linux": {f"{libc}_{cpu}" for libc in ("manylinux", "musllinux") for cpu in ("x86_64", "aarch64")},
    "macos": {"macosx_x86_64", "macosx_arm64"},
    "windows": {"win_amd64", "win_arm64"},
}


@pytest.fixture(scope="module")
def cibuildwheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("cibuildwheel") / "environment"
    return install_python(directory, {"cibuildwheel": VERSION}) / "cibuildwheel"


@pytest.mark.parametrize("platform", WHEELS)
def test_one_wheel_per_platform_and_architecture_is_built(
    cibuildwheel: Path, workspace: Path, platform: str
) -> None:
    command = [
        str(cibuildwheel),
        "--print-build-identifiers",
        "--platform",
        platform,
        "packages/imagehost-core",
    ]
    done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {f"cp311-{wheel}" for wheel in WHEELS[platform]}


def test_the_wheels_are_for_all_later_versions_of_python(workspace: Path) -> None:
    path = workspace / "packages" / "imagehost-core" / "pyproject.toml"
    tool = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]
    assert tool["distutils"]["bdist_wheel"]["py-limited-api"] == "cp311"
    assert all(extension["py-limited-api"] for extension in tool["setuptools"]["ext-modules"])


def test_the_test_of_a_wheel_loads_its_extensions_and_renders_an_image(
    workspace: Path, tmp_path: Path
) -> None:
    path = workspace / "packages" / "imagehost-core" / "pyproject.toml"
    command = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["cibuildwheel"]["test-command"]
    program, script = command.replace("{project}", str(workspace)).split()
    assert program == "python"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "rendered " in done.stdout
