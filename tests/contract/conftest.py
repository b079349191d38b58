"""Both houses of the contract, the real server and the double, and both clients of each.

A test is written once, for the shape of `AsyncClient`; the sync client is given that shape (`Awaited`).
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Protocol, cast

import httpx2
import pytest
from anyio.to_thread import run_sync
from attrs import define, field, fields, frozen

from imagehost_client import AsyncClient, Client, Pager
from imagehost_client._methods import Listing
from imagehost_client.client import Resource
from imagehost_client.models import Result
from imagehost_client.testing import FakeImageHost, make_png
from imagehost_core import ImageHost
from imagehost_core.models import LimitOverrides
from imagehost_server.auth.passwords import hash_password
from imagehost_server.testing import RunningServer, running

PASSWORD = "secret"
"""Of every account of both houses."""

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
"""Tests ask more than a person does, make accounts, and have their destinations on this machine."""

VARIABLES = ("IMAGEHOST_BASE_URL", "IMAGEHOST_TOKEN", "IMAGEHOST_CDN_URL")

_numbers = itertools.count(1)


@frozen
class Account:
    """An account that has nothing yet; its token is a session's."""

    name: str
    token: str = field(repr=False)


class House(Protocol):
    """What keeps the contract.

    Attributes:
        base_url: The address of the interface.
        renders: Whether it decodes pictures; the double does not.
        transport: How it is reached, where that is not a network.
    """

    @property
    def base_url(self) -> str: ...
    @property
    def cdn_url(self) -> str: ...
    @property
    def renders(self) -> bool: ...
    @property
    def transport(self) -> FakeImageHost | None: ...

    def enroll(self) -> Account:
        """Make an account."""

    def refuse_uploads(self, account: Account, status: int) -> None:
        """Let the account's next upload but one be refused: 429, a limit; 507, the quota."""


@frozen
class ServerHouse:
    """The real server; the operator opens its folder from this process."""

    server: RunningServer
    operator: ImageHost
    password_hash: str
    renders: bool = True
    transport: None = None

    @property
    def base_url(self) -> str:
        return self.server.base_url

    @property
    def cdn_url(self) -> str:
        return f"{self.server.origin}/img"

    def enroll(self) -> Account:
        made = self.operator.accounts.create(f"user{next(_numbers)}", password_hash=self.password_hash)
        return Account(made.name, self.operator.sessions.create(made).token)

    def refuse_uploads(self, account: Account, status: int) -> None:
        limits = {429: LimitOverrides(uploads_per_minute=1), 507: LimitOverrides(quota_bytes=1)}
        self.operator.accounts.set_limits(account.name, limits[status])


@frozen
class FakeHouse:
    """The double."""

    transport: FakeImageHost = field(factory=lambda: FakeImageHost(registration=True))
    renders: bool = False

    @property
    def base_url(self) -> str:
        return self.transport.base_url

    @property
    def cdn_url(self) -> str:
        return self.transport.cdn_url

    def enroll(self) -> Account:
        name = f"user{next(_numbers)}"
        return Account(name, self.transport.add_account(name))

    def refuse_uploads(self, account: Account, status: int) -> None:
        assert account.name in self.transport.accounts
        self.transport.fail(status, retry_after=30 if status == 429 else None)


@define
class AwaitedPager:
    """A `Pager` with the shape of an `AsyncPager`."""

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
    """A `Client`, or a resource of one, with the shape of an `AsyncClient`: calls are made in threads."""

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

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await run_sync(partial(value, *args, **kwargs))

        return call


Connect = Callable[[str | None], AsyncClient]
"""Makes a client that has a token, or none."""
Visit = Callable[[str | None], httpx2.AsyncClient]
"""Makes what sends bare requests, with a token or without."""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def server_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHouse]:
    """The real server on a fresh folder, without limits."""
    with (
        running(tmp_path_factory.mktemp("contract") / "data", variables=SETTINGS) as server,
        ImageHost.open(server.data) as operator,
    ):
        yield ServerHouse(server, operator, hash_password(PASSWORD))


@pytest.fixture(params=["server", "fake"])
def house(request: pytest.FixtureRequest) -> House:
    """Each house in turn."""
    if request.param == "fake":
        return FakeHouse()
    served: ServerHouse = request.getfixturevalue("server_house")
    return served


@pytest.fixture
def account(house: House) -> Account:
    """An account of the test's own."""
    return house.enroll()


@pytest.fixture
def other(house: House) -> Account:
    """Somebody else's account."""
    return house.enroll()


@pytest.fixture(params=["sync", "async"])
async def connect(request: pytest.FixtureRequest, house: House) -> AsyncIterator[Connect]:
    """Makes clients of the house, each kind in turn."""
    async with AsyncExitStack() as closing:

        def make(token: str | None) -> AsyncClient:
            if request.param == "async":
                made = AsyncClient(house.base_url, token, transport=network(house))
                closing.push_async_callback(made.close)
                return made
            plain = house.transport or httpx2.HTTPTransport(verify=False)
            sync = Client(house.base_url, token, transport=plain)
            closing.callback(sync.close)
            return cast("AsyncClient", Awaited(sync))

        yield make


@pytest.fixture
def client(connect: Connect, account: Account) -> AsyncClient:
    """A client of the test's own account, each kind in turn, in each house."""
    return connect(account.token)


@pytest.fixture
async def visit(house: House) -> AsyncIterator[Visit]:
    """Makes senders of bare requests to the house."""
    async with AsyncExitStack() as closing:

        def make(token: str | None) -> httpx2.AsyncClient:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            made = httpx2.AsyncClient(
                base_url=house.base_url, headers=headers, transport=network(house), timeout=60
            )
            closing.push_async_callback(made.aclose)
            return made

        yield make


@pytest.fixture
def http(visit: Visit, account: Account) -> httpx2.AsyncClient:
    """Bare requests of the test's own account."""
    return visit(account.token)


@pytest.fixture
def visitor(visit: Visit) -> httpx2.AsyncClient:
    """Bare requests of somebody without a token."""
    return visit(None)


@pytest.fixture
def picture() -> bytes:
    """A PNG of 40×30 pixels."""
    return make_png(40, 30)


def network(house: House) -> httpx2.AsyncBaseTransport:
    """Return how a house is reached; over a network without certificates, which take long to load."""
    return house.transport or httpx2.AsyncHTTPTransport(verify=False)


def members(kind: type[Result]) -> set[str]:
    """Return the fields of a model, as JSON has them."""
    return {attribute.name for attribute in fields(kind)} - {"meta"}


def refused(answer: httpx2.Response, status: int, code: str, *texts: str) -> None:
    """Check that an answer is this error, in the envelope of contract 2."""
    envelope = answer.json()
    assert (answer.status_code, envelope["success"], envelope["error"]["code"]) == (status, False, code)
    assert envelope.keys() == {"success", "error"}
    assert envelope["error"].keys() == {"code", "message", "details"}
    for text in texts:
        assert text in envelope["error"]["details"]
    assert answer.headers["content-type"].partition(";")[0] == "application/json"
    assert answer.headers["x-request-id"]


async def data_of(answering: Awaitable[httpx2.Response], status: int = 200) -> Any:
    """Return `data` of an answer that is a success."""
    answer = await answering
    envelope = answer.json()
    assert (answer.status_code, envelope.get("success")) == (status, True), answer.text
    assert envelope.keys() == {"success", "data"}
    assert answer.headers["x-request-id"]
    return envelope["data"]
