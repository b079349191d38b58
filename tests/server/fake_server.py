"""Connections of the server without sockets: a transport, an event loop's clock and a server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, cast

from attrs import field, frozen, mutable
from uvicorn import Config
from uvicorn.server import ServerState

from imagehost_server.middleware.connections import ConnectionTable, OpenConnection
from imagehost_server.middleware.requests import RequestMiddleware
from imagehost_server.serve.protocol import HttpProtocol
from imagehost_server.serve.transport import BYTES_ACKNOWLEDGED
from imagehost_server.settings import HttpSettings

DATE = (b"date", b"Sat, 21 Nov 2026 12:00:00 GMT")


class FakeTransport(asyncio.Transport):
    """A transport that records what the server sends.

    Attributes:
        sent: The bytes that the server has sent.
        unread: The size of the write buffer, which the test sets.
        acknowledged: The bytes that the client has acknowledged, which the test sets.
        is_half_closed: Whether the server has called `write_eof`.
        closed_by: The method with which the server closed the connection: `close`, `abort`, or "".
    """

    def __init__(self, client: tuple[str, int] = ("127.0.0.1", 9), *, tls: bool = False) -> None:
        super().__init__(
            {
                "peername": client,
                "sockname": ("127.0.0.1", 80),
                "sslcontext": tls or None,
            }
        )
        self.sent = b""
        self.unread = self.acknowledged = 0
        self.is_half_closed = False
        self.closed_by = ""

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.closed_by
        assert not self.is_half_closed
        self.sent += data

    def is_closing(self) -> bool:
        return bool(self.closed_by)

    def close(self) -> None:
        self.closed_by = self.closed_by or "close"

    def abort(self) -> None:
        self.closed_by = "abort"

    def can_write_eof(self) -> bool:
        return not self.get_extra_info("sslcontext")

    def write_eof(self) -> None:
        self.is_half_closed = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the test calls `pause_writing`."""

    def pause_reading(self) -> None:
        """Do nothing: the test sends what it likes."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def get_write_buffer_size(self) -> int:
        return self.unread

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what a transport knows; itself as the socket, as far as the server asks for it."""
        return self if name == "socket" else super().get_extra_info(name, default)

    def getsockname(self) -> object:
        return self.get_extra_info("sockname")

    def getpeername(self) -> object:
        return self.get_extra_info("peername")

    def getsockopt(self, *_: int) -> bytes:
        """Return the `tcp_info`."""
        return BYTES_ACKNOWLEDGED.pack(self.acknowledged)


@frozen
class ParsedResponse:
    """The status, the headers by name in order, and the body of a response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @classmethod
    def parse(cls, data: bytes) -> ParsedResponse:
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = sorted((name, value) for name, _, value in (line.partition(": ") for line in lines))
        headers = dict(pairs)
        assert len(headers) == len(pairs)
        return cls(int(first.split()[1]), headers, body)

    def without_request_id(self) -> ParsedResponse:
        headers = {name: value for name, value in self.headers.items() if name != "x-request-id"}
        return ParsedResponse(self.status, headers, self.body)


@mutable(eq=False)
class FakeTimer:
    """A call at a time, unless it is cancelled before."""

    when: float
    call: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@mutable
class FakeLoop:
    """An event loop with a clock that the test advances; tasks run in the real event loop."""

    now: float = 0.0
    timers: list[FakeTimer] = field(factory=list)

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[..., object], *args: object) -> FakeTimer:
        self.timers.append(FakeTimer(self.now + delay, partial(call, *args)))
        return self.timers[-1]

    def call_soon(self, call: Callable[..., object], *args: object) -> asyncio.Handle:
        return asyncio.get_running_loop().call_soon(call, *args)

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(coroutine)

    def advance(self, seconds: float) -> None:
        """Advance the clock, and run the timers that are due meanwhile."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.when <= end]:
            timer = min(due, key=lambda timer: timer.when)
            self.timers.remove(timer)
            self.now = timer.when
            if not timer.cancelled:
                timer.call()
        self.now = end


@mutable
class FakeServer:
    """What the connections of a server share.

    Attributes:
        app: An `Application` or a double of it.
        protocol: The class of connections.
    """

    app: Any
    protocol: type[HttpProtocol] = HttpProtocol
    state: ServerState = field(factory=ServerState)
    loop: FakeLoop = field(factory=FakeLoop)

    def __attrs_post_init__(self) -> None:
        self.state.default_headers = [DATE]

    def connect(self, transport: FakeTransport, place: OpenConnection | None = None) -> HttpProtocol:
        """Return a new connection; to be called in a running event loop."""
        config = Config(
            lambda: self.app,
            factory=True,
            interface="asgi3",
            http=self.protocol,
            ws="none",
            log_config=None,
            proxy_headers=False,
        )
        config.load()
        loop = cast("asyncio.AbstractEventLoop", self.loop)
        connection = self.protocol(config, self.state, {}, loop, place)
        connection.connection_made(transport)
        return connection

    async def request(self, transport: FakeTransport, chunks: Iterable[bytes]) -> bytes:
        """Send a request in chunks on a new connection; return the bytes of all responses."""
        connection = self.connect(transport)
        for chunk in chunks:
            if not transport.closed_by:
                connection.data_received(chunk)
        while self.state.tasks:
            await asyncio.wait(self.state.tasks)
        connection.connection_lost(None)
        return transport.sent


TIMEOUT = 10.0
"""The header timeout of `AppDouble`, in seconds."""
SETTINGS = HttpSettings(header_timeout_seconds=TIMEOUT, max_connections=2)


class FastPathDouble:
    """A fast path that responds to requests for `/fast`."""

    unsent_bytes = 0

    def respond(self, request: bytes, *_: Any) -> tuple[bytes, bytes] | None:
        return (b"fast", b"\n") if request.startswith(b"GET /fast ") else None


@mutable
class AppDouble:
    """An application that responds when the test sets `go`.

    It records the paths of requests. Under `/begin` it sends the head of the response at once; under `/close`
    it ends the connection.
    """

    fast_path: FastPathDouble | None = field(factory=FastPathDouble)
    http: HttpSettings = SETTINGS
    security: RequestMiddleware = field(init=False)
    connections: ConnectionTable = field(init=False)
    paths: list[str] = field(factory=list)
    go: asyncio.Event = field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.security = RequestMiddleware(cast("Any", self))
        self.connections = ConnectionTable(self.http.max_connections, self.http.max_connections_per_client)

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        self.paths.append(scope["path"])
        if scope["path"] == "/begin":
            headers = [(b"content-length", b"2")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self.go.wait()
            await send({"type": "http.response.body", "body": b"ok", "more_body": False})
            return
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            pass
        if message["type"] == "http.disconnect":
            return
        await self.go.wait()
        headers = [(b"content-length", b"2")]
        headers += [(b"connection", b"close")] if scope["path"] == "/close" else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok", "more_body": False})


async def run_tasks(turns: int = 20) -> None:
    """Let the event loop run other tasks."""
    for _ in range(turns):
        await asyncio.sleep(0)
