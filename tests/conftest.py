"""Fixtures, Hypothesis profiles and markers of all tests."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parent
REQUIRED_IN_CI = {"external", "faults"}
"""Markers of the tests that may be skipped on a developer's machine, but not in CI."""
DIRECTORY_MARKERS = {"faults": "faults", "outside": "external"}
"""Directories whose tests all have a marker."""

settings.register_profile("workspace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("workspace"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "workspace")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the markers of `DIRECTORY_MARKERS`."""
    for item in items:
        for directory, marker in DIRECTORY_MARKERS.items():
            if TESTS / directory in item.path.parents:
                item.add_marker(marker)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a skipped test that CI requires as failed, with the reason of the skip."""
    report = yield
    is_skip = report.skipped and not hasattr(report, "wasxfail")
    markers = {mark.name for mark in item.iter_markers()}
    if is_skip and os.environ.get("CI") and markers & REQUIRED_IN_CI:
        report.outcome = "failed"
        report.longrepr = f"expected no skip in CI but received: {report.longreprtext}"
    return report


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return asyncio, on which the server runs, as the backend of async tests."""
    return "asyncio"


@pytest.fixture(scope="session")
def workspace() -> Path:
    """Return the root directory of the repository."""
    return TESTS.parent
