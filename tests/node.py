"""Packages of npm that tests hold us beside: found, or installed into a cache, or missing with a reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

VERSIONS = {"sharp": "0.35.5", "standardwebhooks": "1.0.0"}
"""What is installed where node finds none; any that it finds will do."""

CACHE = Path(__file__).resolve().parent.parent / ".pytest_cache" / "npm"


def environment(package: str) -> dict[str, str]:
    """Return an environment in which node finds a package; skip the test, saying why, where it cannot."""
    found = _environment(package)
    if isinstance(found, str):
        pytest.skip(f"NOT TESTED beside npm's {package}: {found}")
    return found


@cache
def _environment(package: str) -> dict[str, str] | str:
    """Return an environment in which node finds a package, or why there is none."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None:
        return "there is no node"
    folder = CACHE / package
    ours = {**os.environ, "NODE_PATH": str(folder / "node_modules")}
    for environment in (dict(os.environ), ours):
        if _finds(node, package, environment):
            return environment
    if npm is None:
        return "there is no npm to install it"
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        f"--prefix={folder}",
        f"{package}@{VERSIONS[package]}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return ours if _finds(node, package, ours) else f"npm cannot install it: {done.stderr[-300:]}"


def _finds(node: str, package: str, environment: dict[str, str]) -> bool:
    command = [node, "-e", f"require('{package}')"]
    return subprocess.run(command, capture_output=True, env=environment, check=False).returncode == 0
