"""The protocol of one HTTP connection: parser, deadlines, limits, and responses without the application.

uvicorn's protocol parses requests with llhttp, the parser of Node.js, and runs the ASGI application. This one
adds deadlines for silent clients, limits, errors in the form of the JSON API, and the fast path.
"""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from imagehost_core.errors import BadRequestError, ImageHostError, UnavailableError
from imagehost_server.app import Application
from imagehost_server.delivery.fast_path import Peer
from imagehost_server.middleware.response_cut import CUT, TRANSPORT, Cut
from imagehost_server.serve.rejection import UNKNOWN, Rejection, send_error, serve_probe, to_bad_request
from imagehost_server.serve.request_head import (
    FEED_BYTES,
    HeadLimit,
    loggable_path,
    parse_request_target,
    require_http_1,
)
from imagehost_server.serve.states import (
    AWAITING_CLIENT,
    EVICTABLE,
    IN_HEAD,
    MAY_RECEIVE_MORE,
    READING_STOPPED,
    Event,
    State,
    next_state,
)
from imagehost_server.serve.transport import (
    LingeringClose,
    ReadProgress,
    ResponseTransport,
    acknowledged_bytes,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, BaseTransport, TimerHandle, Transport
    from typing import Any

    from litestar.types import HTTPScope as LitestarScope
    from uvicorn import Config
    from uvicorn._types import ASGI3Application, HTTPScope
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    from imagehost_server.middleware.connections import OpenConnection

MAX_PIPELINED = 100
"""Requests of a connection that may wait behind the one in progress."""

RETRY_SECONDS = 1
"""`Retry-After` of a response to too many connections: most live for a shorter time."""

EXTRA_SECONDS = 2.0
"""Time for the head of a request on a connection beyond the limits."""


class HttpProtocol(HttpToolsProtocol):
    """A connection. uvicorn creates one per client, and `TlsListener` one with a place in the table.

    Attributes:
        state: What the connection does next.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
        place: OpenConnection | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.state = State.IDLE
        application = cast("Application", config.loaded_app)
        self._fast_path = application.fast_path
        self._security = application.security
        self._settings = application.http
        self._table = application.connections
        self._peer = Peer("http", None)
        # `None` until the connection is made.
        self._place = place
        # The request whose application runs; `self.cycle` is the newest, which may wait behind it.
        self._active_cycle: RequestResponseCycle | None = None
        self._head_limit = HeadLimit()
        # The start of the time in which the client must send something, by the loop's clock.
        self._waiting_since = self.loop.time()
        # `None` if nothing waited for the client at the last check of the deadlines.
        self._progress: ReadProgress | None = None
        # The head of the last response on the fast path, if it had to wait.
        self._unsent_head = b""
        self._unsent_bytes = 0
        self._timer: TimerHandle | None = None
        # When the newest request began, by `time.perf_counter()`.
        self._request_started = 0.0
        # An invalid pipelined request, which is rejected after the responses to earlier ones.
        self._rejection: Rejection | None = None
        self._is_half_closed = False
        self._lingering: LingeringClose | None = None

    def advance(self, event: Event) -> None:
        """Change the state."""
        state = next_state(self.state, event)
        if state in AWAITING_CLIENT and self.state not in AWAITING_CLIENT:
            self._waiting_since = self.loop.time()
        if self._place is not None and (state in EVICTABLE) is not (self.state in EVICTABLE):
            (self._place.set_idle if state in EVICTABLE else self._place.set_busy)()
        self.state = state

    # Callbacks of the transport.

    def connection_made(self, transport: BaseTransport) -> None:
        """Start the deadline of the first request, or abort if there are far too many connections."""
        super().connection_made(cast("Transport", transport))
        if self._place is not None:
            self._place.set_evict(self._evict)
        else:
            self._place = self._table.add(self.client[0] if self.client else "", self._evict)
        if not self._place.is_open:
            self._abort()
            return
        # A response goes on when all that was written before has reached the kernel. With 0, one of TLS
        # pauses also when nothing waits.
        self.transport.set_write_buffer_limits(high=1)
        self._peer = Peer(self.scheme or "http", self.client)
        self._waiting_since = self.loop.time()
        self._timer = self.loop.call_later(self._head_seconds(), self._check_deadlines)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer and the application."""
        if self._place is not None:
            self._place.remove()
        self.advance(Event.CLOSE)
        self._count_unsent(0)
        if self._timer is not None:
            self._timer.cancel()
        if self._lingering is not None:
            self._lingering.cancel()
        if self._active_cycle is not None:
            self._disconnect_response(self._active_cycle)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Respond to a whole request on the fast path, or parse a part of one."""
        if self._lingering is not None:
            self._lingering.discard(len(data))
        elif self.state is State.CLOSING:
            # `_linger` resumes reading.
            self.flow.pause_reading()
        elif not self._try_fast_path(data):
            self._parse(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Send the due responses to a client that sends no more.

        Returns:
            Whether the connection stays open for them; never over TLS, which cannot be half-closed.
        """
        self._is_half_closed = True
        if self.state is State.READING_BODY:
            self._reject(BadRequestError("expected the whole body but received a part of it"))
        elif self.state in (State.RESPONDING, State.READING_NEXT_HEAD):
            self._close_after_response(self.cycle)
        return self.state is State.CLOSING and self.transport.can_write_eof()

    def resume_writing(self) -> None:
        """Let the next response begin, since the kernel has taken what waited."""
        super().resume_writing()
        self._count_unsent(0)

    # Callbacks of the parser. An exception in one of them becomes an HttpParserError.

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.advance(Event.MESSAGE_BEGIN)
        self._head_limit.begin_request()
        self._request_started = time.perf_counter()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Add a part of the request target."""
        super().on_url(url)
        self._head_limit.set_target_size(len(self.url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header. Trailers are discarded (RFC 9110, 6.5.1)."""
        self._head_limit.add_field(len(name) + len(value))
        if self.state in IN_HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Pass the request to the application; beyond the limits of connections only if it is a probe."""
        self._head_limit.set_parsed()
        method = self.parser.get_method()
        version = self.parser.get_http_version()
        require_http_1(method, version)
        if len(self.pipeline) >= MAX_PIPELINED:
            raise BadRequestError(f"expected at most {MAX_PIPELINED} pipelined requests")
        if self.parser.should_upgrade():
            # `_feed` parses the head again.
            return
        target = parse_request_target(method, self.url)
        self.url = target.path_and_query
        target.replace_host(self.headers)
        if not self._admit():
            error = UnavailableError("expected fewer connections at a time", retry_after=RETRY_SECONDS)
            self.app = partial(serve_probe, self.app, self._security, error)
        # RFC 9110, 10.1.1: an HTTP/1.0 client does not understand 100 Continue.
        self.expect_100_continue = self.expect_100_continue and version != "1.0"
        super().on_headers_complete()
        self.advance(Event.HEAD_COMPLETE)

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._head_limit.add_body(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        if not self.parser.should_upgrade():
            self.advance(Event.MESSAGE_COMPLETE)
            self._head_limit.set_parsed()
            super().on_message_complete()

    # Callbacks of uvicorn.

    def on_response_complete(self) -> None:
        """Start the next pipelined request, or wait for one.

        uvicorn's method would start a timer for each response; `_check_deadlines` has one per connection.
        """
        if self.transport.is_closing():
            self.advance(Event.CLOSE)
            return
        self.flow.resume_reading()
        if self.state is State.LINGERING:
            self.pipeline.clear()
        elif self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._rejection is not None:
            self._send_final(self._rejection)
        else:
            self.advance(Event.RESPONSE_COMPLETE)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._active_cycle = cycle
        is_last = self._table.is_draining and not self.pipeline
        cycle.keep_alive = cycle.keep_alive and not is_last and self._admit()
        cycle.transport = cycle.scope["state"][TRANSPORT] = ResponseTransport(
            self.transport, self.loop, cycle, self._end_last_response, self._disconnect_response
        )
        super()._start_asgi_task(cycle, app)

    # Reading.

    def _try_fast_path(self, data: bytes) -> bool:
        """Return whether the fast path has responded."""
        if (
            self._fast_path is None
            or self.state is not State.IDLE
            or self.flow.write_paused
            or self._table.is_draining
            or not self._admit()
        ):
            return False
        response = self._fast_path.respond(data, self._peer, self.server_state.default_headers)
        if response is None:
            return False
        self._waiting_since = self.loop.time()
        if self._place is not None:
            self._place.set_idle()
        head, body = response
        self.transport.writelines((head, body) if body else (head,))
        unsent = self.transport.get_write_buffer_size()
        self._unsent_head = head if unsent else b""
        if unsent:
            self._count_unsent(unsent)
        return True

    def _count_unsent(self, unsent: int) -> None:
        """Count the bytes of a response on the fast path that wait for the client."""
        if self._fast_path is not None:
            self._fast_path.unsent_bytes += unsent - self._unsent_bytes
            self._unsent_bytes = unsent

    def _parse(self, data: bytes) -> None:
        """Parse data, and reject the request if it is invalid."""
        for start in range(0, len(data), FEED_BYTES):
            if self.state not in READING_STOPPED:
                self._parse_part(data[start : start + FEED_BYTES])

    def _parse_part(self, data: bytes) -> None:
        self._head_limit.add_unparsed(len(data))
        try:
            self._feed(data)
        except HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, AssertionError):
                raise cause from None
            self._reject(cause if isinstance(cause, ImageHostError) else to_bad_request(error))
        too_large = self._head_limit.error()
        if too_large is not None and self.state not in READING_STOPPED:
            self._reject(too_large)

    def _feed(self, data: bytes) -> None:
        """Pass data to the parser.

        No upgrade is supported, so `Upgrade` is ignored (RFC 9110, 7.8). The parser treats a request with it
        as one without a body, so a new parser parses the head again without `Upgrade`.
        """
        while True:
            try:
                self.parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                self.advance(Event.REPARSE)
                version = self.parser.get_http_version().encode()
                lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
                lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
                data = b"\r\n".join([*lines, b"", data[upgrade.args[0] :]])
                self.parser = HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _admit(self) -> bool:
        """Admit the connection if the limits allow it; return whether it is, or was before."""
        return self._place is not None and self._place.admit()

    def _head_seconds(self) -> float:
        """Return the time for the head of a request."""
        timeout = self._settings.header_timeout_seconds
        is_extra = self._place is not None and not self._place.is_admitted
        return min(timeout, EXTRA_SECONDS) if is_extra else timeout

    # Ending a connection.

    def _reject(self, error: ImageHostError) -> None:
        """End the connection because of an invalid request; earlier requests get their responses first."""
        self._head_limit.set_parsed()
        if self.state is State.DISCARDING_BODY:
            # The invalid request has had its response.
            self._close()
        elif self.state in (State.RESPONDING, State.READING_NEXT_HEAD):
            self._rejection = self._rejected(error)
            self.advance(Event.STOP_READING)
        elif self.state is State.READING_BODY:
            self._reject_body(error)
        else:
            self._send_final(self._rejected(error))

    def _reject_body(self, error: ImageHostError) -> None:
        """Reject a request whose response is due."""
        if self.cycle.response_started:
            self._close_after_response(self.cycle)
        elif self.pipeline:
            # It waits behind others: the error is sent in its turn.
            self.pipeline[0] = self.cycle, partial(send_error, self._security, error)
            self.advance(Event.STOP_READING)
        else:
            _disconnect(self.cycle)
            self._send_final(self._rejected(error))

    def _rejected(self, error: ImageHostError) -> Rejection:
        """Return the rejection of the newest request, or of data that begins none."""
        scope, method, path, started = self.scope, UNKNOWN, UNKNOWN, self._request_started
        if self.state in (State.IDLE, State.RESPONDING):
            scope = cast("HTTPScope", {"client": self.client, "scheme": self.scheme, "headers": []})
            started = time.perf_counter()
        elif self.url:
            method = self.parser.get_method().decode()
            path = loggable_path(self.url)
        return Rejection(error, method, path, cast("LitestarScope", scope), started)

    def _close_after_response(self, cycle: RequestResponseCycle) -> None:
        cycle.keep_alive = False
        self.advance(Event.STOP_READING)

    def _send_final(self, rejection: Rejection) -> None:
        """Send a response without the application, and close the connection when the client has read it."""
        self.transport.write(rejection.respond(self._security, self.server_state.default_headers))
        self._linger()

    def _end_last_response(self, cycle: RequestResponseCycle) -> None:
        """Close the connection after a response, or after a part of one that the application did not end."""
        may_receive_more = self.state in MAY_RECEIVE_MORE or bool(self.pipeline)
        is_open = not self.transport.is_closing() and not self._is_half_closed
        if cycle.response_complete and may_receive_more and is_open:
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        self.advance(Event.FINAL_RESPONSE)
        self.flow.resume_reading()
        self._lingering = LingeringClose(self.loop, self.transport)

    def _close(self) -> None:
        self.advance(Event.CLOSE)
        self.transport.close()

    def _evict(self) -> bool:
        """Close the connection for another one, once it has sent its response; return whether it had."""
        if self.transport.get_write_buffer_size():
            self._close()
            return False
        self._abort()
        return True

    def _abort(self) -> None:
        self.advance(Event.CLOSE)
        self.transport.abort()

    def _check_deadlines(self) -> None:
        """Close the connection if the client sends nothing or reads too slowly; else check again."""
        now = self.loop.time()
        timeout = self._head_seconds()
        if self.transport.get_write_buffer_size():
            self._waiting_since = now
            if self._is_too_slow(now):
                self._cut()
                return
        else:
            self._progress = None
        remaining = self._waiting_since + timeout - now if self.state in AWAITING_CLIENT else timeout
        if remaining <= 0:
            self._close()
            return
        if self._progress is not None:
            remaining = min(remaining, self._progress.deadline - now)
        self._timer = self.loop.call_later(remaining, self._check_deadlines)

    def _is_too_slow(self, now: float) -> bool:
        """Return whether the client, for which bytes wait, has read too slowly until now."""
        acknowledged = acknowledged_bytes(self.transport)
        if acknowledged is None:
            return False
        progress = self._progress or ReadProgress.start(acknowledged, now)
        self._progress = progress.update(acknowledged, now)
        return self._progress is None

    def _cut(self) -> None:
        """Abort the connection because the client reads its response too slowly."""
        unsent = self.transport.get_write_buffer_size()
        if not self._mark_cut("slow", unsent):
            # The response was complete for the application, which has logged it.
            self._security.recorder.response_cut("slow")
            self._security.access_log.response_cut(self.client, self._last_request_id(), unsent)
        self._abort()

    def _disconnect_response(self, cycle: RequestResponseCycle) -> None:
        """End a response whose client has closed the connection."""
        self._mark_cut("disconnected", 0)
        _disconnect(cycle)

    def _mark_cut(self, reason: str, unsent_bytes: int) -> bool:
        """Tell the application that its response is cut; return whether one is in progress."""
        cycle = self._active_cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            return False
        cycle.scope["state"].setdefault(CUT, Cut(reason, unsent_bytes))
        return True

    def _last_request_id(self) -> str:
        """Return the id of the last request that got a response."""
        match = re.search(rb"\r\nx-request-id: (\w+)", self._unsent_head)
        if match is not None:
            return match[1].decode()
        scope = self._active_cycle.scope if self._active_cycle is not None else None
        return str(scope["state"].get("request_id", UNKNOWN)) if scope is not None else UNKNOWN


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Report to the application that the client has disconnected; what it sends is discarded."""
    cycle.disconnected, cycle.waiting_for_100_continue = True, False
    cycle.message_event.set()
