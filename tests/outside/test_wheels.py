"""The wheels of the three packages, built with a C compiler and without, and installed by pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from imagehost_server.testing import environment

WITHOUT_COMPILER = {"CC": "/bin/false"}
RENDER = """
import imagehost_client, imagehost_server
from imagehost_core import render
from imagehost_core.testing import make_image
print(render(make_image(640, 480), w=64).width)
"""
SLOWER = (
    "C extensions of imagehost-core not built: resizing falls back to Pillow (about 4x slower); "
    "chroma subsampling falls back to the encoders' own\n"
)


@pytest.fixture
def clone(workspace: Path, tmp_path: Path) -> Path:
    """A copy of the workspace as git has it."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info", "build")
    shutil.copytree(workspace / "packages", tmp_path / "clone" / "packages", ignore=ignored)
    shutil.copy(workspace / "pyproject.toml", tmp_path / "clone")
    return tmp_path / "clone"


def files(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if ".egg-info" not in str(path)}


def build(clone: Path, variables: Mapping[str, str], *options: str) -> list[str]:
    """Build wheels into a folder beside the clone, which stays as it is; return their names."""
    before = files(clone)
    command = ("uv", "build", "--quiet", "--wheel", "--out-dir", str(clone.parent / "dist"), *options)
    subprocess.run(command, cwd=clone, env=environment(dict(variables)), check=True)
    assert files(clone) == before
    return sorted(path.name.split("-", 2)[2] for path in (clone.parent / "dist").glob("*.whl"))


def test_wheels_built_without_a_compiler_say_so_by_their_tag_and_in_one_line_when_they_render(
    clone: Path, workspace: Path, tmp_path: Path
) -> None:
    assert build(clone, WITHOUT_COMPILER, "--all-packages") == ["py3-none-any.whl"] * 3
    constraints = tmp_path / "constraints.txt"
    tools = tomllib.loads((workspace / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    constraints.write_text("\n".join(tools["uv"]["constraint-dependencies"]), encoding="utf-8")
    clean = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", clean], check=True)
    pip = (clean / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    packages = ("imagehost-core", "imagehost-server", "imagehost-client")
    wheels = (f"--find-links={tmp_path / 'dist'}", f"--constraint={constraints}")
    subprocess.run([*pip, *wheels, *packages], cwd=tmp_path, env=environment(WITHOUT_COMPILER), check=True)
    rendered = subprocess.run(
        [clean / "bin" / "python", "-I", "-c", RENDER], capture_output=True, text=True, check=True
    )
    assert (rendered.stdout, rendered.stderr) == ("64\n", SLOWER)


def test_the_wheel_of_the_core_built_with_a_compiler_is_tagged_for_its_platform(clone: Path) -> None:
    (name,) = build(clone, {}, "--package=imagehost-core")
    assert name.startswith("cp311-abi3-")
