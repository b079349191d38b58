"""The HTTP fast path: responds to plain requests for images and to reads without parser, ASGI and tasks.

Most requests of an image host are GETs of variants in memory or in the page cache. For these, ASGI and
the framework take most of the time: on one core, with 47 KB and 32 connections, the server sends 19,000 to
30,000 responses per second from memory with the fast path, and 8,000 to 11,000 without
(`docs/decisions/0007-uvicorn-and-an-http-fast-path.md`).

`serve.protocol` offers each request that arrives in one piece. The fast path responds with the functions of
the slow path (`RequestMiddleware`, `DeliveryRoute` and the handlers of `routes`), or returns `None` without
side effects; then the request takes the slow path. Every response is equal to that of the slow path, so the
setting `http.fast_path` changes nothing but speed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from imagehost_core import ImageHost
from imagehost_core.delivery_responses import relevant_headers
from imagehost_core.errors import ImageHostError, RateLimitError
from imagehost_core.limits import Decision
from imagehost_core.services.delivery import MAX_CACHED_URL, ResolvedImage
from imagehost_server.auth.identity import rate_limit_headers
from imagehost_server.http.client_address import resolve_client, without_root
from imagehost_server.http.response_body import WHOLE_BYTES
from imagehost_server.http.responses import RawResponse
from imagehost_server.metrics import IMAGE_ROUTE
from imagehost_server.middleware.access_log import access_fields
from imagehost_server.middleware.header_checks import is_https, require_valid_request
from imagehost_server.middleware.requests import RequestMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from litestar.types import HTTPScope

    from imagehost_core.delivery_responses import ImageResponses, RawHeaders

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

MAX_KNOWN = 10_000
"""Requests whose images and responses are in memory, of about 3 KB each."""

MAX_CACHED_PATHS = 1_000
"""Entries in the cache of parsed paths."""

MAX_UNSENT_BYTES = 16 * 2**20
"""The bytes of bodies that may wait for clients that read slowly; beyond them, only small ones are sent."""

SLOW_PATH_HEADERS = frozenset(
    (
        b"content-length", b"expect", b"if-match", b"if-range", b"if-unmodified-since",
        b"range", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    )
)  # fmt: skip
"""Headers of requests that are more than a plain GET or HEAD."""


class Peer(NamedTuple):
    """The other end of a connection.

    Attributes:
        scheme: `http` or `https`.
        client: IP address and port, as in the ASGI scope.
    """

    scheme: str
    client: tuple[str, int] | None


Known = tuple[ResolvedImage, int | None]
"""An image, and its generation as long as which a request refers to it; `None`: only now."""


class _RequestHeaders(NamedTuple):
    """The headers of a request that a response can depend on."""

    accept: str
    relevant: dict[bytes, str]
    ip_address: str
    named_client: str
    is_https: bool
    received: RawHeaders
    has_authorization: bool


class Read(Protocol):
    """A read of the JSON API, by its path."""

    @property
    def route(self) -> str:
        """The template of its path, as in the metrics."""

    @property
    def is_list(self) -> bool:
        """Whether the response may be large."""


R = TypeVar("R", bound=Read)


class Reads(Protocol[R]):
    """The reads of the JSON API that need no thread, as `imagehost_server.routes.reads` has them."""

    def find(self, path: str) -> R | None:
        """Return the read that a path requests."""

    def respond(
        self,
        read: R,
        query: str,
        headers: Iterable[tuple[bytes, bytes]],
        ip_address: str,
        state: MutableMapping[str, Any],
    ) -> tuple[RawResponse, Decision] | None:
        """Return the response, or `None` without side effects."""


class FastPath(Generic[R]):
    """Responses for images in memory or in the page cache, and for reads of the JSON API.

    Args:
        host: The host.
        responses: Decides the responses for images as on the slow path.
        security: Validates, identifies and logs requests as on the slow path.
        delivery_path: Returns what follows the prefix of the delivery route, or `None` for another path.
        reads: The reads of the JSON API.

    Attributes:
        unsent_bytes: The bytes of responses that wait for their clients, which `HttpProtocol` counts.
    """

    def __init__(
        self,
        host: ImageHost,
        responses: ImageResponses,
        security: RequestMiddleware,
        delivery_path: Callable[[str], str | None],
        reads: Reads[R],
    ) -> None:
        self.unsent_bytes = 0
        self._host = host
        self._security = security
        self._recorder = security.recorder
        self._delivery_path = delivery_path
        self._reads = reads
        self._root_path = host.settings.root_path
        self._responses = responses
        # The oldest one is evicted.
        self._known: dict[tuple[bytes, bytes, str], Known] = {}
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
        path, image_path, read = self._cached_paths(received)
        headers = None if image_path is None and read is None else self._cached_headers(fields, peer)
        if headers is None:
            return None
        if default_headers is not self._default_headers[0]:
            self._default_headers = default_headers, _encode_headers(default_headers)
        if read is not None and not (read.is_list and self._must_hold_little(peer)):
            return self._respond_read(started, method, path, read, (query or b"").decode(), headers)
        if image_path is None or headers.has_authorization:
            return None
        key = received, query or b"", headers.accept
        known = self._known.get(key)
        if known is None or known[1] != self._host.delivery.generation(known[0].image.id):
            known = self._find(key, image_path)
            if known is None:
                return None
        resolved = known[0]
        body = b""
        response = self._responses.without_bytes(resolved, method, headers.relevant)
        if response is not None:
            found_in = "client" if response.status == 304 else "memory"
        else:
            found = self._host.delivery.read_nowait(resolved)
            if found is None or (len(found[1]) > WHOLE_BYTES and self._must_hold_little(peer)):
                return None
            found_in, body = found
            fmt = resolved.format_of(body)
            response = self._responses.with_bytes(resolved, method, headers.relevant, len(body), fmt)
            body = body[response.part.start : response.part.stop]
        request_id = self._security.new_request_id()
        common_lines = self._security.common_lines(request_id, headers.is_https)
        seconds = time.perf_counter() - started
        self._recorder.request(method, IMAGE_ROUTE, response.status, seconds, 0, len(body))
        self._recorder.lookup(found_in)
        self._security.access_log.request(
            method, path, headers.ip_address, response.status, request_id, seconds
        )
        return b"%b%b%b\r\n" % (response.http_head, self._default_headers[1], common_lines), body

    def _find(self, key: tuple[bytes, bytes, str], image_path: str) -> Known | None:
        """Return what a request refers to, and keep it as long as it is valid; `None` for the slow path."""
        self._known.pop(key, None)
        try:
            found = self._host.delivery.resolve_to_keep(image_path, key[1].decode(), accept=key[2])
        except ImageHostError:
            return None
        if found is None:
            return None
        if found[1] is not None and sum(map(len, key)) <= MAX_CACHED_URL:
            if len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = found
        return found

    def _respond_read(
        self, started: float, method: str, path: str, read: R, query: str, headers: _RequestHeaders
    ) -> tuple[bytes, bytes] | None:
        """Return the head and the body of the response to a read of the JSON API."""
        security, ip_address, received = self._security, headers.ip_address, headers.received
        try:
            security.in_progress.release(security.in_progress.acquire(ip_address))
        except RateLimitError:
            return None
        request_id = security.new_request_id()
        state: dict[str, Any] = {"request_id": request_id}
        responded = self._reads.respond(read, query, received, ip_address, state)
        if responded is None:
            return None
        security.proxies.observe(ip_address, headers.named_client)
        response, decision = responded
        status, body = response.status, b"" if method == "HEAD" else response.body
        lines = (
            *response.raw_headers(),
            *rate_limit_headers(decision),
            *security.common_headers(request_id, headers.is_https),
            *security.cors_headers(status, path, received),
        )
        seconds = time.perf_counter() - started
        self._recorder.request(method, read.route, status, seconds, 0, len(body), request_id)
        fields = access_fields(state)
        security.access_log.request(method, path, ip_address, status, request_id, seconds, **fields)
        head = b"%b%b%b\r\n" % (STATUS_LINE[status], self._default_headers[1], _encode_headers(lines))
        return head, body

    def _must_hold_little(self, peer: Peer) -> bool:
        """Return whether a body must not be given to the transport as a whole.

        TLS would encrypt all of it at once, and keep that for a client that does not read.
        """
        return peer.scheme == "https" or self.unsent_bytes > MAX_UNSENT_BYTES

    def _parse_path(self, received: bytes) -> tuple[str, str | None, R | None]:
        """Return a path without the root path, and what follows the delivery route's prefix, or its read."""
        path = without_root(received.decode(), self._root_path)
        image_path = self._delivery_path(path)
        return path, image_path, self._reads.find(path) if image_path is None else None

    def _parse_headers(self, fields: bytes, peer: Peer) -> _RequestHeaders | None:
        """Return the relevant headers, or `None` if the request needs the slow path."""
        lines = (line.partition(b":") for line in fields.split(b"\r\n") if line)
        headers = [(name.lower(), value.strip(b" \t")) for name, _, value in lines]
        for name, value in headers:
            if name in SLOW_PATH_HEADERS or (name == b"connection" and value.lower() != b"keep-alive"):
                return None
        # The result is cached for all URLs, so the path is left out; none of them is a probe's.
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
            relevant,
            *resolve_client(scope, self._security.trusted),
            is_https(scope, self._security.trusted),
            headers,
            any(name == b"authorization" for name, _ in headers),
        )


def _encode_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])
