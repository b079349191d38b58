"""The backends of the HTTP API and both clients.

The backends are a server, and two servers on one PostgreSQL and one object store: there all changes go to one
of them, and all reads to the other. A test is written once, for the interface of `AsyncClient`; `Awaited`
gives the sync client this interface.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from typing import Any, cast

import httpx2
import pytest
from anyio.to_thread import run_sync
from attrs import define, evolve, field, fields, frozen
from tests.hosts import Engines, run_hosts, split_by_method
from tests.object_store import shared_s3_server
from tests.postgres import PostgresServer
from tests.request_proxy import run_request_proxy
from tests.waiting import PATIENCE

from imagehost_client import AsyncClient, Client, Pager
from imagehost_client._methods import Listing
from imagehost_client.client import Resource
from imagehost_client.models import Result
from imagehost_client.testing import PASSWORD_HASH, make_png
from imagehost_core import ImageHost
from imagehost_server.testing import RunningServer, running

PASSWORD = "secret"
"""The password of every account of all backends, that of `PASSWORD_HASH`."""

SETTINGS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in (
        "API_PER_MINUTE",
        "API_PER_HOUR",
        "API_PER_DAY",
        "UPLOADS_PER_MINUTE",
        "UNAUTHENTICATED_PER_MINUTE",
        "SIGN_INS_PER_MINUTE",
    )
} | {"IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true", "IMAGEHOST_REGISTRATION": "true"}
"""No rate limits, open registration, and webhook endpoints on loopback."""

VARIABLES = ("IMAGEHOST_BASE_URL", "IMAGEHOST_TOKEN", "IMAGEHOST_CDN_URL")

SEVERAL_HOSTS = "hosts"
"""The backend of two servers, with which tests marked external run."""

_numbers = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on the server with the sync client; marked slow with the other one, external on hosts."""
    if "backend" not in metafunc.fixturenames:
        return
    external = pytest.mark.external
    if "connect" not in metafunc.fixturenames:
        hosts = pytest.param(SEVERAL_HOSTS, marks=external)
        metafunc.parametrize("backend", ["server", hosts], indirect=True)
        return
    hosts = pytest.param(SEVERAL_HOSTS, "async", marks=external)
    clients = [("server", "sync"), pytest.param("server", "async", marks=pytest.mark.slow), hosts]
    metafunc.parametrize(("backend", "connect"), clients, indirect=True)


@frozen
class Account:
    """A new account with the token of a session."""

    name: str
    token: str = field(repr=False)


@frozen
class Backend:
    """A server, with a second `ImageHost` on its data directory for administration."""

    server: RunningServer
    operator: ImageHost

    @property
    def base_url(self) -> str:
        return self.server.base_url

    @property
    def cdn_url(self) -> str:
        return f"{self.server.origin}/img"

    def create_account(self, *, role: str = "user") -> Account:
        """Create an account."""
        name = f"user{next(_numbers)}"
        account = self.operator.accounts.create(name, password_hash=PASSWORD_HASH, role=role)  # type: ignore[arg-type]
        return Account(account.name, self.operator.sessions.create(account).token)

    def refuse_uploads(self, account: Account, status: int) -> None:
        """Make one of the account's next two uploads fail: 429, rate limit; 507, quota."""
        if status == 429:
            self.operator.accounts.update(account.name, uploads_per_minute=1)
        else:
            self.operator.accounts.update(account.name, quota_bytes=1)


@define
class AwaitedPager:
    """A `Pager` with the interface of an `AsyncPager`."""

    pager: Pager[Any]

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for page in self.pages():
            for item in page:
                yield item

    async def pages(self) -> AsyncIterator[Any]:
        pages = self.pager.pages()
        while (page := await run_sync(next, pages, None)) is not None:
            yield page

    async def first_page(self) -> Any:
        return await run_sync(self.pager.first_page)


@define
class Awaited:
    """A `Client`, or one of its resources, with the interface of an `AsyncClient`: calls run in threads."""

    target: Client | Resource

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if isinstance(value, Resource):
            return Awaited(value)
        if not callable(value) or name in {"image_url", "srcset", "picture"}:
            return value
        if name == "with_options":
            return lambda **options: Awaited(value(**options))
        if isinstance(inspect.getattr_static(self.target, name), Listing):
            return lambda *args, **kwargs: AwaitedPager(value(*args, **kwargs))

        return awaited(value)


def awaited(method: Any) -> Any:
    """Return a coroutine function that calls a method in a thread, with its `with_raw_response`."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await run_sync(partial(method, *args, **kwargs))

    if hasattr(method, "with_raw_response"):
        call.with_raw_response = awaited(method.with_raw_response)  # type: ignore[attr-defined]
    return call


Connect = Callable[[str | None], AsyncClient]
"""A factory of clients, with a token or without."""
OpenHttp = Callable[[str | None], httpx2.AsyncClient]
"""A factory of plain HTTP clients, with a token or without."""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def server_backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A server on an empty data directory, without rate limits."""
    with (
        running(tmp_path_factory.mktemp("contract") / "data", variables=SETTINGS) as server,
        ImageHost.open(server.data) as operator,
    ):
        yield Backend(server, operator)


@pytest.fixture(scope="session")
def hosts_backend(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> Iterator[Backend]:
    """Two servers on one PostgreSQL and one object store, behind a proxy: one for changes, one for reads."""
    directory = tmp_path_factory.mktemp("hosts")
    with ExitStack() as stack:
        database = stack.enter_context(postgres_server.empty_database())
        engines = Engines(database, stack.enter_context(shared_s3_server()).url())
        proxy = stack.enter_context(run_request_proxy(lambda _: 0))
        variables = {**SETTINGS, "IMAGEHOST_BASE_URL": f"{proxy.origin}/v1"}
        one, other = stack.enter_context(run_hosts(directory, engines, engines, variables=variables))
        proxy.route = split_by_method(writes=one, reads=other)
        operator = stack.enter_context(engines.open(one.data))
        yield Backend(evolve(one, base_url=f"{proxy.origin}/v1"), operator)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each backend in turn."""
    name = "hosts_backend" if request.param == SEVERAL_HOSTS else "server_backend"
    backend: Backend = request.getfixturevalue(name)
    return backend


@pytest.fixture
def account(backend: Backend) -> Account:
    """A new account."""
    return backend.create_account()


@pytest.fixture
def other(backend: Backend) -> Account:
    """Another new account."""
    return backend.create_account()


@pytest.fixture
async def connect(request: pytest.FixtureRequest, backend: Backend) -> AsyncIterator[Connect]:
    """A factory of sync or async clients of the backend."""
    async with AsyncExitStack() as stack:

        def create(token: str | None) -> AsyncClient:
            if request.param == "async":
                asynchronous = AsyncClient(backend.base_url, token, transport=new_transport())
                stack.push_async_callback(asynchronous.close)
                return asynchronous
            sync = Client(backend.base_url, token, transport=httpx2.HTTPTransport(verify=False))
            stack.callback(sync.close)
            return cast("AsyncClient", Awaited(sync))

        yield create


@pytest.fixture
def client(connect: Connect, account: Account) -> AsyncClient:
    """A client of a new account."""
    return connect(account.token)


@pytest.fixture
async def open_http(backend: Backend) -> AsyncIterator[OpenHttp]:
    """A factory of plain HTTP clients of the backend."""
    async with AsyncExitStack() as stack:

        def create(token: str | None) -> httpx2.AsyncClient:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            http = httpx2.AsyncClient(
                base_url=backend.base_url, headers=headers, transport=new_transport(), timeout=PATIENCE
            )
            stack.push_async_callback(http.aclose)
            return http

        yield create


@pytest.fixture
def http(open_http: OpenHttp, account: Account) -> httpx2.AsyncClient:
    """A plain HTTP client with the token of a new account."""
    return open_http(account.token)


@pytest.fixture
def anonymous_http(open_http: OpenHttp) -> httpx2.AsyncClient:
    """A plain HTTP client without a token."""
    return open_http(None)


@pytest.fixture
def png() -> bytes:
    """A PNG of 40×30 pixels."""
    return make_png(40, 30)


def new_transport() -> httpx2.AsyncBaseTransport:
    """Return a transport that loads no certificates, which is slow."""
    return httpx2.AsyncHTTPTransport(verify=False)


def members(kind: type[Result]) -> set[str]:
    """Return the JSON field names of a model."""
    return {attribute.name for attribute in fields(kind)} - {"meta"}


def assert_error(response: httpx2.Response, status: int, code: str, *texts: str) -> None:
    """Assert that a response is an error in the envelope, with these texts in its details."""
    envelope = response.json()
    assert (response.status_code, envelope["success"], envelope["error"]["code"]) == (status, False, code)
    assert envelope.keys() == {"success", "error"}
    assert envelope["error"].keys() == {"code", "message", "details"}
    for text in texts:
        assert text in envelope["error"]["details"]
    assert response.headers["content-type"].partition(";")[0] == "application/json"
    assert response.headers["x-request-id"]


async def data_of(request: Awaitable[httpx2.Response], status: int = 200) -> Any:
    """Return `data` of a success response."""
    response = await request
    envelope = response.json()
    assert (response.status_code, envelope.get("success")) == (status, True), response.text
    assert envelope.keys() == {"success", "data"}
    assert response.headers["x-request-id"]
    return envelope["data"]
