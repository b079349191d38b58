"""Requests that the HTTP protocol rejects itself: their errors, responses and lines in the access log."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from attrs import frozen
from httptools import HttpParserError

from imagehost_core.errors import BadRequestError, ImageHostError
from imagehost_server.http.client_address import client_address
from imagehost_server.http.responses import RawResponse, error_response
from imagehost_server.metrics import UNROUTED
from imagehost_server.middleware.access_log import access_fields
from imagehost_server.middleware.header_checks import is_https, is_probe
from imagehost_server.middleware.requests import REJECTED, RequestMiddleware

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

UNKNOWN = "-"
"""Method and path in the access log where no valid request line was received."""

_PARSER_ERRORS = tuple(
    (re.compile(pattern), details)
    for pattern, details in {
        "method": "expected an HTTP method in upper case, such as GET, but received another",
        r"\burl\b": (
            "expected a path or an absolute URL in visible ASCII characters as the request target "
            "but received other characters"
        ),
        "HTTP/,": "expected HTTP/1.1 after the request target and a space but received other characters",
        "chunk": "expected chunks of a hexadecimal size, CRLF, data and CRLF but received other data",
        r"\b(CR|LF|CRLF)\b": "expected lines that end in CRLF but received another end of a line",
        "version$|^Expected dot": "expected the version HTTP/1.1 but received another",
        "Content-Length": "expected one Content-Length in digits but received another length of the body",
        "Transfer-Encoding": "expected the Transfer-Encoding chunked, once, but received another",
        "header|whitespace": (
            "expected header lines of a name, a colon and a value in visible characters "
            "but received another line"
        ),
    }.items()
)
"""Patterns of the parser's messages, and the details for the client; the first that matches counts."""
_OTHER_DATA = "expected a request of HTTP/1.1 but received other data"


def to_bad_request(error: HttpParserError) -> BadRequestError:
    """Return the public error for data that the parser has rejected."""
    return BadRequestError(
        next((details for pattern, details in _PARSER_ERRORS if pattern.search(str(error))), _OTHER_DATA)
    )


@frozen
class Rejection:
    """A request that does not reach the application, or not to its end.

    Attributes:
        error: The reason.
        method: The HTTP method, or `UNKNOWN`.
        path: The path without the query, or `UNKNOWN`.
        scope: The headers, as far as they were received, `client` and `scheme`; and the `state` of a request
            whose application runs.
        started: `time.perf_counter()` when the request came.
    """

    error: ImageHostError
    method: str
    path: str
    scope: HTTPScope
    started: float

    def log(self, security: RequestMiddleware) -> RawResponse:
        """Count and log the request, and return the response with which the connection ends.

        Args:
            security: Assigns the request id, and has the access log.
        """
        state = self.scope.setdefault("state", {})
        request_id = str(state.get("request_id") or security.new_request_id())
        state["request_id"] = request_id
        response = error_response(self.error, state)
        # The application may still run, or only begin: it would log the request again.
        state[REJECTED] = response.status
        common = security.common_headers(request_id, is_https(self.scope, security.trusted))
        cors = security.cors_headers(response.status, self.path, self.scope["headers"])
        headers = ((name.decode(), value.decode("latin-1")) for name, value in (*common, *cors))
        ip_address = client_address(self.scope, security.trusted)
        seconds = time.perf_counter() - self.started
        security.recorder.request(
            self.method, UNROUTED, response.status, seconds, 0, len(response.body), request_id
        )
        fields = access_fields(state)
        security.access_log.request(
            self.method, self.path, ip_address, response.status, request_id, seconds, **fields
        )
        return RawResponse(
            response.status, response.body, (*response.headers, *headers, ("connection", "close"))
        )

    def respond(self, security: RequestMiddleware, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Write the line of the access log, and return the bytes of the response.

        Args:
            security: Assigns the request id, and has the access log.
            default_headers: The headers that the HTTP server adds to all responses, such as `Date`.
        """
        response = self.log(security)
        defaults = ((name.decode(), value.decode()) for name, value in default_headers)
        headers = (*defaults, *response.headers, ("content-length", f"{len(response.body)}"))
        lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers]
        # RFC 9110, 9.3.2: a response to HEAD has the headers of one to GET, and no content.
        body = b"" if self.method == "HEAD" else response.body
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def serve_probe(
    app: ASGIApp,
    security: RequestMiddleware,
    error: ImageHostError,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Pass a probe to the application, and respond with an error to any other request."""
    if is_probe(cast("HTTPScope", scope)):
        await app(scope, receive, send)
    else:
        await send_error(security, error, scope, receive, send)


async def send_error(
    security: RequestMiddleware, error: ImageHostError, scope: Scope, _receive: Receive, send: Send
) -> None:
    """Respond with an error, in place of the application."""
    request = cast("HTTPScope", scope)
    rejection = Rejection(error, request["method"], request["path"], request, time.perf_counter())
    await rejection.log(security).send(send)
