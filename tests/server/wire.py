"""Connections of the server without a socket: what is sent into them, and what comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, cast

from attrs import field, frozen, mutable
from uvicorn import Config
from uvicorn.server import ServerState

from imagehost_server.serve.protocol import HttpProtocol

DATE = (b"date", b"Sat, 21 Nov 2026 12:00:00 GMT")


class Wire(asyncio.Transport):
    """The end of a connection at which the client is; it reads as soon as it is asked to.

    Attributes:
        sent: What the server has sent.
        kept: What of it the client has not taken yet.
        has_said_all: Whether the server has said that it sends nothing more.
        ended: How the server ended the connection: `close` or `abort`.
    """

    def __init__(self, client: tuple[str, int] = ("127.0.0.1", 9), *, tls: bool = False) -> None:
        super().__init__({"peername": client, "sockname": ("127.0.0.1", 80), "sslcontext": tls or None})
        self.sent = b""
        self.kept = 0
        self.has_said_all = False
        self.ended = ""

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.ended
        assert not self.has_said_all
        self.sent += data

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = self.ended or "close"

    def abort(self) -> None:
        self.ended = "abort"

    def can_write_eof(self) -> bool:
        return not self.get_extra_info("sslcontext")

    def write_eof(self) -> None:
        self.has_said_all = True

    def pause_reading(self) -> None:
        """Do nothing: whoever writes to this decides how much."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def get_write_buffer_size(self) -> int:
        return self.kept


@frozen
class Answer:
    """An answer, taken apart: the status, the headers by name in order, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @classmethod
    def of(cls, sent: bytes) -> Answer:
        head, _, body = sent.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = sorted((name, value) for name, _, value in (line.partition(": ") for line in lines))
        headers = dict(pairs)
        assert len(headers) == len(pairs)
        return cls(int(first.split()[1]), headers, body)

    def without_id(self) -> Answer:
        kept = {name: value for name, value in self.headers.items() if name != "x-request-id"}
        return Answer(self.status, kept, self.body)


@mutable(eq=False)
class Timer:
    """What is called at a moment, unless it is cancelled before."""

    when: float
    call: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@mutable
class Clock:
    """An event loop whose time stands still until the test turns it."""

    now: float = 0.0
    timers: list[Timer] = field(factory=list)

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[..., object], *args: object) -> Timer:
        self.timers.append(Timer(self.now + delay, partial(call, *args)))
        return self.timers[-1]

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(coroutine)

    def advance(self, seconds: float) -> None:
        """Let time pass, and call what is due on the way."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.when <= end]:
            timer = min(due, key=lambda timer: timer.when)
            self.timers.remove(timer)
            self.now = timer.when
            if not timer.cancelled:
                timer.call()
        self.now = end


@mutable
class Server:
    """What the connections of one server share; `app` is an `Application`, or what stands in for one."""

    app: Any
    state: ServerState = field(factory=ServerState)
    clock: Clock = field(factory=Clock)

    def __attrs_post_init__(self) -> None:
        self.state.default_headers = [DATE]

    def connect(self, wire: Wire) -> HttpProtocol:
        """Return a connection; to be called in a running loop."""
        config = Config(
            lambda: self.app,
            factory=True,
            interface="asgi3",
            http=HttpProtocol,
            ws="none",
            log_config=None,
            proxy_headers=False,
        )
        config.load()
        connection = HttpProtocol(config, self.state, {}, cast("asyncio.AbstractEventLoop", self.clock))
        connection.connection_made(wire)
        return connection

    async def ask(self, wire: Wire, pieces: Iterable[bytes]) -> bytes:
        """Send a request in pieces; return what is sent until all of it is answered."""
        connection = self.connect(wire)
        for piece in pieces:
            if not wire.ended:
                connection.data_received(piece)
        while self.state.tasks:
            await asyncio.wait(self.state.tasks)
        connection.connection_lost(None)
        return wire.sent
