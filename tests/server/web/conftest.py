"""A host with pages, and browsers without scripts: HTTP clients with cookies."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from tests.open_host import open_host
from tests.server.conftest import hash_quickly
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_server.auth.cookies import SESSION_COOKIE, csrf_token
from imagehost_server.settings import ServerSettings

PASSWORD = "correct horse battery staple"
NO_LIMITS = LimitSettings(
    api_per_minute=0,
    uploads_per_minute=0,
    unauthenticated_per_minute=0,
    sign_ins_per_minute=0,
    pages_per_minute=0,
)
SETTINGS = ServerSettings(
    base_url="http://testserver.local:8000/v1", limits=NO_LIMITS, rendering=RenderingSettings(processes=1)
)
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="session")
def host() -> ImageHost:
    host = open_host(settings=SETTINGS)
    host.accounts.set_password_hash("admin", hash_quickly(PASSWORD))
    return host


@pytest.fixture(scope="session")
def origin(host: ImageHost) -> Iterator[str]:
    with serving(host, SETTINGS) as origin:
        yield origin


@pytest.fixture
def visitor(origin: str) -> Iterator[httpx2.Client]:
    """A browser that is not signed in."""
    with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=HTML) as client:
        yield client


class SignedIn:
    """The cookies and the CSRF token of a new session."""

    def __init__(self, host: ImageHost, name: str = "admin") -> None:
        self.name = name
        self.token = host.sessions.create(host.accounts.get_or_create(name)).token
        self.headers = {**HTML, "Cookie": f"{SESSION_COOKIE}={self.token}"}
        self.csrf = csrf_token(self.token)


@pytest.fixture
def session(host: ImageHost) -> SignedIn:
    return SignedIn(host)


@pytest.fixture
def owner(origin: str, session: SignedIn) -> Iterator[httpx2.Client]:
    """A browser that is signed in as `admin`."""
    with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=session.headers) as client:
        yield client
