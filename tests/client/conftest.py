"""Shared fixtures: the host in memory, clients without retry delays, and faulty servers on loopback."""

from __future__ import annotations

import io
import re
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import httpx2
import keyring
import keyring.backends.fail
import pytest
from attrs import define, evolve, field
from tests.animations import make_gif
from tests.registered_routes import routes_registered_once

from imagehost_client import AsyncClient, AsyncPager, Client, Pager
from imagehost_client._base import BaseClient
from imagehost_client._retry import RetryPolicy
from imagehost_client.testing import PASSWORD_HASH, FakeImageHost, make_png
from imagehost_core.errors import UnauthorizedError
from imagehost_core.models import AccountLimits, Image, Role

if TYPE_CHECKING:
    from imagehost_client._cli.connection import CommandContext

C = TypeVar("C", bound=BaseClient[Any, Any, Any])
Run = Callable[..., tuple[int, list[str], str]]

VARIABLES = tuple(f"IMAGEHOST_{name}" for name in ("BASE_URL", "TOKEN", "CDN_URL", "PROFILE", "LOG"))


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def stored_images(host: FakeImageHost, account: str = "admin") -> list[Image]:
    """Return the images of an account, the oldest first."""
    return list(host.core.images.iter(owner=account))[::-1]


def delete_images(host: FakeImageHost) -> None:
    """Delete all images of the account admin."""
    for image in stored_images(host):
        host.core.images.delete(image)


def reset(host: FakeImageHost) -> None:
    """Make a host as new, but for its time and the numbers of accounts and albums: a new one takes longer."""
    if has_only_images_and_albums(host):
        delete_images(host)
        for album in host.core.albums.list(owner="admin", per_page=100):
            host.core.albums.delete(album, owner="admin")
        host.core.accounts.set_password_hash("admin", PASSWORD_HASH)  # which ends all sessions
        host.accounts["admin"] = host.core.sessions.create(host.core.accounts.get("admin")).token
    else:
        replace_accounts(host)
    for record in (host.requests, host.events, host._failures, host._deliveries):
        record.clear()


def has_only_images_and_albums(host: FakeImageHost) -> bool:
    """Return whether a host has one account, as it was created, without what outlives its own deletion."""
    core = host.core
    (admin, *others) = core.accounts.list()
    created = evolve(
        admin,
        name="admin",
        role=Role.OPERATOR,
        suspended_at=None,
        limits=AccountLimits(),
        quota_bytes=None,
    )
    used = core.keys.list(owner=admin), core.webhooks.list(owner=admin)
    return not others and admin == created and not any(list(items) for items in used)


def replace_accounts(host: FakeImageHost) -> None:
    """Delete all accounts with what they have, and create the first one again."""
    accounts = host.core.accounts
    accounts.create("spare", role="operator")
    for account in [account for account in accounts.iter() if account.name != "spare"]:
        accounts.delete(account)
    host.accounts.clear()
    host.add_account("admin", role="operator")
    accounts.delete("spare")


def is_valid(host: FakeImageHost, token: str) -> bool:
    """Return whether a host accepts a token."""
    try:
        host.core.authenticate(token)
    except UnauthorizedError:
        return False
    return True


def end_sessions(host: FakeImageHost) -> None:
    """End all sessions of the account admin."""
    for session in host.core.sessions.list(owner="admin"):
        host.core.sessions.delete(session, owner="admin")


def without_delays(client: C, retries: int = 3, **options: Any) -> C:
    """Return the client with retries without delays."""
    policy = RetryPolicy(max_retries=retries, base=0.0, cap=0.0)
    client.config = evolve(client.config, retry=policy, **options)
    return client


class Caller:
    """A runner of the same call with the sync or the async client."""

    def __init__(self, sync: Callable[[], Client], asynchronous: Callable[[], AsyncClient] | None) -> None:
        self._sync = sync
        self._asynchronous = asynchronous

    def __call__(self, make: Callable[[Any], Any]) -> Any:
        """Return the result of `make(client)`; pagers are read completely."""
        if self._asynchronous is None:
            with without_delays(self._sync()) as client:
                result = make(client)
                return list(result) if isinstance(result, Pager | Iterator) else result
        return anyio.run(self._call, make)

    async def _call(self, make: Callable[[Any], Any]) -> Any:
        assert self._asynchronous is not None
        async with without_delays(self._asynchronous()) as client:
            result = make(client)
            if isinstance(result, AsyncPager | AsyncIterator):
                return [item async for item in result]
            return await result


@pytest.fixture(scope="session", autouse=True)
def _routes_are_registered_once() -> Iterator[None]:
    with routes_registered_once():
        yield


@pytest.fixture(scope="session")
def session_host() -> FakeImageHost:
    """A host in memory, of which only `host` makes use."""
    return FakeImageHost()


@pytest.fixture
def new_host() -> FakeImageHost:
    """A host of this test alone, for one that counts accounts or albums."""
    return FakeImageHost()


@pytest.fixture
def host(session_host: FakeImageHost, request: pytest.FixtureRequest) -> FakeImageHost:
    """A host in memory without images: the one of all tests, or `new_host` where a test names it."""
    if "new_host" in request.fixturenames:
        host: FakeImageHost = request.getfixturevalue("new_host")
        return host
    reset(session_host)
    return session_host


@pytest.fixture
def client(host: FakeImageHost) -> Iterator[Client]:
    """A client of the host in memory."""
    with without_delays(host.client()) as client:
        yield client


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, host: FakeImageHost) -> Caller:
    """A runner of calls to the host in memory, with each client."""
    return Caller(host.client, host.async_client if request.param == "async" else None)


@define
class Request:
    """A request, read from a socket."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Behaviour = Callable[[socket.socket, "FaultyServer"], None]


@define
class FaultyServer:
    """A server on loopback with a plan of faults.

    Each request gets the next behaviour of the plan; after the plan, the response of `respond`.
    """

    respond: Callable[[Request], bytes]
    plan: deque[Behaviour] = field(factory=deque)
    requests: list[Request] = field(factory=list)
    url: str = ""
    _listener: socket.socket = field(factory=socket.socket, repr=False)
    _stop: threading.Event = field(factory=threading.Event, repr=False)
    _threads: list[threading.Thread] = field(factory=list, repr=False)
    lock: threading.Lock = field(factory=threading.Lock, repr=False)

    def __enter__(self) -> FaultyServer:
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(64)
        self._listener.settimeout(0.05)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self._run(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def stopped(self) -> bool:
        return self._stop.is_set()

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(5)
            self._run(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                with self.lock:
                    behaviour = self.plan.popleft() if self.plan else respond_normally
                behaviour(connection, self)
            except OSError:
                pass


def read_request(connection: socket.socket) -> Request:
    """Read a complete request."""
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError
        head += chunk
    head, _, body = head.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        chunk = connection.recv(1 << 20)
        if not chunk:
            raise ConnectionError
        body += chunk
    method, path, _ = first.split(" ")
    return Request(method, path, headers, body)


def respond_normally(connection: socket.socket, server: FaultyServer) -> None:
    request = read_request(connection)
    with server.lock:
        server.requests.append(request)
        response = server.respond(request)
    connection.sendall(response)


def drop_immediately(connection: socket.socket, server: FaultyServer) -> None:
    """Close the connection without reading."""


def drop_without_response(connection: socket.socket, server: FaultyServer) -> None:
    """Process the request, and close the connection without a response."""
    request = read_request(connection)
    with server.lock:
        server.requests.append(request)
        server.respond(request)


def drop_during_request(connection: socket.socket, server: FaultyServer) -> None:
    """Close the connection while the request is being sent."""
    connection.recv(1024)


def drop_during_response(connection: socket.socket, server: FaultyServer) -> None:
    """Close the connection while the response is being sent."""
    request = read_request(connection)
    with server.lock:
        server.requests.append(request)
        response = server.respond(request)
    connection.sendall(response[: len(response) - 10])


def stall(connection: socket.socket, server: FaultyServer) -> None:
    """Read the request, and never respond."""
    read_request(connection)
    while not server.stopped():
        time.sleep(0.01)


def respond_with(response: bytes) -> Behaviour:
    """Return a behaviour that reads the request, and sends these bytes."""

    def behave(connection: socket.socket, server: FaultyServer) -> None:
        read_request(connection)
        connection.sendall(response)

    return behave


def http(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Return an HTTP response."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextmanager
def serve_fake(tls: ssl.SSLContext | None = None) -> Iterator[FakeImageHost]:
    """Run the host in memory behind an HTTP server on loopback, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            url = served_host.base_url.removesuffix("/v1") + self.path
            request = httpx2.Request(
                self.command, url, headers=dict(self.headers.items()), content=self.rfile.read(length)
            )
            response = served_host.handle_request(request)
            self.send_response(response.status_code)
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = respond  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(
                sys.exception(), ssl.SSLError
            ):  # a client that does not trust the certificate disconnects
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    origin = f"http://127.0.0.1:{server.server_port}"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        origin = f"https://localhost:{server.server_port}"
    served_host = FakeImageHost(base_url=f"{origin}/v1", cdn_url=f"{origin}/img")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield served_host
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def session_served() -> Iterator[FakeImageHost]:
    """A host in memory behind an HTTP server on loopback, of which only `served` makes use."""
    with serve_fake() as host:
        yield host


@pytest.fixture
def served(session_served: FakeImageHost) -> FakeImageHost:
    """A host in memory behind an HTTP server on loopback, without images."""
    reset(session_served)
    return session_served


def field_of(body: bytes, name: str) -> str | None:
    """Return a text field of form data."""
    match = re.search(rb'name="%s"\r\n\r\n(.*?)\r\n--' % name.encode(), body, re.DOTALL)
    return match[1].decode() if match else None


COLUMNS, TERM = "80", "xterm"
"""The width and the kind of the terminal of `run_on_terminal`."""


class Terminal(io.StringIO):
    """A stream that reports to be a terminal."""

    def isatty(self) -> bool:
        return True


def use_no_keyring() -> None:
    """Let no test use the keyring of the person who runs it."""
    backend: Any = keyring.backends.fail.Keyring
    keyring.set_keyring(backend())


def renewed(command: CommandContext) -> CommandContext:
    """Return the context of another command with the same host and profiles."""
    from imagehost_client._cli.output import Console

    return evolve(command, connection=None, console=Console())


@pytest.fixture
def command(host: FakeImageHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandContext:
    """The context of commands on the host in memory: its URL and token in variables, and no profiles."""
    from imagehost_client._cli.connection import CommandContext
    from imagehost_client._cli.profiles import ProfileStore

    use_no_keyring()
    monkeypatch.setenv("IMAGEHOST_BASE_URL", host.base_url)
    monkeypatch.setenv("IMAGEHOST_CDN_URL", host.cdn_url)
    monkeypatch.setenv("IMAGEHOST_TOKEN", host.accounts["admin"])
    return CommandContext(
        create_client=lambda **options: without_delays(Client(**options, transport=host)),
        store=ProfileStore(tmp_path / "settings" / "profiles.json"),
        journals=tmp_path / "journals",
    )


@pytest.fixture
def run(command: CommandContext) -> Run:
    """A runner of the command line on the host in memory, which returns status, output lines and messages."""
    from click.testing import CliRunner

    from imagehost_client._cli.app import cli

    def invoke(*argv: object, stdin: str | bytes = "") -> tuple[int, list[str], str]:
        result = CliRunner().invoke(
            cli,
            [str(argument) for argument in argv],
            input=stdin,
            obj=renewed(command),
            prog_name="imagehost-client",
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout.splitlines(), result.stderr

    return invoke


@pytest.fixture
def run_on_terminal(command: CommandContext, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A runner like `run` whose three streams are terminals."""
    from imagehost_client._cli.app import cli

    def invoke(*argv: object, stdin: str = "") -> tuple[int, list[str], str]:
        monkeypatch.setenv("COLUMNS", COLUMNS)
        monkeypatch.setenv("TERM", TERM)
        streams = Terminal(stdin), Terminal(), Terminal()
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            monkeypatch.setattr(sys, name, stream)
        with pytest.raises(SystemExit) as end:
            cli.main([str(argument) for argument in argv], "imagehost-client", obj=renewed(command))
        assert isinstance(end.value.code, int)
        return end.value.code, streams[1].getvalue().splitlines(), streams[2].getvalue()

    return invoke


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with two images."""
    directory = tmp_path / "files"
    directory.mkdir()
    (directory / "a.png").write_bytes(make_png(3, 2))
    (directory / "b.gif").write_bytes(make_gif())
    return directory
