"""A server without rate limits, its OpenAPI document, and the table of the generators' results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from tests.server.conftest import NO_LIMITS

from imagehost_server.testing import RunningServer, running

PROPERTY = "generator"
"""Name of the property in which a test records a row: generator, version, and steps: passed, and tried."""

SCHEMATHESIS_PROPERTY = "schemathesis"
"""Name of the property in which a test records a row: credentials, operations, requests, failures."""

STEPS = ("generates", "compiles", "uploads", "lists", "signs", "deletes")


@pytest.fixture(scope="session")
def unlimited_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server on a new data directory, without rate limits."""
    with running(tmp_path_factory.mktemp("server") / "data", variables=NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="session")
def openapi_document(unlimited_server: RunningServer) -> bytes:
    """The OpenAPI document of the server."""
    with urlopen(f"{unlimited_server.base_url}/openapi.json") as response:
        return bytes(response.read())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each generator's client did, and the results of schemathesis."""
    generators = sorted(_recorded(terminalreporter, PROPERTY))
    if generators:
        terminalreporter.section("clients generated from the OpenAPI document")
        terminalreporter.write_line(_line(("generator", "version", *STEPS), 36))
        for name, version, passed, tried in generators:
            cells = ["yes" if step in passed else "NO" if step in tried else "-" for step in STEPS]
            terminalreporter.write_line(_line((name, version, *cells), 36))
    runs = sorted(_recorded(terminalreporter, SCHEMATHESIS_PROPERTY))
    if runs:
        terminalreporter.section("schemathesis")
        terminalreporter.write_line(_line(("credentials", "operations", "requests", "failures")))
        for row in runs:
            terminalreporter.write_line(_line(tuple(map(str, row))))
        requests, failures = (sum(row[column] for row in runs) for column in (2, 3))
        terminalreporter.write_line(_line(("all", "", str(requests), str(failures))))


def _recorded(terminalreporter: pytest.TerminalReporter, name: str) -> list[Any]:
    """Return the values of a property of all tests."""
    return [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for key, value in getattr(report, "user_properties", ())
        if key == name and getattr(report, "when", "") == "call"
    ]


def _line(cells: tuple[str, ...], width: int = 14) -> str:
    first, *others = cells
    return f"{first:<{width}}" + "".join(f"{cell:<12}" for cell in others)
