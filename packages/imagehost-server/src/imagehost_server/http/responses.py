"""JSON responses, and the mapping of exceptions to error responses.

Every response of the JSON API is `{"success": true, "data": …}` or `{"success": false, "error": {"code",
"message", "details"}}`, also for unknown routes, wrong methods, incomplete bodies and internal errors.
"""

from __future__ import annotations

import logging
import time
from collections.abc import MutableMapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import attrs
import msgspec
from attrs import evolve, frozen
from litestar import Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from msgspec import Struct

from imagehost_core.error_responses import (
    JSON_HEADERS,
    Headers,
    error_dict,
    error_headers,
    method_not_allowed,
)
from imagehost_core.errors import (
    BY_CODE,
    BadRequestError,
    ImageHostError,
    InternalError,
    NotFoundError,
    RateLimitError,
    UnavailableError,
    quote_value,
)
from imagehost_server.http.json_values import to_jsonable
from imagehost_server.logging_config import REPEAT_SECONDS

if TYPE_CHECKING:
    from litestar.response.base import ASGIResponse
    from litestar.types import Receive, Scope, Send


logger = logging.getLogger("imagehost.server")

_repeat_at: dict[str, float] = {}
"""When the cause of errors may be logged again, by their details, of which there are few."""

R = TypeVar("R", bound=attrs.AttrsInstance)
T = TypeVar("T")


@frozen
class RawResponse:
    """A complete response, independent of the framework."""

    status: int
    body: bytes
    headers: Headers = ()

    async def send(self, send: Send) -> None:
        """Send the response as ASGI messages."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.raw_headers()})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers, with the length."""
        headers = list(_encode_headers(self.headers))
        # RFC 9110, 8.6: 204 has none, and that of 304 would be of the body that is not sent.
        if self.status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(self.body)))
        return headers


@lru_cache(100)
def _encode_headers(headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.encode(), value.encode("latin-1")) for name, value in headers)


def success_response(data: object, status: int = 200, headers: Headers = ()) -> RawResponse:
    """Return the response with `data`.

    Args:
        data: Records (attrs classes), encoded ones (`msgspec.Raw`), and lists and mappings of them.
        status: The HTTP status.
        headers: Headers in addition to `JSON_HEADERS`.
    """
    encoded = data if isinstance(data, msgspec.Raw) else _encode(to_jsonable(data))
    return RawResponse(status, b'{"success":true,"data":%b}' % encoded, (*JSON_HEADERS, *headers))


def encode_record(record: object) -> bytes:
    """Return the JSON of a record; `success_response` takes it as `msgspec.Raw` in place of the record."""
    return _encode(to_jsonable(record))


def record_of(kind: type[R], source: object, **others: object) -> R:
    """Return a record with the attributes of a value by the same names.

    Args:
        kind: The class of the record, an attrs class.
        source: The value.
        others: Attributes of the record that are not those of the value.
    """
    names = (attribute.name for attribute in attrs.fields(kind))
    return kind(**{name: others[name] if name in others else getattr(source, name) for name in names})


REFUSAL = "refusal"
"""The member of `scope["state"]` with the error that the response to the request tells."""


def error_response(error: Exception, state: MutableMapping[str, Any]) -> RawResponse:
    """Return the response for an exception, and log the cause of an internal error.

    Args:
        error: An exception of the core, of Litestar, or an unexpected one.
        state: The state of the request, as for `refuse`.
    """
    api_error = refuse(error, state)
    body = _encode({"success": False, "error": error_dict(api_error)})
    return RawResponse(api_error.status, body, (*JSON_HEADERS, *error_headers(api_error)))


def refuse(error: Exception, state: MutableMapping[str, Any]) -> ImageHostError:
    """Return the public error for an exception that ends a request; log the cause of an internal one.

    Args:
        error: An exception of the core, of Litestar, or an unexpected one.
        state: The state of the request, which has its id; the access log finds the error in it.
    """
    api_error = state[REFUSAL] = to_api_error(error)
    log_cause(api_error, error, str(state["request_id"]))
    return api_error


def to_api_error(error: Exception) -> ImageHostError:
    """Return the public error for an exception.

    An unexpected exception becomes an InternalError without its text, which may be confidential.
    """
    if isinstance(error, ImageHostError) and not isinstance(error, InternalError):
        return error
    if isinstance(error, HTTPException) and error.status_code < 500:
        return _BY_STATUS.get(error.status_code, BadRequestError)(error.detail)
    return InternalError("the cause is in the log, under the id that X-Request-Id gives")


def log_cause(api_error: ImageHostError, error: Exception, request_id: str) -> None:
    """Log the traceback of an internal error; why a store or worker does not respond, once in a while."""
    fields: dict[str, object] = {"request_id": request_id, "code": api_error.code}
    if isinstance(api_error, InternalError):
        logger.error("request failed", exc_info=error, extra={"fields": fields})
    elif api_error.status >= 500 and (cause := api_error.__cause__) is not None:
        now = time.monotonic()
        if now >= _repeat_at.get(api_error.details, 0.0):
            _repeat_at[api_error.details] = now + REPEAT_SECONDS
            fields |= {"reason": api_error.details, "cause": f"{type(cause).__name__}: {cause}"}
            logger.error("requests fail", extra={"fields": fields})


_encode = msgspec.json.Encoder().encode

_BY_STATUS: dict[int, type[ImageHostError]] = {
    kind.status: kind for kind in BY_CODE.values() if not issubclass(kind, RateLimitError | UnavailableError)
}


def routing_error(error: Exception, method: str, path: str) -> Exception:
    """Return the public error for Litestar's error for a path or a method without a handler.

    Args:
        error: The error; any other is returned as it is.
        method: The method of the request.
        path: The path of the request.
    """
    if isinstance(error, NotFoundException):
        return NotFoundError(f"expected a URL of this API but received {quote_value(path)}")
    if isinstance(error, MethodNotAllowedException):
        allowed = {name.strip() for name in (error.headers or {}).get("allow", "").split(",")}
        return method_not_allowed(", ".join(sorted(allowed)), method)
    return error


class Success(Struct, Generic[T]):
    """The body of a successful response: `{"success": true, "data": …}`.

    Attributes:
        success: Always true.
    """

    success: bool
    data: T


def ok(data: T, status: int = 200, headers: Headers = ()) -> Response[Success[T]]:
    """Return the success envelope of `data` as a Litestar response.

    The body is encoded here, with the timestamps of this API, so the annotation serves the OpenAPI document.
    """
    return envelope(success_response(data, status, headers))


def envelope(response: RawResponse) -> Response[Success[T]]:
    """Return an encoded response with a success envelope as a Litestar response."""
    return cast("Response[Success[T]]", to_litestar(response))


class EncodedResponse(Response[bytes]):
    """A response that is sent as it is: Litestar's would encode body and headers again.

    Args:
        response: The response.
    """

    __slots__ = ("_response",)

    def __init__(self, response: RawResponse) -> None:
        # Of Litestar's attributes it has only the cookies, which a handler may set: the others take a while.
        self._response = response
        self.cookies = []

    def to_asgi_response(self, *_arguments: Any, **_keywords: Any) -> ASGIResponse:
        """Return the ASGI application that sends the response."""
        return cast("ASGIResponse", self._send)

    @property
    def raw(self) -> RawResponse:
        """The response, with the cookies that a handler has set."""
        if not self.cookies:
            return self._response
        cookies = (cookie.to_encoded_header() for cookie in self.cookies)
        headers = ((name.decode(), value.decode("latin-1")) for name, value in cookies)
        return evolve(self._response, headers=(*self._response.headers, *headers))

    # Litestar passes the arguments by name.
    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await self.raw.send(send)


def to_litestar(response: RawResponse) -> Response[bytes]:
    """Return a response as a Litestar response; handlers may add cookies to it, but no headers."""
    return EncodedResponse(response)
