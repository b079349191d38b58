"""Requests that schemathesis makes up from the OpenAPI document, valid and invalid, alone and in sequences.

Each response has to be as documented: status, content type, headers and body. None may be a server error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from tests.outside.generators.conftest import SCHEMATHESIS_PROPERTY
from tests.outside.generators.run import run
from tests.outside.packages import install_python

from imagehost_core import ImageHost
from imagehost_server.testing import RunningServer

pytestmark = [pytest.mark.external, pytest.mark.slow]

VERSION = "4.32.5"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
END_SESSIONS = ("sign_out", "delete_session", "change_password")
"""Operations that end the session which the other requests use; the run without credentials has them."""

SECONDS = 280


@frozen(kw_only=True)
class Run:
    """A run of schemathesis.

    Attributes:
        credentials: Whose token the requests have.
        max_examples: The maximum number of fuzzed requests of each operation.
        min_requests: The minimum number of all requests.
        excluded: Ids of the operations that are left out.
    """

    credentials: str
    max_examples: int
    min_requests: int
    excluded: tuple[str, ...] = ()


RUNS = (
    Run(credentials="session", max_examples=15, min_requests=2_500, excluded=END_SESSIONS),
    Run(credentials="none", max_examples=10, min_requests=2_500),
)
"""Together at least 5,000 requests."""


@pytest.fixture(scope="module")
def schemathesis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, installed into an environment of its own."""
    return (
        install_python(tmp_path_factory.mktemp("schemathesis") / "python", {"schemathesis": VERSION}) / "st"
    )


@pytest.fixture(scope="module")
def tokens(unlimited_server: RunningServer) -> dict[str, str | None]:
    """A token of the account `admin` by kind of credentials."""
    with ImageHost.open(unlimited_server.data) as host:
        session = host.sessions.create(host.accounts.get("admin")).token
    return {"session": session, "none": None}


@pytest.mark.parametrize("settings", RUNS, ids=[settings.credentials for settings in RUNS])
def test_responses_to_made_up_requests_are_as_documented(
    settings: Run,
    schemathesis: Path,
    unlimited_server: RunningServer,
    tokens: dict[str, str | None],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    token = tokens[settings.credentials]
    command = [
        *(schemathesis, "run", f"{unlimited_server.base_url}/openapi.json"),
        *(f"--checks={','.join(CHECKS)}", "--generation-deterministic", "--no-shrink"),
        # One worker: `ast.parse`, which Hypothesis calls, can raise SystemError in two threads of 3.11.
        *(f"--max-examples={settings.max_examples}", "--workers=1"),
        *("--report=json", f"--report-json-path={tmp_path}/report.json", "--no-color"),
        *(f"--exclude-operation-id={name}" for name in settings.excluded),
        *(() if token is None else ("--header", f"Authorization: Bearer {token}")),
    ]
    process = run(command, tmp_path, seconds=SECONDS)
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    requests, failures = report["test_cases"]["generated"], len(report["failures"])
    row = (settings.credentials, report["operations"]["tested"], requests, failures)
    record_property(SCHEMATHESIS_PROPERTY, row)
    assert (process.returncode, failures, report["errors"]) == (0, 0, []), process.stdout[-8_000:]
    assert all(phase["status"] == "success" for phase in report["phases"].values())
    assert requests >= settings.min_requests
