"""The middleware around all routes: checks and headers of every request.

It assigns the request id, rejects plain HTTP from other machines, ambiguous headers and more concurrent
requests than a client may have, turns unhandled exceptions into 500, and writes the access log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from asyncio import Transport
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from ipaddress import ip_network
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from anyio import move_on_after
from litestar.enums import ScopeType

from imagehost_core.errors import (
    BadRequestError,
    FieldError,
    ForbiddenError,
    ImageHostError,
    RateLimitError,
    UnavailableError,
    quote_value,
)
from imagehost_core.limits import Decision, ip_address_key
from imagehost_core.services.delivery import Blob
from imagehost_core.tokens import hide_tokens
from imagehost_server.auth.identity import rate_limit_headers
from imagehost_server.http.client_address import Network, client_address, is_trusted_proxy
from imagehost_server.http.response_body import WHOLE_BYTES, HeldBody, Spool, send_in_pieces
from imagehost_server.http.responses import error_response
from imagehost_server.metrics import FILES_COUNTED, UNROUTED, Recorder
from imagehost_server.settings import is_loopback

if TYPE_CHECKING:
    from litestar.types import (
        ASGIApp,
        HTTPReceiveMessage,
        HTTPScope,
        Message,
        Receive,
        ReceiveMessage,
        Scope,
        Send,
        WebSocketReceiveMessage,
    )


CONCURRENCY_RETRY_SECONDS = 1
"""`Retry-After` of a request beyond the limit of concurrent ones: most requests take less."""


class ConcurrencyLimiter:
    """The number of requests in progress, by client IP address; not thread-safe, for one event loop.

    Args:
        limit: Concurrent requests per IP address; 0 = unlimited.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_progress: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of IP addresses with a request in progress."""
        return len(self._in_progress)

    def acquire(self, ip_address: str) -> str:
        """Count a request, and return the key to `release` it with.

        Args:
            ip_address: The client's IP address; of IPv6, all addresses of one network share a limit.

        Raises:
            RateLimitError: The IP address has `limit` requests in progress.
        """
        key = ip_address_key(ip_address)
        in_progress = self._in_progress.get(key, 0)
        if in_progress >= self._limit > 0:
            expected = f"expected at most {self._limit} concurrent requests from one IP address"
            raise RateLimitError(f"{expected} but received one more", retry_after=CONCURRENCY_RETRY_SECONDS)
        self._in_progress[key] = in_progress + 1
        return key

    def release(self, key: str) -> None:
        """Stop counting a request.

        Args:
            key: The value that `acquire` returned.
        """
        remaining = self._in_progress.pop(key) - 1
        if remaining:
            self._in_progress[key] = remaining


MAX_DRAIN_BYTES = 64 * 2**10
"""The largest declared length of a body that is drained."""

DRAIN_TIMEOUT = 1.0
"""Seconds that a response waits for the rest of the body."""


class RequestBody:
    """The `receive` callable of a request, which knows whether a part of the body is unread.

    Args:
        scope: The request.
        receive: The server's `receive` callable.
        drain_timeout: Seconds that `drain` waits.

    Attributes:
        has_unread: Whether a part of the body is unread.
        received_bytes: The bytes that were read.
    """

    def __init__(self, scope: HTTPScope, receive: Receive, *, drain_timeout: float = DRAIN_TIMEOUT) -> None:
        self._receive = receive
        self._drain_timeout = drain_timeout
        headers = dict(scope["headers"])
        has_coding = b"transfer-encoding" in headers
        length = headers.get(b"content-length", b"0")
        declared = int(length) if length.isdigit() else MAX_DRAIN_BYTES + 1
        # With Expect, reading would request the body that the client has held back.
        self._can_drain = declared <= MAX_DRAIN_BYTES and not has_coding and b"expect" not in headers
        self._is_http_1 = scope["http_version"].startswith("1")
        self.has_unread = has_coding or declared > 0
        self.received_bytes = 0

    async def __call__(self) -> HTTPReceiveMessage | WebSocketReceiveMessage:
        """Receive the next part of the body."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.received_bytes += len(message["body"])
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.has_unread = False
        return message

    async def drain(self, *, read: bool) -> bool:
        """Discard the rest of the body if it is small; return whether the connection must be closed.

        Args:
            read: Whether anything may be read.
        """
        if self.has_unread and self._can_drain and read:
            with move_on_after(self._drain_timeout):
                while self.has_unread:
                    await self()
        return self.has_unread and self._is_http_1


RawHeaders = list[tuple[bytes, bytes]]

ReceivedHeaders = Iterable[tuple[bytes, bytes]]

access_log = logging.getLogger("imagehost.access")

REQUEST_ID_BITS = 96
"""Enough to be unique in any log. Request ids are not secret, so a pseudo-random generator will do."""

MAX_HEADER_BYTES = 64 * 2**10
"""All names and values of a request's headers. `serve.protocol` has its own limit, twice as high."""

FORWARDING_HEADERS = frozenset({b"forwarded", b"via"})
"""Headers that proxies add to requests, beside `X-Forwarded-*`."""

FORWARDING_PREFIX = b"x-forwarded-"

REJECTED = "rejected"
"""The member of `scope["state"]` of a request that the HTTP protocol has rejected and logged: the status."""

CUT = "cut"
"""The member of `scope["state"]` of a request whose response has ended before its last byte: a `Cut`."""


TRANSPORT = "transport"
"""The member of `scope["state"]` with the transport of the response, in the server's own protocol."""


class Cut(NamedTuple):
    """How a response has ended before its last byte.

    Attributes:
        reason: `slow` if the client read it too slowly, `disconnected` if it closed the connection, `revoked`
            if its right to it has ended.
        unsent_bytes: Bytes that the application had sent and the kernel had not taken.
    """

    reason: str
    unsent_bytes: int


HTTP_1_0 = ("1.0", "1")
"""HTTP/1.0 as the ASGI specification spells it, and as some servers do."""

CONNECTION_CLOSE = ((b"connection", b"close"),)

MAX_LOGGED_PATH = 200

PROBE_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that are served over plain HTTP to any IP address."""

PROBE_METHODS = frozenset({"GET", "HEAD"})

_STOPPING = "the server is stopping"


class ResponseCutError(OSError):
    """The connection was closed before the end of the response: the application need not go on."""


def cut_response(scope: HTTPScope) -> NoReturn:
    """Close the connection of a response that has begun, since the client's right to it has ended.

    Raises:
        ResponseCutError: Always.
    """
    state = scope["state"]
    transport = state.get(TRANSPORT)
    # Another server closes the connection of a response without an end by itself.
    unsent = transport.get_write_buffer_size() if isinstance(transport, Transport) else 0
    state[CUT] = Cut("revoked", unsent)
    if isinstance(transport, Transport):
        transport.abort()
    raise ResponseCutError


class HeadersTooLargeError(BadRequestError):
    """The request line or the headers are too large (RFC 6585, 5)."""

    status = 431
    default_message = "The request's headers are too large"


class SecurityMiddleware:
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
        self.is_stopped = False
        self.in_progress = ConcurrencyLimiter(max_concurrent_requests_per_client)
        self._log_access = log_access
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
        ip_address = client_address(scope, self.trusted)
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
            await error_response(UnavailableError(_STOPPING), request_id).send(sender.send)
        except Exception as error:
            if CUT in state:
                return
            response = error_response(error, request_id)
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
                fields = {} if cut is None else {"cut": cut.reason, "sent_bytes": sent_bytes}
                self.log(method, path, ip_address, status, request_id, seconds, **fields)

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

    def log(
        self,
        method: str,
        path: str,
        ip_address: str,
        status: int,
        request_id: str,
        seconds: float,
        **details: object,
    ) -> None:
        """Write the access log's line of a request, if the access log is on.

        Args:
            method: The HTTP method.
            path: The path, without the query.
            ip_address: The client's IP address.
            status: The status of the response; 0 = no response was sent.
            request_id: The request id.
            seconds: How long the request took.
            details: Further fields of the line.
        """
        if self._log_access and access_log.isEnabledFor(logging.INFO):
            fields: dict[str, object] = {
                "method": method,
                "path": quote_value(hide_tokens(path), MAX_LOGGED_PATH)[1:-1],
                "status": status,
                "ms": round(1000 * seconds, 1),
                "client": ip_address,
                "request_id": request_id,
                **details,
            }
            _handle("request", fields)

    def log_cut(self, client: tuple[str, int] | None, request_id: str, unsent_bytes: int) -> None:
        """Count and log the end of a connection whose client reads responses, logged before, too slowly.

        Args:
            client: The IP address and the port of the peer.
            request_id: The id of the last request.
            unsent_bytes: Bytes of the responses that the kernel had not taken.
        """
        self.recorder.response_cut("slow")
        if self._log_access and access_log.isEnabledFor(logging.INFO):
            ip_address = client[0] if client else ""
            fields = {
                "client": ip_address,
                "request_id": request_id,
                "cut": "slow",
                "unsent_bytes": unsent_bytes,
            }
            _handle("response cut", fields)


def _handle(event: str, fields: Mapping[str, object]) -> None:
    """Write a line, without the search for the calling function that `Logger.info` does."""
    record = logging.LogRecord(access_log.name, logging.INFO, "", 0, event, None, None)
    record.fields = fields
    access_log.handle(record)


def require_valid_request(scope: HTTPScope, trusted: tuple[Network, ...]) -> None:
    """Raise an error unless a request may be handled, judged by its headers alone.

    Args:
        scope: The request.
        trusted: Networks of trusted proxies.

    Raises:
        HeadersTooLargeError: Its headers are too large.
        BadRequestError: Its headers are ambiguous. Names every error.
        ForbiddenError: It came over plain HTTP from another machine, and is no probe.
    """
    size = sum(map(len, chain.from_iterable(scope["headers"])))
    if size > MAX_HEADER_BYTES:
        expected = f"at most {MAX_HEADER_BYTES} bytes"
        raise HeadersTooLargeError(errors=[FieldError("all headers", expected, f"{size}")])
    names = [name for name, _ in scope["headers"]]
    if errors := [error for find in (_host_error, _body_length_error) if (error := find(scope, names))]:
        raise BadRequestError(errors=errors)
    if not is_private(scope, trusted) and not is_probe(scope):
        raise ForbiddenError(_HTTPS_ONLY)


def _host_error(scope: HTTPScope, names: Sequence[bytes]) -> FieldError | None:
    """Return an error unless there is one Host, which HTTP/1.0 does not require (RFC 9112, 3.2)."""
    hosts = names.count(b"host")
    if hosts > 1:
        return FieldError("Host", "exactly one header", f"{hosts}")
    # Some servers add an empty one where it is missing.
    if (hosts and dict(scope["headers"])[b"host"]) or _is_http_1_0(scope):
        return None
    return FieldError("Host", "exactly one header", "none")


def _body_length_error(scope: HTTPScope, names: Sequence[bytes]) -> FieldError | None:
    """Return an error if servers may disagree on where the body ends: request smuggling (RFC 9112, 6.1)."""
    if b"transfer-encoding" not in names:
        return None
    codings = [value.strip().lower() for name, value in scope["headers"] if name == b"transfer-encoding"]
    if b"content-length" in names:
        return FieldError("the body's length", "one header", "Transfer-Encoding and Content-Length")
    # No coding but chunked is decoded here.
    if codings != [b"chunked"]:
        return FieldError("Transfer-Encoding", "chunked", "another coding")
    # HTTP/1.0 has no transfer codings, so a proxy may have taken the body for another request.
    return FieldError("Transfer-Encoding", "none in HTTP/1.0", "chunked") if _is_http_1_0(scope) else None


def _is_http_1_0(scope: HTTPScope) -> bool:
    return scope["http_version"] in HTTP_1_0


_HTTPS_ONLY = (
    "expected HTTPS for a request from another machine but received plain HTTP; "
    "give the server a certificate, or name the proxy before it in trusted_proxies; "
    "a loopback client counts as another machine if it sends Forwarded, X-Forwarded-* or Via"
)


def without_root(path: str, root_path: str) -> str:
    """Return a path without the root path: proxies remove it, or leave it to the server."""
    return path[len(root_path) :] or "/" if f"{path}/".startswith(f"{root_path}/") else path


def is_probe(scope: HTTPScope) -> bool:
    """Return whether a request is a health or readiness probe, which load balancers send over plain HTTP."""
    return scope["path"] in PROBE_PATHS and scope["method"] in PROBE_METHODS


def is_https(scope: HTTPScope, trusted: tuple[Network, ...]) -> bool:
    """Return whether a request came over HTTPS, to this server or to a trusted proxy."""
    return scope["scheme"] == "https" or _forwarded_https(scope, trusted)


def is_private(scope: HTTPScope, trusted: tuple[Network, ...]) -> bool:
    """Return whether a request came over HTTPS or from this machine."""
    return is_https(scope, trusted) or is_loopback_client(scope)


def is_loopback_client(scope: HTTPScope) -> bool:
    """Return whether a request comes from this machine, and not through a proxy on it."""
    return is_loopback(_peer_ip(scope)) and not any(
        name in FORWARDING_HEADERS or name.startswith(FORWARDING_PREFIX) for name, _ in scope["headers"]
    )


def _forwarded_https(scope: HTTPScope, trusted: tuple[Network, ...]) -> bool:
    """Return whether a trusted proxy reports HTTPS."""
    if not trusted or not is_trusted_proxy(_peer_ip(scope), trusted):
        return False
    values = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    schemes = [scheme.strip().lower() for value in values for scheme in value.split(b",")]
    return bool(schemes) and all(scheme == b"https" for scheme in schemes)


def _peer_ip(scope: HTTPScope) -> str:
    return (scope["client"] or ("", 0))[0]


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
