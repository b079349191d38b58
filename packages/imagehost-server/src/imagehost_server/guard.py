"""The outermost layer: what no request gets past, whatever it asks for.

It gives each request its id, refuses what is not HTTPS and what proxies and servers read in two ways,
answers for faults that nobody else caught, and writes the access log.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable
from ipaddress import ip_network
from typing import TYPE_CHECKING

from litestar.enums import ScopeType

from imagehost_core.errors import BadRequestError, Fault, ForbiddenError, ImageHostError, quoted
from imagehost_server.clients import Network, is_trusted
from imagehost_server.envelope import failure
from imagehost_server.settings import is_loopback

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

access_log = logging.getLogger("imagehost.access")

REQUEST_ID_BYTES = 12
"""96 random bits: enough to find one request in any log."""


class Guard:
    """An ASGI application around another.

    Args:
        app: What answers the requests that pass.
        trusted_proxies: Addresses and networks whose `X-Forwarded-Proto` is believed.
        log_access: Whether each request has a line in the log.
    """

    def __init__(self, app: ASGIApp, *, trusted_proxies: Iterable[str] = (), log_access: bool = True) -> None:
        self.app = app
        self.trusted = tuple(ip_network(entry) for entry in trusted_proxies)
        self.log_access = log_access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; lifespan events pass as they are."""
        if scope["type"] != ScopeType.HTTP:
            await self.app(scope, receive, send)
            return
        request_id = secrets.token_hex(REQUEST_ID_BYTES)
        scope.setdefault("state", {})["request_id"] = request_id
        answer = _Answer(send, request_id)
        began = time.perf_counter()
        try:
            refused = refusal(scope, self.trusted)
            if refused is not None:
                await failure(refused, request_id).send(answer.send)
            else:
                await self.app(scope, receive, answer.send)
        except Exception as error:
            reply = failure(error, request_id)
            # Half an answer cannot be taken back: the connection is cut, so that the client notices.
            if answer.status:
                raise
            await reply.send(answer.send)
        finally:
            if self.log_access and access_log.isEnabledFor(logging.INFO):
                _log(scope, answer.status, request_id, time.perf_counter() - began)


def refusal(scope: HTTPScope, trusted: tuple[Network, ...]) -> ImageHostError | None:
    """Return why a request may not go on, judged by its headers alone, or `None`.

    Args:
        scope: The request.
        trusted: Networks of proxies that are believed.
    """
    headers = scope["headers"]
    hosts = [value for name, value in headers if name == b"host"]
    # An HTTP server shows a missing Host as an empty one.
    if len(hosts) != 1 or not hosts[0]:
        received = f"{len(hosts)}" if len(hosts) > 1 else "none"
        return BadRequestError(faults=[Fault("Host", "exactly one header", received)])
    names = {name for name, _ in headers}
    # RFC 9112, 6.1: both together may be an attempt at request smuggling.
    if b"transfer-encoding" in names and b"content-length" in names:
        both = "Transfer-Encoding and Content-Length"
        return BadRequestError(faults=[Fault("the body's length", "one header", both)])
    return None if is_private(scope, trusted) else ForbiddenError(_HTTPS_ONLY)


_HTTPS_ONLY = (
    "expected HTTPS for a request from another machine but received plain HTTP; "
    "give the server a certificate, or name the proxy before it in trusted_proxies"
)


def is_private(scope: HTTPScope, trusted: tuple[Network, ...]) -> bool:
    """Return whether nobody on the way could read the request.

    Contract 1: *TLS by the server itself, or behind a proxy named in `trusted_proxies` that says
    `X-Forwarded-Proto: https`. Plain HTTP is answered on loopback only (development).* What a trusted
    proxy says goes before where it stands: one on loopback that says `http` got a request from outside.
    """
    if scope["scheme"] == "https":
        return True
    client = (scope["client"] or ("", 0))[0]
    said = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    if said and is_trusted(client, trusted):
        return all(word.strip().lower() == b"https" for value in said for word in value.split(b","))
    return is_loopback(client)


class _Answer:
    """The sending side of a request: adds the id, and remembers the status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._header = (b"x-request-id", request_id.encode())
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], self._header]
        await self._send(message)


def _log(scope: HTTPScope, status: int, request_id: str, seconds: float) -> None:
    fields = {
        "method": scope["method"],
        "path": quoted(scope["path"], 200)[1:-1],
        "status": status,
        "ms": f"{seconds * 1000:.1f}",
        "client": (scope["client"] or ("",))[0],
        "request_id": request_id,
    }
    access_log.info("request", extra={"fields": fields})
