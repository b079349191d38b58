"""What all tests share: the places of the workspace, and profiles for property tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("workspace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("workspace"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "workspace")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, which is what the server runs on."""
    return "asyncio"


@pytest.fixture(scope="session")
def workspace() -> Path:
    """The root folder of the repository."""
    return Path(__file__).resolve().parent.parent
