"""The processing route: pictures, as they were stored or made to measure.

It is raw ASGI, and the way of a picture that is in memory is short: look, compare, send; no thread, no
framework. Everything else (records, files, rendering, tokens) waits in threads.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote

from imagehost_core import Blob, ImageHost, ResolvedImage
from imagehost_core.errors import ImageHostError, MethodNotAllowedError, UnauthorizedError
from imagehost_core.models import Account, Scope
from imagehost_server._executors import Executors
from imagehost_server.auth.scopes import authenticate
from imagehost_server.http.conditional import (
    UNSATISFIABLE,
    ByteRange,
    http_date,
    is_not_modified,
    parse_range,
)
from imagehost_server.http.responses import Headers, RawResponse, failure

if TYPE_CHECKING:
    from litestar.types import HTTPResponseBodyEvent, HTTPResponseStartEvent, HTTPScope, Send

T = TypeVar("T")

RawHeaders = list[tuple[bytes, bytes]]

METHODS = "GET, HEAD, OPTIONS"

MAX_CACHED_STARTS = 10_000
"""Of how many variants the beginning of an answer is kept as it is sent. Each is about two kilobytes; the
oldest is forgotten for a new one."""

RELEVANT_HEADERS = frozenset(
    (b"accept", b"authorization", b"if-none-match", b"if-modified-since", b"range", b"if-range")
)
"""The headers that an answer can depend on."""

NO_BODY: HTTPResponseBodyEvent = {"type": "http.response.body", "body": b"", "more_body": False}

CHUNK_BYTES = 2**20
"""How much of a file is read at a time: 1 MiB."""

SECURITY_HEADERS: RawHeaders = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"access-control-allow-origin", b"*"),
]
"""On every picture (contract 7): it may be shown anywhere, and can do nothing anywhere."""

PREFLIGHT = RawResponse(
    204,
    b"",
    (
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", METHODS),
        ("access-control-allow-headers", "Authorization, Range, If-Range, If-None-Match, If-Modified-Since"),
        ("access-control-max-age", "86400"),
        ("allow", METHODS),
        ("cache-control", "no-store"),
    ),
)
"""The answer to `OPTIONS`: a script may read pictures, with a token too."""


class ResponseStartCache(Generic[T]):
    """The beginnings of answers, remembered by the very object that they are made of.

    As long as nothing has changed, `ImageHost.peek` gives the same `Delivery` for the same address. To
    compare two that are equal would take longer than all the rest.

    Args:
        make: Makes the beginning for a delivery of so many bytes.
    """

    def __init__(self, make: Callable[[ResolvedImage, int], T]) -> None:
        self._make = make
        self._kept: OrderedDict[tuple[int, int], tuple[ResolvedImage, T]] = OrderedDict()

    def of(self, delivery: ResolvedImage, size: int) -> T:
        """Return the beginning; nobody may change it."""
        # What is kept lives, so no other object can have its identity meanwhile.
        key = id(delivery), size
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= MAX_CACHED_STARTS:
                self._kept.popitem(last=False)
            kept = self._kept[key] = delivery, self._make(delivery, size)
        return kept[1]


class DeliveryRoute:
    """An ASGI application for one delivery address.

    Args:
        host: The host that answers.
        executors: Where blocking work runs.
    """

    def __init__(self, host: ImageHost, executors: Executors) -> None:
        self._host = host
        self._executors = executors
        self._max_age = f"public, max-age={host.settings.delivery.max_age_seconds}".encode()
        self._unchanged = ResponseStartCache(lambda delivery, _: self.not_modified_start(delivery))
        self._whole = ResponseStartCache(self.ok_start)

    async def __call__(self, path: str, scope: HTTPScope, send: Send) -> None:
        """Answer a request.

        Args:
            path: What follows the prefix: `<id>` or `<id>.<ext>`.
            scope: The request.
            send: Where the answer goes.
        """
        try:
            if scope["method"] == "OPTIONS":
                await PREFLIGHT.send(send)
            elif scope["method"] in ("GET", "HEAD"):
                await self._deliver(path, scope, send)
            else:
                raise MethodNotAllowedError(f"expected one of {METHODS}")
        except ImageHostError as error:
            reply = failure(error, str(scope["state"]["request_id"]))
            await RawResponse(reply.status, reply.body, (*reply.headers, *_error_headers(error))).send(send)

    async def _deliver(self, path: str, scope: HTTPScope, send: Send) -> None:
        headers = relevant_headers(scope["headers"])
        query = scope["query_string"].decode("latin-1")
        accept = headers.get(b"accept", "")
        viewer = await self._viewer(scope) if b"authorization" in headers else None
        found = self._host.delivery.resolve_cached(path, query, accept=accept, viewer=viewer)
        if found is None:
            locate = self._host.delivery.resolve
            found = (
                await self._executors.database.run(locate, path, query, accept=accept, viewer=viewer),
                None,
            )
        delivery, blob = found
        if is_not_modified(
            delivery.etag,
            delivery.last_modified,
            headers.get(b"if-none-match"),
            headers.get(b"if-modified-since"),
        ):
            await send(self._unchanged.of(delivery, 0))
            await send(NO_BODY)
            return
        if blob is None:
            # A master is read from a file, and waits for nobody who waits for a render.
            room = self._executors.files if delivery.key is None else self._executors.variants
            blob = await room.run(self._host.delivery.open, delivery)
        try:
            await self._send(delivery, blob, headers, scope["method"] == "HEAD", send)
        finally:
            blob.close()

    async def _send(
        self, delivery: ResolvedImage, blob: Blob, headers: dict[bytes, str], head: bool, send: Send
    ) -> None:
        # RFC 9110, 14.2: Range means something for GET alone.
        range_ = None if head else headers.get(b"range")
        span = parse_range(blob.size, delivery.etag, delivery.last_modified, range_, headers.get(b"if-range"))
        if span is UNSATISFIABLE:
            raise RangeError(blob.size)
        begin = (
            self._whole.of(delivery, blob.size)
            if span is None
            else self.partial_start(delivery, blob.size, span)
        )
        await send(begin)
        if head:
            await send(NO_BODY)
        elif blob.data is not None:
            data = blob.data if span is None else blob.data[span.start : span.stop]
            await send({"type": "http.response.body", "body": data, "more_body": False})
        else:
            await self._stream(blob, span or ByteRange(0, blob.size), send)

    async def _stream(self, blob: Blob, span: ByteRange, send: Send) -> None:
        """Send the bytes of a file, each piece read in a thread."""
        place = span.start
        while place < span.stop:
            piece = await self._executors.files.run(blob.read, place, min(place + CHUNK_BYTES, span.stop))
            if not piece:
                raise EOFError(f"expected {span.stop} bytes in a file but received {place}")
            place += len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": place < span.stop})

    def not_modified_start(self, delivery: ResolvedImage) -> HTTPResponseStartEvent:
        """Return the beginning of the answer that somebody has the bytes already."""
        return _start(304, self._validators(delivery))

    def ok_start(self, delivery: ResolvedImage, size: int) -> HTTPResponseStartEvent:
        """Return the beginning of the answer with all of a delivery's bytes."""
        length = (b"content-length", b"%d" % size)
        return _start(200, [*self._validators(delivery), *_description(delivery), length])

    def partial_start(self, delivery: ResolvedImage, size: int, span: ByteRange) -> HTTPResponseStartEvent:
        """Return the start of a 206 response."""
        which = (b"content-range", b"bytes %d-%d/%d" % (span.start, span.stop - 1, size))
        length = (b"content-length", b"%d" % (span.stop - span.start))
        return _start(206, [*self._validators(delivery), *_description(delivery), which, length])

    def _validators(self, delivery: ResolvedImage) -> RawHeaders:
        """Return the headers that 200 and 304 have in common (RFC 9110, 15.4.5)."""
        return [
            (b"etag", delivery.etag.encode()),
            (b"last-modified", http_date(delivery.last_modified).encode()),
            (b"cache-control", self._max_age if delivery.is_public else b"private, no-store"),
            (b"cache-tag", b"img-" + delivery.image.id.encode()),
            *SECURITY_HEADERS,
            *([(b"vary", b"Accept")] if delivery.varies else ()),
        ]

    async def _viewer(self, scope: HTTPScope) -> Account | None:
        """Return who is asking, or `None` without a good token for images: public ones need none."""
        try:
            principal = await authenticate(self._host, self._executors, scope["headers"])
        except UnauthorizedError:
            return None
        return principal.account if Scope.IMAGES_READ in principal.scopes else None


class RangeError(ImageHostError):
    """The range that is asked for begins beyond the end (RFC 9110, 15.5.17).

    Args:
        size: How many bytes there are.
    """

    code = "BAD_REQUEST"
    status = 416
    default_message = "The range cannot be had"

    def __init__(self, size: int) -> None:
        super().__init__(f"expected a range within {size} bytes for Range but received one beyond them")
        self.size = size


def _error_headers(error: ImageHostError) -> Headers:
    """Return what an error's answer has beside the headers of every JSON answer, `no-store` among them."""
    shared = (("access-control-allow-origin", "*"), ("cross-origin-resource-policy", "cross-origin"))
    if isinstance(error, MethodNotAllowedError):
        return (*shared, ("allow", METHODS))
    if isinstance(error, RangeError):
        return (*shared, ("content-range", f"bytes */{error.size}"))
    return shared


def relevant_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """Return the headers that matter by name, repeated ones joined as lists (RFC 9110, 5.3)."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name in RELEVANT_HEADERS:
            text = value.decode("latin-1")
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _description(delivery: ResolvedImage) -> RawHeaders:
    return [
        (b"content-type", delivery.media_type.encode()),
        (b"content-disposition", disposition(delivery.filename)),
        (b"accept-ranges", b"bytes"),
    ]


def disposition(filename: str) -> bytes:
    """Return `inline` with a file name: for old readers in ASCII, for others whole (RFC 6266, appendix D)."""
    plain = "".join(char if char.isascii() and char not in '"\\%' else "_" for char in filename)
    text = f'inline; filename="{plain}"'
    if plain != filename:
        text += f"; filename*=UTF-8''{quote(filename, safe='')}"
    return text.encode("ascii")


def _start(status: int, headers: RawHeaders) -> HTTPResponseStartEvent:
    return {"type": "http.response.start", "status": status, "headers": headers}
