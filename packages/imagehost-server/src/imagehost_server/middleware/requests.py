"""The middleware around all routes: checks and headers of every request.

It assigns the request id, rejects plain HTTP from other machines, ambiguous headers and more concurrent
requests than a client may have, turns unhandled exceptions into 500, and writes the access log.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from ipaddress import ip_network
from random import Random
from typing import TYPE_CHECKING

from litestar.enums import ScopeType

from imagehost_core.errors import ImageHostError, UnavailableError
from imagehost_core.limits import Decision
from imagehost_core.services.delivery import Blob
from imagehost_server.auth.identity import rate_limit_headers
from imagehost_server.http.client_address import UntrustedProxyDetector, resolve_client
from imagehost_server.http.response_body import WHOLE_BYTES, HeldBody, Spool, send_in_pieces
from imagehost_server.http.responses import error_response
from imagehost_server.metrics import FILES_COUNTED, UNROUTED, Recorder
from imagehost_server.middleware.access_log import AccessLog, access_fields
from imagehost_server.middleware.concurrency import ConcurrencyLimiter
from imagehost_server.middleware.header_checks import is_https, is_probe, require_valid_request
from imagehost_server.middleware.request_body import DRAIN_TIMEOUT, RequestBody
from imagehost_server.middleware.response_cut import CUT, ResponseCutError

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Message, Receive, ReceiveMessage, Scope, Send

RawHeaders = list[tuple[bytes, bytes]]

ReceivedHeaders = Iterable[tuple[bytes, bytes]]

REQUEST_ID_BITS = 96
"""Enough to be unique in any log. Request ids are not secret, so a pseudo-random generator will do."""

REJECTED = "rejected"
"""The member of `scope["state"]` of a request that the HTTP protocol has rejected and logged: the status."""

CONNECTION_CLOSE = ((b"connection", b"close"),)

_STOPPING = "the server is stopping"


class RequestMiddleware:
    """An ASGI application around another.

    Args:
        app: The application that handles accepted requests.
        trusted_proxies: IP addresses and networks whose `X-Forwarded-*` headers are trusted.
        log_access: Whether each request is logged.
        hsts_seconds: `max-age` of `Strict-Transport-Security`; 0 = the header is not sent.
        max_concurrent_requests_per_client: Concurrent requests of one IP address; 0 = unlimited.
        drain_timeout: Seconds that a response waits for the rest of an unread body.
        cors_headers: Returns the CORS headers of a response, by its status, and the path and headers of the
            request; for responses of every layer, so that pages can read all errors.
        count_rejected: Counts a request that is rejected by its headers alone, so that the response has the
            headers of the rate limits.
        recorder: Counts the requests; by default one of its own.
        spool: Where large bodies are kept for clients that read slowly; by default in memory.

    Attributes:
        is_stopped: Whether the application stops, after which the host is closed: a request that comes on a
            connection that is still open gets 503.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        trusted_proxies: Iterable[str] = (),
        log_access: bool = True,
        hsts_seconds: int = 0,
        max_concurrent_requests_per_client: int = 0,
        drain_timeout: float = DRAIN_TIMEOUT,
        cors_headers: Callable[[int, str, ReceivedHeaders], RawHeaders] = lambda _status, _path, _headers: [],
        count_rejected: Callable[[HTTPScope], Awaitable[None]] | None = None,
        recorder: Recorder | None = None,
        spool: Spool | None = None,
    ) -> None:
        self.app = app
        self.recorder = recorder or Recorder()
        self._count_rejected = count_rejected
        self._spool = spool
        self.cors_headers = cors_headers
        self.trusted = tuple(ip_network(entry) for entry in trusted_proxies)
        self.proxies = UntrustedProxyDetector()
        self.is_stopped = False
        self.access_log = AccessLog(is_on=log_access)
        self.in_progress = ConcurrencyLimiter(max_concurrent_requests_per_client)
        self._drain_timeout = drain_timeout
        self._random = Random(os.urandom(REQUEST_ID_BITS))  # noqa: S311 - not secret
        max_age = f"max-age={hsts_seconds}".encode()
        self._hsts = ((b"strict-transport-security", max_age),) if hsts_seconds else ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; lifespan events are passed on unchanged."""
        if scope["type"] != ScopeType.HTTP:
            await self.app(scope, partial(self._receive_lifespan, receive), send)
            return
        started, path = time.perf_counter(), scope["path"]
        request_id = self.new_request_id()
        ip_address, named_client = resolve_client(scope, self.trusted)
        self.proxies.observe(ip_address, named_client)
        state = scope.setdefault("state", {})
        state.update(request_id=request_id, ip_address=ip_address)
        body = RequestBody(scope, receive, drain_timeout=self._drain_timeout)
        over_https = is_https(scope, self.trusted)
        common = self.common_headers(request_id, over_https)
        headers = scope["headers"]
        # `path`, as the layers within change that of the scope.
        cors = lambda status: self.cors_headers(status, path, headers)  # noqa: E731 - one use, one line
        sender = _ResponseSender(send, body, common, state, cors, self._spool)
        try:
            if self.is_stopped:
                raise UnavailableError(_STOPPING)
            await self._require_valid_request(scope)
            sender.may_drain = True
            # Clients that stall must not keep a load balancer at the same address from probing.
            key = None if is_probe(scope) else self.in_progress.acquire(ip_address)
            try:
                await self.app(scope, body, sender.send)
                await sender.finish()
            finally:
                if key is not None:
                    self.in_progress.release(key)
        except asyncio.CancelledError:
            # The server stops, and the grace period is over.
            if sender.status:
                raise
            sender.may_drain = False
            await error_response(UnavailableError(_STOPPING), state).send(sender.send)
        except Exception as error:
            if CUT in state:
                return
            response = error_response(error, state)
            # A response that has begun is cut off by closing the connection, so that the client notices.
            if sender.status:
                raise
            await response.send(sender.send)
            await sender.finish()
        finally:
            route = str(state.get("route") or scope.get("path_template", UNROUTED))
            if REJECTED not in state:
                method, status, seconds = scope["method"], sender.status, time.perf_counter() - started
                cut, sent_bytes = state.get(CUT), sender.sent_bytes
                if cut is not None:
                    sent_bytes = max(0, sent_bytes - cut.unsent_bytes)
                    self.recorder.response_cut(cut.reason)
                self.recorder.request(
                    method, route, status, seconds, body.received_bytes, sent_bytes, request_id
                )
                is_upload = method == "POST" and path.endswith("/upload")
                if is_upload and status >= 400 and FILES_COUNTED not in state:
                    self.recorder.upload_refused(status)
                fields = access_fields(state)
                if cut is not None:
                    fields |= {"cut": cut.reason, "sent_bytes": sent_bytes}
                self.access_log.request(method, path, ip_address, status, request_id, seconds, **fields)

    async def _require_valid_request(self, scope: HTTPScope) -> None:
        try:
            require_valid_request(scope, self.trusted)
        except ImageHostError:
            if self._count_rejected is not None:
                await self._count_rejected(scope)
            raise

    async def _receive_lifespan(self, receive: Receive) -> ReceiveMessage:
        message: ReceiveMessage = await receive()
        # `Receive` has no type for the messages of a lifespan.
        self.is_stopped = str(message["type"]) == "lifespan.shutdown"
        return message

    def new_request_id(self) -> str:
        """Return a new request id."""
        return f"{self._random.getrandbits(REQUEST_ID_BITS):0{REQUEST_ID_BITS // 4}x}"

    def common_headers(self, request_id: str, over_https: bool) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers of every response."""
        # RFC 6797, 7.2: HSTS must not be sent over plain HTTP.
        return ((b"x-request-id", request_id.encode()), *(self._hsts if over_https else ()))

    def common_lines(self, request_id: str, over_https: bool) -> bytes:
        """Return the headers of every response in HTTP/1.1."""
        common = b"x-request-id: %b\r\n" % request_id.encode()
        return common if not over_https else common + b"".join(b"%b: %b\r\n" % pair for pair in self._hsts)


class _ResponseSender:
    """The `send` callable of a request: adds the headers of all layers in one pass, and records the status.

    Args:
        send: The server's `send` callable.
        body: The body of the request.
        headers: The common headers.
        state: The state of the request, which has the decision of the rate limits if it was counted.
        cors: Returns the CORS headers, by the status.
        spool: Where large bodies are kept for clients that read slowly.

    Attributes:
        may_drain: Whether an unread body may be drained; not before the request has been validated.
        status: The status of the response; 0 = it has not begun.
        sent_bytes: The bytes of the response's body that were sent.
    """

    def __init__(
        self,
        send: Send,
        body: RequestBody,
        headers: tuple[tuple[bytes, bytes], ...],
        state: Mapping[str, object],
        cors: Callable[[int], RawHeaders],
        spool: Spool | None,
    ) -> None:
        self._send = send
        self._body = body
        self._headers = headers
        self._state = state
        self._cors = cors
        self._spool = spool
        self._held: HeldBody | None = None
        self.may_drain = False
        self.status = self.sent_bytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            must_close = self._body.has_unread and await self._body.drain(read=self.may_drain)
            # Read late: a sign-in replaces the decision if its own windows are tighter.
            decision = self._state.get("decision")
            limits = rate_limit_headers(decision) if isinstance(decision, Decision) else ()
            close = CONNECTION_CLOSE if must_close else ()
            # The message may be cached by the application, so it is copied.
            headers = [*message["headers"], *limits, *self._headers, *close, *self._cors(self.status)]
            message = {**message, "headers": headers}
        elif message["type"] == "http.response.body" and len(message["body"]) > WHOLE_BYTES:
            if message.get("more_body", False):
                await send_in_pieces(message, self.send)
            else:
                self._held = HeldBody(Blob(message["body"]), self._spool)
            return
        await self._send(message)
        if CUT in self._state:
            raise ResponseCutError
        if message["type"] == "http.response.body":
            self.sent_bytes += len(message["body"])

    async def finish(self) -> None:
        """Send the large body of a complete response, whose application has ended."""
        if self._held is not None:
            await self._held.send(self.send)
