"""One HTTP connection: what is read from it, in what time, and what is answered without the application.

uvicorn's protocol on llhttp, the parser of Node.js, reads the requests. Here it gets what it has not: a
deadline for whoever asks nothing and whoever reads nothing, bounds, answers in our form to what is no HTTP,
and the fast lane.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from imagehost_core.errors import BadRequestError, ImageHostError, UnavailableError
from imagehost_server.app import Application
from imagehost_server.delivery.fast_path import Peer
from imagehost_server.http.responses import RawResponse, failure
from imagehost_server.middleware.security import MAX_HEADER_BYTES

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, BaseTransport, TimerHandle, Transport
    from typing import Any

    from litestar.types import Receive, Scope, Send
    from uvicorn import Config
    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

MAX_HEAD_BYTES = 2 * MAX_HEADER_BYTES
"""All fields of a request, trailers too, and what may come of one line; the guard is stricter."""

EXTRA_CONNECTIONS = 512
"""How many connections beyond their bound are taken, to tell them so. More are cut off."""

MAX_PIPELINED = 100
"""How many requests of a connection may wait behind the one that is being answered."""

LINGER_SECONDS = 2.0
"""For how long what a client sends after its last answer is read and thrown away (RFC 9112, 9.6)."""
LINGER_BYTES = 2**20
"""How much of that."""

RETRY_SECONDS = 1
"""When to try again if there are too many connections: most live for less."""

VERSIONS = ("1.0", "1.1")


class HeadTooLongError(ImageHostError):
    """The lines of a request are too long, or too many (RFC 6585, 5)."""

    code = "BAD_REQUEST"
    status = 431
    default_message = "The request's headers are too long"


class HttpProtocol(HttpToolsProtocol):
    """A connection, as uvicorn makes one for each client; arguments as uvicorn gives them."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        application = cast("Application", config.loaded_app)
        self._fast_path = application.fast_path
        self._limits = application.connections
        self._peer = Peer("http", None)
        # Whether there were too many connections when this one came.
        self._over_capacity_at_connect = False
        # The request that is being answered; `cycle` is the newest one, which may wait behind it.
        self._active_cycle: RequestResponseCycle | None = None
        # Whether a part of a request has come, or of its head, and of how many bytes its fields are.
        self._is_reading, self._is_in_head, self._field_bytes = False, False, 0
        self._would_upgrade = False
        # Bytes of which the parser has told us nothing yet.
        self._unparsed_bytes = 0
        # Whether nothing more is read, and whether the last answer is on its way.
        self._is_over, self._is_lingering = False, False
        # Since when we wait for a request, by the loop's clock; `None` while it is our turn.
        self._waits_since: float | None = None
        self._unsent = 0
        self._timer: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin to wait for a request."""
        super().connection_made(cast("Transport", transport))
        if len(self.connections) > self._limits.max_connections + EXTRA_CONNECTIONS:
            self.transport.abort()
            return
        self._over_capacity_at_connect = len(self.connections) > self._limits.max_connections
        self._peer = Peer(self.scheme or "http", self.client)
        self._waits_since = self.loop.time()
        self._timer = self.loop.call_later(self._limits.header_timeout_seconds, self._check_deadlines)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        if self._timer is not None:
            self._timer.cancel()
        if self._active_cycle is not None:
            _stop(self._active_cycle)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Answer a whole request by the lane, or take a part of one."""
        if self._is_over:
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > LINGER_BYTES:
                self.transport.abort()
            return
        if (
            not self._is_reading
            and self._is_free()
            and not self.flow.write_paused
            and not self._over_capacity()
        ):
            answer = self._fast_path.answer(data, self._peer, self.server_state.default_headers)
            if answer is not None:
                self._waits_since = self.loop.time()
                self.transport.writelines(answer if answer[1] else answer[:1])
                return
        self._unparsed_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except HttpParserError:
            too_long = self._field_bytes > MAX_HEAD_BYTES
            self._reject(HeadTooLongError(_TOO_LONG) if too_long else BadRequestError("expected HTTP/1.1"))
        if self._unparsed_bytes > MAX_HEAD_BYTES and not self._is_over:
            self._reject(HeadTooLongError(_TOO_LONG))

    def eof_received(self) -> bool:  # type: ignore[override]
        """Give the answers that are due to a client that has said all it will say.

        Returns:
            Whether the connection stays open for them; never over TLS, where nobody can say so.
        """
        if not self._is_over and not self._is_free():
            if self.cycle.more_body:
                self._reject(BadRequestError("expected the whole body but received a part of it"))
            else:
                self.cycle.keep_alive = False
                self._is_over = True
        return not self._is_lingering and not self._is_free() and self.transport.can_write_eof()

    def on_message_begin(self) -> None:
        """Remember that a request has begun."""
        self._is_reading, self._is_in_head, self._field_bytes, self._unparsed_bytes = True, True, 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._unparsed_bytes = 0
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head. Nobody asks for those that follow a body in chunks (RFC 9110, 6.5.1)."""
        self._unparsed_bytes = 0
        self._count(len(name) + len(value))
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Give the request to the application, or say that there are too many connections."""
        self._unparsed_bytes, self._waits_since = 0, None
        version = self.parser.get_http_version()
        if version not in VERSIONS or self.parser.get_method() == b"CONNECT":
            raise ValueError("expected HTTP/1.1")
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("expected fewer requests at a time")
        self._is_in_head = False
        if self.parser.should_upgrade():
            self._would_upgrade = True
            return
        if self._over_capacity():
            self.app = partial(_refused, UnavailableError(_OVER_CAPACITY, retry_after=RETRY_SECONDS))
        # RFC 9110, 10.1.1: HTTP/1.0 does not know what to do with an answer before the answer.
        self.expect_100_continue = self.expect_100_continue and version != "1.0"
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Remember that the request has ended."""
        if not self._would_upgrade:
            self._is_reading, self._unparsed_bytes = False, 0
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, unless it is there."""
        super().on_response_complete()
        self._waits_since = self.loop.time() if self._is_free() else None

    def timeout_keep_alive_handler(self) -> None:
        """Do nothing: uvicorn's own timer knows nothing of the lane, and `_look` sees more."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._active_cycle = cycle
        super()._start_asgi_task(cycle, app)

    def _feed(self, data: bytes) -> None:
        """Give the parser what has come.

        We speak nothing that a connection could be upgraded to, and then the request counts as it stands
        (RFC 9110, 7.8). The parser takes it for one without a body, so it gets the head once more, without
        the wish.
        """
        while True:
            try:
                self.parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                self._would_upgrade = False
                version = self.parser.get_http_version().encode()
                lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
                lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
                data = b"\r\n".join([*lines, b"", data[upgrade.args[0] :]])
                self.parser = HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _is_free(self) -> bool:
        """Whether nothing is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _over_capacity(self) -> bool:
        """Whether there is no room for this connection; whoever was here before it goes on."""
        self._over_capacity_at_connect = (
            self._over_capacity_at_connect and len(self.connections) > self._limits.max_connections
        )
        return self._over_capacity_at_connect

    def _count(self, size: int) -> None:
        self._field_bytes += size
        if self._field_bytes > MAX_HEAD_BYTES:
            # The parser gives up.
            raise ValueError(_TOO_LONG)

    def _reject(self, error: ImageHostError) -> None:
        """Give the last answer of this connection. What was asked in order before is answered first."""
        self._is_over, self._unparsed_bytes = True, 0
        broken = None if self._is_free() else self.cycle
        if broken is not None and (broken.response_started or not broken.more_body):
            broken.keep_alive = False
        elif self.pipeline:
            self.pipeline[0] = self.cycle, partial(_refused, error)
        elif broken is None and self._is_reading and not self._is_in_head:
            # It is the rest of a request that has been answered already.
            self.transport.close()
        else:
            if broken is not None:
                _stop(broken)
            self._send_final(_last(error))

    def _send_final(self, reply: RawResponse) -> None:
        """Send an answer past the application, and end the connection when it has been read."""
        self._is_lingering = True
        date = ((name.decode(), value.decode()) for name, value in self.server_state.default_headers)
        fields = (*date, *reply.headers, ("content-length", f"{len(reply.body)}"))
        lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in fields]
        # RFC 9110, 9.3.2: an answer to HEAD has the fields of the one to GET, and no content.
        body = b"" if self.parser.get_method() == b"HEAD" else reply.body
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        # Closing at once would reset the connection if more has come, and the answer could be lost.
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.close)
        else:
            self.transport.close()

    def _check_deadlines(self) -> None:
        """End the connection if its client has done nothing for too long; otherwise look again later."""
        now, seconds = self.loop.time(), self._limits.header_timeout_seconds
        unsent, before = self.transport.get_write_buffer_size(), self._unsent
        if unsent and unsent == before:
            # Not a byte has been taken since the last look.
            self.transport.abort()
            return
        self._unsent = unsent
        if unsent and self._waits_since is not None:
            self._waits_since = now
        rest = seconds if self._waits_since is None else self._waits_since + seconds - now
        if rest <= 0:
            self.transport.close()
        else:
            self._timer = self.loop.call_later(rest, self._check_deadlines)


_TOO_LONG = f"expected at most {MAX_HEAD_BYTES} bytes of headers but received more"
_OVER_CAPACITY = "expected fewer connections at a time"


def _stop(cycle: RequestResponseCycle) -> None:
    """Tell the application that nobody will get its answer; what it sends is thrown away."""
    cycle.disconnected, cycle.waiting_for_100_continue = True, False
    cycle.message_event.set()


def _last(error: ImageHostError) -> RawResponse:
    """Return the answer with which a connection ends."""
    request_id = uuid4().hex[:24]
    reply = failure(error, request_id)
    own = (("x-request-id", request_id), ("connection", "close"))
    return RawResponse(reply.status, reply.body, (*reply.headers, *own))


async def _refused(error: ImageHostError, _scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer a request that the application does not get to see."""
    await _last(error).send(send)
