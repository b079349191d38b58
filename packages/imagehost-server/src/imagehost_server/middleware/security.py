"""The outermost layer: what no request gets past, whatever it asks for.

It gives each request its id, refuses what is not HTTPS, what proxies and servers read in two ways and what
one client has too much of, answers for faults that nobody else caught, and writes the access log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable
from ipaddress import ip_network
from random import Random
from typing import TYPE_CHECKING

from litestar.enums import ScopeType

from imagehost_core.errors import BadRequestError, FieldError, ForbiddenError, UnavailableError, quote_value
from imagehost_server.http.client_address import Network, client_address, is_trusted_proxy
from imagehost_server.http.responses import failure
from imagehost_server.middleware.concurrency import ConcurrencyLimiter
from imagehost_server.middleware.unread_body import RequestBody
from imagehost_server.settings import is_loopback

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

access_log = logging.getLogger("imagehost.access")

REQUEST_ID_BITS = 96
"""Enough to find one request in any log. They are no secret, so they need no system call each."""

MAX_HEADER_BYTES = 64 * 2**10
"""All names and values of a request's headers. A connection's own bound is twice that."""


HTTP_1_0 = ("1.0", "1")
"""How ASGI calls HTTP/1.0, and how some servers do."""


class SecurityMiddleware:
    """An ASGI application around another.

    Args:
        app: What answers the requests that pass.
        trusted_proxies: Addresses and networks whose `X-Forwarded-*` headers are believed.
        log_access: Whether each request has a line in the log.
        hsts_seconds: For how long browsers are to ask nothing without HTTPS; 0 = they are not told.
        requests_per_address: How many requests one client may have under way; 0 = no limit.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        trusted_proxies: Iterable[str] = (),
        log_access: bool = True,
        hsts_seconds: int = 0,
        requests_per_address: int = 0,
    ) -> None:
        self.app = app
        self.trusted = tuple(ip_network(entry) for entry in trusted_proxies)
        self.log_access = log_access
        self._concurrency = ConcurrencyLimiter(requests_per_address)
        self._random = Random(os.urandom(REQUEST_ID_BITS))  # noqa: S311 - no secret
        told = f"max-age={hsts_seconds}".encode()
        self._hsts = ((b"strict-transport-security", told),) if hsts_seconds else ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; lifespan events pass as they are."""
        if scope["type"] != ScopeType.HTTP:
            await self.app(scope, receive, send)
            return
        request_id = self.new_request_id()
        address = client_address(scope, self.trusted)
        scope.setdefault("state", {}).update(request_id=request_id, address=address)
        body = RequestBody(scope, receive)
        answer = _ResponseSender(send, body, self.common_headers(request_id, is_https(scope, self.trusted)))
        began = time.perf_counter()
        try:
            require_valid_request(scope, self.trusted)
            answer.may_drain = True
            place = self._concurrency.acquire(address)
            try:
                await self.app(scope, body, answer.send)
            finally:
                self._concurrency.release(place)
        except asyncio.CancelledError:
            # The server stops, and has waited long enough.
            if answer.status:
                raise
            answer.may_drain = False
            await failure(UnavailableError("the server is stopping"), request_id).send(answer.send)
        except Exception as error:
            reply = failure(error, request_id)
            # Half an answer cannot be taken back: the connection is cut, so that the client notices.
            if answer.status:
                raise
            await reply.send(answer.send)
        finally:
            self.log(scope["method"], scope["path"], address, answer.status, request_id, began)

    def new_request_id(self) -> str:
        """Return an id for a request."""
        return f"{self._random.getrandbits(REQUEST_ID_BITS):0{REQUEST_ID_BITS // 4}x}"

    def common_headers(self, request_id: str, over_https: bool) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers that every answer has, whoever gives it."""
        # RFC 6797, 7.2: never in plain HTTP, where anybody could have written it.
        return ((b"x-request-id", request_id.encode()), *(self._hsts if over_https else ()))

    def log(self, method: str, path: str, address: str, status: int, request_id: str, began: float) -> None:
        """Write the line of a request into the access log, if there is to be one.

        Args:
            method: The request's.
            path: Its path.
            address: The client's.
            status: What was answered; 0 = nothing.
            request_id: The request's id.
            began: When it came, by `time.perf_counter`.
        """
        if self.log_access and access_log.isEnabledFor(logging.INFO):
            fields = {
                "method": method,
                "path": quote_value(path, 200)[1:-1],
                "status": status,
                "ms": f"{(time.perf_counter() - began) * 1000:.1f}",
                "client": address,
                "request_id": request_id,
            }
            access_log.info("request", extra={"fields": fields})


def require_valid_request(scope: HTTPScope, trusted: tuple[Network, ...]) -> None:
    """Let a request go on, judged by its headers alone.

    Args:
        scope: The request.
        trusted: Networks of proxies that are believed.

    Raises:
        BadRequestError: Its headers can be read in two ways, or are too long.
        ForbiddenError: It came in the open, from another machine.
    """
    size, hosts, codings, has_length = 0, [], [], False
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        if name == b"host":
            hosts.append(value)
        elif name == b"transfer-encoding":
            codings.append(value.strip().lower())
        elif name == b"content-length":
            has_length = True
    faults = []
    # An HTTP server shows a missing Host as an empty one. RFC 9112, 3.2: HTTP/1.1 is the first to ask for it.
    if (len(hosts) != 1 or not hosts[0]) and (len(hosts) > 1 or scope["http_version"] not in HTTP_1_0):
        received = f"{len(hosts)}" if len(hosts) > 1 else "none"
        faults.append(FieldError("Host", "exactly one header", received))
    # RFC 9112, 6.1: both together may be an attempt at request smuggling.
    if codings and has_length:
        both = "Transfer-Encoding and Content-Length"
        faults.append(FieldError("the body's length", "one header", both))
    # RFC 9112, 6.1: what a body is wrapped in beside its chunks, nobody here would unwrap.
    elif codings and codings != [b"chunked"]:
        faults.append(FieldError("Transfer-Encoding", "chunked", "another coding"))
    if size > MAX_HEADER_BYTES:
        faults.append(FieldError("all headers", f"at most {MAX_HEADER_BYTES} bytes", f"{size}"))
    if faults:
        raise BadRequestError(errors=faults)
    if not is_private(scope, trusted):
        raise ForbiddenError(_HTTPS_ONLY)


_HTTPS_ONLY = (
    "expected HTTPS for a request from another machine but received plain HTTP; "
    "give the server a certificate, or name the proxy before it in trusted_proxies"
)


def is_https(scope: HTTPScope, trusted: tuple[Network, ...]) -> bool:
    """Return whether a request came over HTTPS: to us, or to a proxy that is trusted and says so."""
    return scope["scheme"] == "https" or _forwarded_https(scope, trusted) is True


def is_private(scope: HTTPScope, trusted: tuple[Network, ...]) -> bool:
    """Return whether nobody on the way could read the request.

    Contract 1: *TLS by the server itself, or behind a proxy named in `trusted_proxies` that says
    `X-Forwarded-Proto: https`. Plain HTTP is answered on loopback only (development).* What a trusted
    proxy says goes before where it stands: one on loopback that says `http` got a request from outside.
    """
    if scope["scheme"] == "https":
        return True
    said = _forwarded_https(scope, trusted)
    return is_loopback(_peer(scope)) if said is None else said


def _forwarded_https(scope: HTTPScope, trusted: tuple[Network, ...]) -> bool | None:
    """Return whether a trusted proxy says that it was asked over HTTPS; `None` where none says anything."""
    if not trusted or not is_trusted_proxy(_peer(scope), trusted):
        return None
    said = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    if not said:
        return None
    return all(word.strip().lower() == b"https" for value in said for word in value.split(b","))


def _peer(scope: HTTPScope) -> str:
    return (scope["client"] or ("", 0))[0]


CONNECTION_CLOSE = ((b"connection", b"close"),)


class _ResponseSender:
    """The sending side of a request: adds headers, and remembers the status.

    Attributes:
        may_read: Whether anything of the body may be read; not before the request is found to be private.
        status: What was answered; 0 = nothing yet.
    """

    def __init__(self, send: Send, body: RequestBody, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        self._send = send
        self._body = body
        self.may_drain = False
        self._headers = headers
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            last = self._body.has_unread and await self._body.drain(read=self.may_drain)
            # The message may be one that is sent again and again: it is not ours to change.
            headers = [*message["headers"], *self._headers, *(CONNECTION_CLOSE if last else ())]
            message = {**message, "headers": headers}
        await self._send(message)
