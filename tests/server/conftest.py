"""A server process, and HTTP clients with different credentials."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import httpx2
import pytest
from argon2 import PasswordHasher
from tests.registered_routes import routes_registered_once
from tests.waiting import PATIENCE

from imagehost_core import ImageHost, context
from imagehost_core.models import ALL_SCOPES
from imagehost_core.settings import Settings
from imagehost_core.testing import make_image, shared_executor
from imagehost_server.testing import RunningServer, environment, running

NO_LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in (
        "API_PER_MINUTE",
        "API_PER_HOUR",
        "API_PER_DAY",
        "UPLOADS_PER_MINUTE",
        "BULK_IDS_PER_MINUTE",
        "UNAUTHENTICATED_PER_MINUTE",
        "SIGN_INS_PER_MINUTE",
    )
}
"""Settings without rate limits, which the tests would exceed."""

CreateClient = Callable[..., httpx2.Client]


def run(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run `imagehost` with arguments, and wait for it."""
    command = [sys.executable, "-m", "imagehost_server", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=check, timeout=PATIENCE, env=environment()
    )


def hash_quickly(password: str) -> str:
    """Return a password's hash with the least cost, for accounts whose hash is not the subject."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(password)


@pytest.fixture(scope="session", autouse=True)
def _routes_are_registered_once() -> Iterator[None]:
    with routes_registered_once():
        yield


@pytest.fixture(scope="session")
def imagehost() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line."""
    return run


@pytest.fixture
def shared_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands that a test runs in its process use the worker of `open_host`."""
    monkeypatch.setattr(context, "_new_executor", lambda *_: nullcontext(shared_executor()))


@pytest.fixture(scope="session")
def no_limits() -> dict[str, str]:
    """Environment variables that disable all rate limits."""
    return dict(NO_LIMITS)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server on a new data directory, shared by all tests."""
    with running(tmp_path_factory.mktemp("server") / "data", variables=NO_LIMITS) as running_server:
        yield running_server


@pytest.fixture(scope="session")
def anonymous(server: RunningServer) -> Iterator[httpx2.Client]:
    """A client without a token."""
    with httpx2.Client(base_url=server.origin, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="session")
def api(server: RunningServer) -> Iterator[httpx2.Client]:
    """A client of the account `admin` with every scope."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.origin, headers=headers, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="session")
def operator(server: RunningServer) -> Iterator[ImageHost]:
    """The server's data directory, opened by this process too."""
    with ImageHost.open(server.data, settings=Settings(base_url=server.base_url)) as host:
        yield host


@pytest.fixture(scope="session")
def client_of(server: RunningServer, operator: ImageHost) -> Iterator[CreateClient]:
    """Creates a client of an account, with the named scopes or all."""
    clients: list[httpx2.Client] = []

    def create(user: str, *scopes: str) -> httpx2.Client:
        token = operator.keys.create(owner=user, scopes=scopes or ALL_SCOPES).token  # type: ignore[arg-type]
        headers = {"Authorization": f"Bearer {token}"}
        clients.append(httpx2.Client(base_url=server.origin, headers=headers, timeout=PATIENCE))
        return clients[-1]

    yield create
    for client in clients:
        client.close()


_numbers = itertools.count(1)


@pytest.fixture
def account(operator: ImageHost, client_of: CreateClient) -> httpx2.Client:
    """A client of a new account."""
    name = f"user{next(_numbers)}"
    operator.accounts.create(name)
    return client_of(name)


@pytest.fixture(scope="session")
def png() -> bytes:
    """A PNG of 320×240 pixels."""
    return make_image()


@pytest.fixture
def image_id(api: httpx2.Client, png: bytes) -> str:
    """The id of a new public image of `admin`."""
    response = api.post("/v1/upload", files={"image": ("cat.png", png)})
    return str(response.json()["data"]["id"])
