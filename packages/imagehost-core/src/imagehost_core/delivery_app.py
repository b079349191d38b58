"""Images of an embedded host behind a web framework: a plain ASGI application, and a WSGI one.

Status, headers and bytes are those of the server's image route.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any

from attrs import define, frozen

from imagehost_core.conditional import ByteRange
from imagehost_core.delivery_responses import (
    NO_BYTES,
    PIECE_BYTES,
    SHARED_HEADERS,
    ImageResponse,
    ImageResponses,
    RawHeaders,
    relevant_headers,
)
from imagehost_core.error_responses import JSON_HEADERS, error_body, error_headers
from imagehost_core.errors import ImageHostError, InternalError, UnauthorizedError
from imagehost_core.host import ImageHost
from imagehost_core.models import Account, Scope
from imagehost_core.services.delivery import ImageBlob, ResolvedImage
from imagehost_core.tokens import bearer_token

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
ASGIApp = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
"""An ASGI application (version 3)."""
WSGIApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application (PEP 3333)."""


@frozen
class Request:
    """What a response depends on."""

    method: str
    path: str
    query: str
    headers: list[tuple[bytes, bytes]]


@define
class Delivered:
    """A response. Its body is `data`, or the bytes of `blob` in `part`.

    Attributes:
        blob: The image, which is closed after the last piece.
        part: The bytes of the image that are sent.
    """

    status: int
    headers: RawHeaders
    data: bytes = b""
    blob: ImageBlob | None = None
    part: ByteRange = NO_BYTES

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield the beginnings and ends of the pieces in which the image is sent."""
        for start in range(self.part.start, self.part.stop, PIECE_BYTES):
            yield start, min(start + PIECE_BYTES, self.part.stop)

    def close(self) -> None:
        """Close the image."""
        if self.blob is not None:
            self.blob.close()


@frozen
class ImageDelivery:
    """The responses of a host to requests for images."""

    host: ImageHost
    responses: ImageResponses

    def respond_nowait(self, request: Request) -> Delivered | None:
        """Return the response, or `None` if it has to wait for a disk, a database or a worker."""
        try:
            if response := self.responses.without_image(request.method):
                return _delivered(response)
            headers = relevant_headers(request.headers)
            resolved = self.host.delivery.resolve_cached(
                request.path, request.query, accept=headers.get(b"accept", "")
            )
            if resolved is None:
                return None
            if response := self.responses.without_bytes(resolved, request.method, headers):
                return _delivered(response)
            found = self.host.delivery.read_nowait(resolved)
            return None if found is None else self._deliver(ImageBlob(found[1], resolved), request, headers)
        except ImageHostError as error:
            return _refusal(error, request.method)

    def respond(self, request: Request) -> Delivered:
        """Return the response; waits, so that an event loop calls it in a thread."""
        if (response := self.respond_nowait(request)) is not None:
            return response
        try:
            headers = relevant_headers(request.headers)
            resolved: ResolvedImage = self.host.delivery.resolve(
                request.path,
                request.query,
                accept=headers.get(b"accept", ""),
                viewer=self._viewer(request.headers),
            )
            if unchanged := self.responses.without_bytes(resolved, request.method, headers):
                return _delivered(unchanged)
            return self._deliver(self.host.delivery.open(resolved), request, headers)
        except ImageHostError as error:
            return _refusal(error, request.method)

    def _deliver(self, blob: ImageBlob, request: Request, headers: Mapping[bytes, str]) -> Delivered:
        try:
            response = self.responses.with_bytes(
                blob.resolved, request.method, headers, blob.size, blob.format
            )
        except ImageHostError:
            blob.close()
            raise
        return _delivered(response, blob)

    def _viewer(self, headers: list[tuple[bytes, bytes]]) -> Account | None:
        """Return the account of a token with the scope `images:read`, or `None`."""
        try:
            principal = self.host.authenticate(bearer_token(headers))
        except UnauthorizedError:
            return None
        return principal.account if Scope.IMAGES_READ in principal.scopes else None


def delivery_app(host: ImageHost) -> ASGIApp:
    """Return an ASGI application that sends the images of a host, to be mounted at the path of `cdn_url`.

    Private images need a signed URL, or the token of a key or session with the scope `images:read`. Pieces of
    32 KiB are sent as fast as the client reads them.

    Args:
        host: The host, which stays open as long as the application is called.
    """
    delivery = ImageDelivery(host, ImageResponses(host.settings))

    async def app(
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],  # noqa: ARG001 - a request for an image has no body
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            raise ValueError(f"expected a scope of the type http but received {scope['type']!r}")
        path = scope["path"].removeprefix(scope.get("root_path", "")).removeprefix("/")
        request = Request(
            scope["method"], path, scope["query_string"].decode("latin-1"), list(scope["headers"])
        )
        response = delivery.respond_nowait(request)
        if response is None:
            response = await asyncio.to_thread(delivery.respond, request)
        try:
            await send(
                {"type": "http.response.start", "status": response.status, "headers": response.headers}
            )
            for start, stop in response.pieces():
                assert response.blob is not None
                piece = response.blob.read_cached(start, stop)
                if piece is None or len(piece) < stop - start:
                    piece = await asyncio.to_thread(_read, response.blob, start, stop)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": response.data, "more_body": False})
        finally:
            response.close()

    return app


def delivery_wsgi_app(host: ImageHost) -> WSGIApp:
    """Return a WSGI application that sends the images of a host, else as `delivery_app`.

    Args:
        host: The host, which stays open as long as the application is called.
    """
    delivery = ImageDelivery(host, ImageResponses(host.settings))

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        headers = [
            (name.removeprefix("HTTP_").replace("_", "-").lower().encode(), value.encode("latin-1"))
            for name, value in environ.items()
            if name.startswith("HTTP_")
        ]
        path = environ.get("PATH_INFO", "").encode("latin-1").decode(errors="replace").removeprefix("/")
        response = delivery.respond(
            Request(environ["REQUEST_METHOD"], path, environ.get("QUERY_STRING", ""), headers)
        )
        status = f"{response.status} {HTTPStatus(response.status).phrase}"
        start_response(status, [(name.decode(), value.decode("latin-1")) for name, value in response.headers])
        return _Body(response)

    return app


@frozen
class _Body:
    """The body of a WSGI response, which the server closes, also if it reads none of it."""

    response: Delivered

    def __iter__(self) -> Iterator[bytes]:
        if self.response.data:
            yield self.response.data
        for start, stop in self.response.pieces():
            assert self.response.blob is not None
            yield _read(self.response.blob, start, stop)

    def close(self) -> None:
        """Close the image."""
        self.response.close()


def _read(blob: ImageBlob, start: int, stop: int) -> bytes:
    piece = blob.read(start, stop)
    if len(piece) < stop - start:
        raise EOFError(f"expected {stop} bytes in a file but received {start + len(piece)}")
    return piece


def _delivered(response: ImageResponse, blob: ImageBlob | None = None) -> Delivered:
    return Delivered(response.status, list(response.headers), blob=blob, part=response.part)


def _refusal(error: ImageHostError, method: str) -> Delivered:
    if isinstance(error, InternalError):
        log.error("request failed", exc_info=error)
        error = InternalError("the cause is in the log")
    body = error_body(error)
    headers = (*JSON_HEADERS, *error_headers(error), ("content-length", str(len(body))))
    raw_headers = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return Delivered(error.status, [*raw_headers, *SHARED_HEADERS], b"" if method == "HEAD" else body)
