"""npm packages for tests that compare with JavaScript implementations."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

VERSIONS = {"sharp": "0.35.5", "standardwebhooks": "1.0.0"}
"""The versions to install where node does not find a package; an installed package of any version is used."""

CACHE = Path(__file__).resolve().parent.parent / ".pytest_cache" / "npm"


def environment(package: str) -> dict[str, str]:
    """Return environment variables with which node finds a package; skip the test if there are none."""
    result = _environment(package)
    if isinstance(result, str):
        pytest.skip(f"NOT TESTED with npm's {package}: {result}")
    return result


@cache
def _environment(package: str) -> dict[str, str] | str:
    """Return environment variables with which node finds a package, or the reason why there are none."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None:
        return "node is not installed"
    directory = CACHE / package
    with_cache = {**os.environ, "NODE_PATH": str(directory / "node_modules")}
    for variables in (dict(os.environ), with_cache):
        if _can_require(node, package, variables):
            return variables
    if npm is None:
        return "npm is not installed"
    directory.mkdir(parents=True, exist_ok=True)
    command = [
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        f"--prefix={directory}",
        f"{package}@{VERSIONS[package]}",
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if _can_require(node, package, with_cache):
        return with_cache
    return f"npm cannot install it: {process.stderr[-300:]}"


def _can_require(node: str, package: str, variables: dict[str, str]) -> bool:
    command = [node, "-e", f"require('{package}')"]
    return subprocess.run(command, capture_output=True, env=variables, check=False).returncode == 0
