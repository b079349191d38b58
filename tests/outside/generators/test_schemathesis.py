"""Requests that schemathesis makes up from the OpenAPI document, valid and invalid.

Each response has to be as documented: status, content type, headers and body. None may be a server error.
CI sends 3,000 requests, the same each time. The soak sends 50,000, with other credentials and several seeds.
"""

from __future__ import annotations

import io
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from PIL import Image
from tests.faults.trials import PROPERTY, SOAK, choose_seed
from tests.outside.generators.conftest import SCHEMATHESIS_PROPERTY
from tests.outside.generators.run import run
from tests.outside.packages import install_python

from imagehost_core import ImageHost
from imagehost_core.models import ALL_SCOPES, Role, Scope
from imagehost_core.testing import make_image
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
PHASES = ("coverage", "fuzzing")
END_SESSIONS = ("sign_out", "delete_session", "change_password")
"""Operations that end the session which the other requests use; the run without credentials has them."""
PROGRAMS = Path(__file__).with_name("programs")
READ_ONLY = (Scope.IMAGES_READ, Scope.ALBUMS_READ, Scope.ACCOUNT_READ)

CI_SECONDS = 280
SOAK_SECONDS = 3_600
REQUEST_SECONDS = 60


@frozen(kw_only=True)
class Run:
    """A run of schemathesis.

    Attributes:
        credentials: Whose token the requests have.
        max_examples: The maximum number of fuzzed requests of each operation.
        min_requests: The minimum number of all requests.
        seed: The seed of the requests; `None` for the same requests each time.
    """

    credentials: str
    max_examples: int
    min_requests: int
    seed: int | None = None

    def __str__(self) -> str:
        return self.credentials if self.seed is None else f"{self.credentials}-{self.seed}"


def choose_runs() -> Iterator[Run]:
    """Yield the runs: in CI together at least 3,000 requests, in the soak 50,000."""
    if not SOAK:
        yield Run(credentials="session", max_examples=9, min_requests=1_500)
        yield Run(credentials="none", max_examples=6, min_requests=1_500)
        return
    seed = choose_seed()
    for position, credentials in enumerate(("session", "key", "read-only-key", "none") * 2):
        yield Run(credentials=credentials, max_examples=106, min_requests=6_250, seed=seed + position)


@pytest.fixture(scope="module")
def schemathesis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, installed into an environment of its own."""
    return (
        install_python(tmp_path_factory.mktemp("schemathesis") / "python", {"schemathesis": VERSION}) / "st"
    )


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an image file of each format."""
    directory = tmp_path_factory.mktemp("images")
    with Image.open(io.BytesIO(make_image(9, 7))) as image:
        for kind in ("PNG", "JPEG", "GIF", "WEBP"):
            image.save(directory / f"image.{kind.lower()}", kind)
    return directory


def create_token(server: RunningServer, settings: Run) -> str | None:
    """Return a token of a new account, which the requests of other runs do not change."""
    if settings.credentials == "none":
        return None
    with ImageHost.open(server.data) as host:
        account = host.accounts.create(f"account-{settings}", role=Role.OPERATOR)
        if settings.credentials == "session":
            return host.sessions.create(account).token
        scopes = READ_ONLY if settings.credentials == "read-only-key" else ALL_SCOPES
        return host.keys.create(owner=account, scopes=scopes).token


def is_valid(server: RunningServer, token: str) -> bool:
    """Return whether a token still grants access."""
    request = urllib.request.Request(
        f"{server.base_url}/account", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request):
            return True
    except urllib.error.HTTPError:
        return False


@pytest.mark.parametrize("settings", list(choose_runs()), ids=str)
def test_responses_to_made_up_requests_are_as_documented(
    settings: Run,
    schemathesis: Path,
    images: Path,
    unlimited_server: RunningServer,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    token = create_token(unlimited_server, settings)
    excluded = END_SESSIONS if settings.credentials == "session" else ()
    command = [
        *(schemathesis, "run", f"{unlimited_server.base_url}/openapi.json"),
        *(f"--checks={','.join(CHECKS)}", f"--phases={','.join(PHASES)}", "--mode=all", "--no-shrink"),
        "--generation-deterministic" if settings.seed is None else f"--seed={settings.seed}",
        # One worker: `ast.parse`, which Hypothesis calls, can raise SystemError in two threads of 3.11.
        *(f"--max-examples={settings.max_examples}", "--workers=1", f"--request-timeout={REQUEST_SECONDS}"),
        *("--report=json", f"--report-json-path={tmp_path}/report.json", "--no-color"),
        *(f"--exclude-operation-id={name}" for name in excluded),
        *(() if token is None else ("--header", f"Authorization: Bearer {token}")),
    ]
    variables = {
        "IMAGEHOST_TEST_IMAGES": str(images),
        "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(PROGRAMS), os.environ.get("PYTHONPATH")))),
    }
    process = run(command, tmp_path, variables, seconds=SOAK_SECONDS if SOAK else CI_SECONDS)
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    requests, failures = report["test_cases"]["generated"], len(report["failures"])
    row = (str(settings), report["operations"]["tested"], requests, failures)
    record_property(SCHEMATHESIS_PROPERTY, row)
    if settings.seed is not None:
        check = f"schemathesis, credentials: {settings.credentials}"
        record_property(PROPERTY, (check, "sqlite+folder", requests, failures, settings.seed))
    assert (process.returncode, failures, report["errors"]) == (0, 0, []), process.stdout[-8_000:]
    statuses = {phase.lower(): found["status"] for phase, found in report["phases"].items()}
    assert {statuses[phase] for phase in PHASES} == {"success"}, statuses
    assert requests >= settings.min_requests
    # Otherwise a request has suspended the account, and those after it tested little.
    assert token is None or is_valid(unlimited_server, token)
