"""The real server, started as its users start it, and clients that speak to it over HTTP."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator

import httpx2
import pytest

from imagehost_core import ImageHost
from imagehost_core.models import ALL_SCOPES
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, environment, running

NO_LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in (
        "API_PER_MINUTE",
        "API_PER_HOUR",
        "API_PER_DAY",
        "UPLOADS_PER_MINUTE",
        "UNAUTHENTICATED_PER_MINUTE",
        "SIGN_INS_PER_MINUTE",
    )
}
"""Tests ask more than a person does."""

Caller = Callable[..., httpx2.Client]


def run(*words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run `imagehost …` to its end."""
    command = [sys.executable, "-m", "imagehost_server", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=60, env=environment())


@pytest.fixture(scope="session")
def imagehost() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line."""
    return run


@pytest.fixture(scope="session")
def no_limits() -> dict[str, str]:
    """The variables that turn all limits of requests off."""
    return dict(NO_LIMITS)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server on a fresh folder; tests share it, and make what they need."""
    with running(tmp_path_factory.mktemp("server") / "data", variables=NO_LIMITS) as started:
        yield started


@pytest.fixture(scope="session")
def anybody(server: RunningServer) -> Iterator[httpx2.Client]:
    """A client without a token."""
    with httpx2.Client(base_url=server.origin, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def api(server: RunningServer) -> Iterator[httpx2.Client]:
    """A client of the first account, with every scope."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.origin, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def operator(server: RunningServer) -> Iterator[ImageHost]:
    """The server's data folder, opened by another process: this one."""
    with ImageHost.open(server.data) as host:
        yield host


@pytest.fixture(scope="session")
def client_of(server: RunningServer, operator: ImageHost) -> Iterator[Caller]:
    """Makes a client of an account, with the scopes that are named, or all."""
    clients: list[httpx2.Client] = []

    def make(user: str, *scopes: str) -> httpx2.Client:
        token = operator.keys.create(owner=user, scopes=scopes or ALL_SCOPES).token
        headers = {"Authorization": f"Bearer {token}"}
        clients.append(httpx2.Client(base_url=server.origin, headers=headers, timeout=60))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


_numbers = itertools.count(1)


@pytest.fixture
def account(operator: ImageHost, client_of: Caller) -> httpx2.Client:
    """A client of an account of the test's own, which has nothing yet."""
    name = f"user{next(_numbers)}"
    operator.accounts.create(name)
    return client_of(name)


@pytest.fixture(scope="session")
def picture() -> bytes:
    """A PNG of 320×240 pixels."""
    return make_image()


@pytest.fixture
def image_id(api: httpx2.Client, picture: bytes) -> str:
    """An image of the first account."""
    answer = api.post("/v1/upload", files={"image": ("cat.png", picture)})
    return str(answer.json()["data"]["id"])
