"""Helpers of the tests that run the server under faults and load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.faults.engines import POSTGRES_S3, SQLITE_FOLDER, EnginePair
from tests.live_files import iter_files
from tests.object_store import shared_s3_server
from tests.waiting import PATIENCE

from imagehost_server.testing import RunningServer

NO_LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in (
        *("API_PER_MINUTE", "API_PER_HOUR", "API_PER_DAY", "UPLOADS_PER_MINUTE"),
        "BULK_IDS_PER_MINUTE",
    )
}
"""The variables that turn the rate limits of accounts off."""


def client_of(server: RunningServer, token: str, max_connections: int = 100) -> httpx2.Client:
    """Return a client of the server that sends `token`."""
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx2.Limits(max_connections=max_connections)
    return httpx2.Client(base_url=server.origin, headers=headers, timeout=PATIENCE, limits=limits)


def kill(server: RunningServer) -> None:
    """Kill the server with SIGKILL and close its output."""
    server.kill()
    assert server.process.stdout is not None
    server.process.stdout.close()


def stored_ids(data: Path) -> list[str]:
    """Return the ids of all images that have files."""
    return sorted(path.parent.name for path in (data / "images").rglob("master"))


def staged_files(data: Path) -> list[Path]:
    """Return the files of unfinished uploads; locks and markers of killed processes are none."""
    files = iter_files(data / "staging")
    return [path for path in files if path.name != "lock" and path.suffix != ".incomplete"]


@pytest.fixture(scope="module", params=[SQLITE_FOLDER, pytest.param(POSTGRES_S3, marks=pytest.mark.external)])
def engine_pair(request: pytest.FixtureRequest) -> Iterator[EnginePair]:
    """Yield both pairs of engines, one after the other."""
    if request.param == SQLITE_FOLDER:
        yield EnginePair()
        return
    with shared_s3_server() as s3:
        yield EnginePair(request.getfixturevalue("postgres_server"), s3)
