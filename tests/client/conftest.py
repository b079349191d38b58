"""What the client's tests share: a double, clients of it without long waits, and servers on loopback."""

from __future__ import annotations

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
from typing import Any, TypeVar

import anyio
import httpx2
import pytest
from attrs import define, evolve, field

from imagehost_client import AsyncClient, AsyncPager, Client, Pager
from imagehost_client._base import BaseClient
from imagehost_client._retry import RetryPolicy
from imagehost_client.testing import FakeImageHost

C = TypeVar("C", bound=BaseClient)

VARIABLES = ("IMAGEHOST_BASE_URL", "IMAGEHOST_TOKEN", "IMAGEHOST_CDN_URL")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def swift(client: C, retries: int = 3, **options: Any) -> C:
    """Return the client with retries that do not wait."""
    policy = RetryPolicy(max_retries=retries, base=0.0, cap=0.0)
    client.config = evolve(client.config, retry=policy, **options)
    return client


class Caller:
    """Makes the same call with one of both clients, so that a test is written once."""

    def __init__(self, sync: Callable[[], Client], asynchronous: Callable[[], AsyncClient] | None) -> None:
        self._sync = sync
        self._asynchronous = asynchronous

    def __call__(self, make: Callable[[Any], Any]) -> Any:
        """Return what `make` returns when it is given a client; lists are read to their ends."""
        if self._asynchronous is None:
            with swift(self._sync()) as client:
                result = make(client)
                return list(result) if isinstance(result, Pager | Iterator) else result
        return anyio.run(self._call, make)

    async def _call(self, make: Callable[[Any], Any]) -> Any:
        assert self._asynchronous is not None
        async with swift(self._asynchronous()) as client:
            result = make(client)
            if isinstance(result, AsyncPager | AsyncIterator):
                return [item async for item in result]
            return await result


@pytest.fixture
def host() -> FakeImageHost:
    """A fresh double."""
    return FakeImageHost()


@pytest.fixture
def client(host: FakeImageHost) -> Iterator[Client]:
    """A client of the double."""
    with swift(host.client()) as client:
        yield client


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, host: FakeImageHost) -> Caller:
    """Calls on the double, by each client."""
    return Caller(host.client, host.async_client if request.param == "async" else None)


@define
class Request:
    """A request as it came over a socket."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Behaviour = Callable[[socket.socket, "Unruly"], None]


@define
class Unruly:
    """A server on loopback that does what it is told: answer, drop, stall, or talk nonsense.

    Each request takes the next behaviour of the plan; after the plan, `otherwise` answers.
    """

    otherwise: Callable[[Request], bytes]
    plan: deque[Behaviour] = field(factory=deque)
    requests: list[Request] = field(factory=list)
    url: str = ""
    _listener: socket.socket = field(factory=socket.socket, repr=False)
    _stop: threading.Event = field(factory=threading.Event, repr=False)
    _threads: list[threading.Thread] = field(factory=list, repr=False)
    lock: threading.Lock = field(factory=threading.Lock, repr=False)

    def __enter__(self) -> Unruly:
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
                    behave = self.plan.popleft() if self.plan else answer_rightly
                behave(connection, self)
            except OSError:
                pass


def read_request(connection: socket.socket) -> Request:
    """Read a whole request."""
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


def answer_rightly(connection: socket.socket, server: Unruly) -> None:
    request = read_request(connection)
    with server.lock:
        server.requests.append(request)
        response = server.otherwise(request)
    connection.sendall(response)


def drop_at_once(connection: socket.socket, server: Unruly) -> None:
    """Close the connection before anything is read."""


def drop_after_reading(connection: socket.socket, server: Unruly) -> None:
    """Do what is asked, and close the connection without an answer."""
    request = read_request(connection)
    with server.lock:
        server.requests.append(request)
        server.otherwise(request)


def drop_within_body(connection: socket.socket, server: Unruly) -> None:
    """Close the connection in the middle of the request's body."""
    connection.recv(1024)


def drop_within_answer(connection: socket.socket, server: Unruly) -> None:
    """Close the connection in the middle of the answer."""
    request = read_request(connection)
    with server.lock:
        server.requests.append(request)
        response = server.otherwise(request)
    connection.sendall(response[: len(response) - 10])


def stall(connection: socket.socket, server: Unruly) -> None:
    """Read the request and never answer."""
    read_request(connection)
    while not server.stopped():
        time.sleep(0.01)


def say(response: bytes) -> Behaviour:
    """Read the request, and answer with these bytes."""

    def behave(connection: socket.socket, server: Unruly) -> None:
        read_request(connection)
        connection.sendall(response)

    return behave


def http(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Return an HTTP answer."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[FakeImageHost]:
    """Run the double behind a real HTTP server on loopback, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            url = double.base_url.removesuffix("/v1") + self.path
            request = httpx2.Request(
                self.command, url, headers=dict(self.headers.items()), content=self.rfile.read(length)
            )
            response = double.handle_request(request)
            self.send_response(response.status_code)
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ssl.SSLError):  # who does not trust it hangs up
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    origin = f"http://127.0.0.1:{server.server_port}"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        origin = f"https://localhost:{server.server_port}"
    double = FakeImageHost(base_url=f"{origin}/v1", cdn_url=f"{origin}/img")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield double
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def served() -> Iterator[FakeImageHost]:
    """The double behind a real HTTP server on loopback."""
    with serving() as double:
        yield double


def field_of(body: bytes, name: str) -> str | None:
    """Return a text field of form data."""
    found = re.search(rb'name="%s"\r\n\r\n(.*?)\r\n--' % name.encode(), body, re.DOTALL)
    return found[1].decode() if found else None
