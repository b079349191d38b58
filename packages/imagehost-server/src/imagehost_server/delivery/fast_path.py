"""The HTTP fast path: responds to plain requests for images without parser, ASGI and tasks.

Most requests of an image host are GETs of variants in memory or in the page cache. For these, ASGI and
the framework take most of the time: on one core, with 47 KB and 32 connections, the server sends 19,000 to
30,000 responses per second from memory with the fast path, and 8,000 to 11,000 without
(`docs/decisions/0007-uvicorn-and-an-http-fast-path.md`).

`serve.protocol` offers each request that arrives in one piece. The fast path responds with the functions of
the slow path (`RequestMiddleware` and `DeliveryRoute`), or returns `None` without side effects; then the
request takes the slow path. Every response is equal to that of the slow path, so the setting `http.fast_path`
changes nothing but speed.
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
from imagehost_server.http.client_address import client_address, without_root
from imagehost_server.http.conditional import is_not_modified
from imagehost_server.http.response_body import WHOLE_BYTES
from imagehost_server.metrics import IMAGE_ROUTE
from imagehost_server.middleware.header_checks import is_https, require_valid_request
from imagehost_server.middleware.requests import RequestMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.types import HTTPResponseStartEvent, HTTPScope

    from imagehost_server.delivery.route import RawHeaders

REQUEST = re.compile(
    # RFC 9112, 3: the method, a path without escapes, a query (RFC 3986, 3.3 and 3.4), the version;
    rb"(GET|HEAD) (/[A-Za-z0-9/._~-]*)(?:\?([A-Za-z0-9._~!$&'()*+,;=:@/?%-]*))? HTTP/1\.1\r\n"
    # RFC 9110, 5: fields whose names are tokens and whose values are visible ASCII, and nothing after them.
    rb"((?:[A-Za-z0-9!#$%&'*+.^_`|~-]+:[\t -~]*\r\n)+)\r\n"
)
"""A complete request without anything ambiguous."""

MAX_REQUEST_BYTES = 4_096
"""The largest request. Parsed headers are cached by their bytes, so their size is limited."""

MAX_CACHED_HEADERS = 1_000
"""Entries in the cache of parsed headers: a client sends the same ones with each request."""

MAX_CACHED_PATHS = 1_000
"""Entries in the cache of parsed paths."""

MAX_UNSENT_BYTES = 16 * 2**20
"""The bytes of bodies that may wait for clients that read slowly; beyond them, only small ones are sent."""

SLOW_PATH_HEADERS = frozenset(
    (
        b"authorization", b"content-length", b"expect", b"if-match", b"if-range", b"if-unmodified-since",
        b"range", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    )
)  # fmt: skip
"""Headers of requests that are more than a plain GET or HEAD."""

STATUS_LINES = {200: b"HTTP/1.1 200 OK\r\n", 304: b"HTTP/1.1 304 Not Modified\r\n"}


class Peer(NamedTuple):
    """The other end of a connection.

    Attributes:
        scheme: `http` or `https`.
        client: IP address and port, as in the ASGI scope.
    """

    scheme: str
    client: tuple[str, int] | None


class _RequestHeaders(NamedTuple):
    """The headers of a request that a response can depend on."""

    accept: str
    if_none_match: str | None
    if_modified_since: str | None
    ip_address: str
    is_https: bool


class FastPath:
    """Responses for images in memory or in the page cache.

    Args:
        host: The host.
        route: Builds the same response starts as on the slow path.
        security: Validates, identifies and logs requests as on the slow path.
        delivery_path: Returns what follows the prefix of the delivery route, or `None` for another path.

    Attributes:
        unsent_bytes: The bytes of responses that wait for their clients, which `HttpProtocol` counts.
    """

    def __init__(
        self,
        host: ImageHost,
        route: DeliveryRoute,
        security: RequestMiddleware,
        delivery_path: Callable[[str], str | None],
    ) -> None:
        self.unsent_bytes = 0
        self._host = host
        self._security = security
        self._recorder = security.recorder
        self._delivery_path = delivery_path
        self._root_path = host.settings.root_path
        self._not_modified_starts = ResponseStartCache(
            lambda resolved, *_: _encode_start(route.not_modified_start(resolved))
        )
        self._ok_starts = ResponseStartCache(
            lambda resolved, size, fmt: _encode_start(route.ok_start(resolved, size, fmt))
        )
        self._cached_paths = lru_cache(MAX_CACHED_PATHS)(self._parse_path)
        self._cached_headers = lru_cache(MAX_CACHED_HEADERS)(self._parse_headers)
        # The last default headers of the server, and their encoded form.
        self._default_headers: tuple[RawHeaders, bytes] = [], b""

    def respond(self, request: bytes, peer: Peer, default_headers: RawHeaders) -> tuple[bytes, bytes] | None:
        """Return the head and the body of the response, or `None` for a request of the slow path.

        Args:
            request: All bytes that have been received.
            peer: The sender.
            default_headers: The headers that the HTTP server adds to all responses, such as `Date`; a new
                list whenever they change.
        """
        match = REQUEST.fullmatch(request) if len(request) <= MAX_REQUEST_BYTES else None
        if match is None or self._security.is_stopped:
            return None
        started = time.perf_counter()
        verb, received, query, fields = match.groups()
        method = verb.decode()
        path, image_path = self._cached_paths(received)
        headers = None if image_path is None else self._cached_headers(fields, peer)
        if image_path is None or headers is None:
            return None
        try:
            resolved = self._host.delivery.resolve_cached(
                image_path, (query or b"").decode(), accept=headers.accept
            )
        except ImageHostError:
            return None
        if resolved is None:
            return None
        if is_not_modified(
            resolved.etag, resolved.last_modified, headers.if_none_match, headers.if_modified_since
        ):
            found_in, status, body = "client", 304, b""
            start = self._not_modified_starts.get(resolved, 0, resolved.format)
        else:
            found = self._host.delivery.read_nowait(resolved)
            if found is None or (len(found[1]) > WHOLE_BYTES and self._must_hold_little(peer)):
                return None
            (found_in, body), status = found, 200
            start = self._ok_starts.get(resolved, len(body), resolved.format_of(body))
            if method == "HEAD":
                body = b""
        if default_headers is not self._default_headers[0]:
            self._default_headers = default_headers, _encode_headers(default_headers)
        request_id = self._security.new_request_id()
        common_headers = _encode_headers(self._security.common_headers(request_id, headers.is_https))
        seconds = time.perf_counter() - started
        self._recorder.request(method, IMAGE_ROUTE, status, seconds, 0, len(body))
        self._recorder.lookup(found_in)
        self._security.access_log.request(method, path, headers.ip_address, status, request_id, seconds)
        return b"%b%b%b\r\n" % (start, self._default_headers[1], common_headers), body

    def _must_hold_little(self, peer: Peer) -> bool:
        """Return whether a body must not be given to the transport as a whole.

        TLS would encrypt all of it at once, and keep that for a client that does not read.
        """
        return peer.scheme == "https" or self.unsent_bytes > MAX_UNSENT_BYTES

    def _parse_path(self, received: bytes) -> tuple[str, str | None]:
        """Return a path without the root path, and what follows the prefix of the delivery route in it."""
        path = without_root(received.decode(), self._root_path)
        return path, self._delivery_path(path)

    def _parse_headers(self, fields: bytes, peer: Peer) -> _RequestHeaders | None:
        """Return the relevant headers, or `None` if the request needs the slow path."""
        lines = (line.partition(b":") for line in fields.split(b"\r\n") if line)
        headers = [(name.lower(), value.strip(b" \t")) for name, _, value in lines]
        for name, value in headers:
            if name in SLOW_PATH_HEADERS or (name == b"connection" and value.lower() != b"keep-alive"):
                return None
        # The result is cached for all image URLs, so the path is left out; none of them is a probe's.
        scope: HTTPScope = {  # type: ignore[typeddict-item]
            "http_version": "1.1",
            "method": "GET",
            "path": "",
            "scheme": peer.scheme,
            "client": peer.client,
            "headers": headers,
        }
        try:
            require_valid_request(scope, self._security.trusted)
        except ImageHostError:
            return None
        relevant = relevant_headers(headers)
        return _RequestHeaders(
            relevant.get(b"accept", ""),
            relevant.get(b"if-none-match"),
            relevant.get(b"if-modified-since"),
            client_address(scope, self._security.trusted),
            is_https(scope, self._security.trusted),
        )


def _encode_start(start: HTTPResponseStartEvent) -> bytes:
    """Return the status line and the headers, without the final empty line."""
    return STATUS_LINES[start["status"]] + _encode_headers(start["headers"])


def _encode_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])
