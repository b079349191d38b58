"""The fast lane: pictures in memory are answered with the bytes of an answer, as soon as a request is read.

Most requests of an image host ask by a plain GET for a variant that lies in memory. For them a framework,
a task and a dozen of calls are most of the work. So the connection shows each request that came in one
piece to the lane first. The lane answers what it knows by the same rules as the long way, whose functions
it calls, or says nothing; then the request goes the long way, as if nobody had looked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from imagehost_core import ImageHost
from imagehost_core.errors import ImageHostError
from imagehost_server.delivery.route import DeliveryRoute, ResponseStartCache, relevant_headers
from imagehost_server.http.client_address import client_address
from imagehost_server.http.conditional import is_not_modified
from imagehost_server.middleware.security import SecurityMiddleware, is_https, require_valid_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.types import HTTPResponseStartEvent, HTTPScope

    from imagehost_server.delivery.route import RawHeaders

REQUEST = re.compile(
    # RFC 9112, 3: the method, an address without escapes (RFC 3986, 3.3 and 3.4), the version;
    rb"GET (/[A-Za-z0-9/._~-]*)(?:\?([A-Za-z0-9._~!$&'()*+,;=:@/?%-]*))? HTTP/1\.1\r\n"
    # RFC 9110, 5: fields whose names are tokens and whose values are visible ASCII, and nothing after them.
    rb"((?:[A-Za-z0-9!#$%&'*+.^_`|~-]+:[\t -~]*\r\n)+)\r\n"
)
"""A whole request without anything that could be read in two ways."""

MAX_BYTES = 4_096
"""Of a request. What clients say of themselves is remembered by its bytes, so they are bounded."""

MAX_CACHED_STARTS = 1_000
"""How many heads of requests are remembered: a client sends the same one again and again."""

SLOW_PATH_HEADERS = frozenset(
    (
        b"authorization", b"content-length", b"expect", b"if-range", b"range", b"te", b"trailer",
        b"transfer-encoding", b"upgrade",
    )
)  # fmt: skip
"""Fields with which a request is more than a plain GET."""

STATUS_LINES = {200: b"HTTP/1.1 200 OK\r\n", 304: b"HTTP/1.1 304 Not Modified\r\n"}


class Peer(NamedTuple):
    """Who is at the other end of a connection.

    Attributes:
        scheme: `http` or `https`.
        client: Address and port, as ASGI has them.
    """

    scheme: str
    client: tuple[str, int] | None


class _RequestHeaders(NamedTuple):
    """What a request's fields say that an answer can depend on."""

    accept: str
    if_none_match: str | None
    if_modified_since: str | None
    ip_address: str
    is_https: bool


class FastPath:
    """Answers for what is in memory.

    Args:
        host: The host that answers.
        route: The long way of the same answers.
        guard: What no request gets past.
        name_of: Returns what a path asks of the processing route, or `None` for another path.
    """

    def __init__(
        self,
        host: ImageHost,
        route: DeliveryRoute,
        guard: SecurityMiddleware,
        name_of: Callable[[str], str | None],
    ) -> None:
        self._host = host
        self._guard = guard
        self._name_of = name_of
        self._unchanged = ResponseStartCache(lambda delivery, _: _text(route.not_modified_start(delivery)))
        self._whole = ResponseStartCache(lambda delivery, size: _text(route.ok_start(delivery, size)))
        self._understand = lru_cache(MAX_CACHED_STARTS)(self._read_fields)
        # The headers of all answers as they came last, and as they are sent.
        self._common: tuple[RawHeaders, bytes] = [], b""

    def answer(self, request: bytes, peer: Peer, common: RawHeaders) -> tuple[bytes, bytes] | None:
        """Return the head and the body of an answer, or `None` where the long way has to be gone.

        Args:
            request: What has come, up to now.
            peer: Who sent it.
            common: The headers of all answers of the HTTP server, such as `Date`; another list when they
                change.
        """
        match = REQUEST.fullmatch(request) if len(request) <= MAX_BYTES else None
        if match is None:
            return None
        began = time.perf_counter()
        path, query, fields = match.groups()
        name = self._name_of(path.decode())
        asked = None if name is None else self._understand(fields, peer)
        if name is None or asked is None:
            return None
        try:
            found = self._host.delivery.resolve_cached(name, (query or b"").decode(), accept=asked.accept)
        except ImageHostError:
            return None
        if found is None:
            return None
        delivery, blob = found
        status, body = 304, b""
        if is_not_modified(
            delivery.etag, delivery.last_modified, asked.if_none_match, asked.if_modified_since
        ):
            beginning = self._unchanged.of(delivery, 0)
        elif blob is None or blob.data is None:
            return None
        else:
            status, body = 200, blob.data
            beginning = self._whole.of(delivery, len(body))
        if common is not self._common[0]:
            self._common = common, _lines(common)
        request_id = self._guard.new_request_id()
        own = _lines(self._guard.common_headers(request_id, asked.is_https))
        self._guard.log("GET", path.decode(), asked.ip_address, status, request_id, began)
        return b"%b%b%b\r\n" % (beginning, self._common[1], own), body

    def _read_fields(self, fields: bytes, peer: Peer) -> _RequestHeaders | None:
        """Return what a request's fields say, or `None` where they are not for the lane."""
        lines = (line.partition(b":") for line in fields.split(b"\r\n") if line)
        headers = [(name.lower(), value.strip(b" \t")) for name, _, value in lines]
        for name, value in headers:
            if name in SLOW_PATH_HEADERS or (name == b"connection" and value.lower() != b"keep-alive"):
                return None
        scope: HTTPScope = {  # type: ignore[typeddict-item]
            "http_version": "1.1",
            "scheme": peer.scheme,
            "client": peer.client,
            "headers": headers,
        }
        try:
            require_valid_request(scope, self._guard.trusted)
        except ImageHostError:
            return None
        asked = relevant_headers(headers)
        return _RequestHeaders(
            asked.get(b"accept", ""),
            asked.get(b"if-none-match"),
            asked.get(b"if-modified-since"),
            client_address(scope, self._guard.trusted),
            is_https(scope, self._guard.trusted),
        )


def _text(beginning: HTTPResponseStartEvent) -> bytes:
    """Return a status and its headers as they are sent, without the empty line."""
    return STATUS_LINES[beginning["status"]] + _lines(beginning["headers"])


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])
