"""The two forms of every answer, and the one map from errors to answers.

Contract 2: *success: `{"success": true, "data": …}`; error: `{"success": false, "error": {"code",
"message", "details"}}`. Every answer of the JSON interface has one of the two, also for unknown
routes, wrong methods, bodies cut short, and our own faults.*
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import attrs
import msgspec
from attrs import frozen
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException

from imagehost_core._util.clock import to_rfc3339
from imagehost_core.errors import (
    BY_CODE,
    BadRequestError,
    ConflictError,
    ImageHostError,
    InternalError,
    MethodNotAllowedError,
    NotFoundError,
    RateLimitError,
    UnauthorizedError,
    UnavailableError,
)

if TYPE_CHECKING:
    from litestar.types import Send

logger = logging.getLogger("imagehost.server")

Headers = tuple[tuple[str, str], ...]

JSON_HEADERS: Headers = (
    ("content-type", "application/json"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
)
"""On every answer of the JSON interface: it is about one caller, at one moment."""


@frozen
class RawResponse:
    """A whole answer: status, headers and body, in no framework's words."""

    status: int
    body: bytes
    headers: Headers = ()

    async def send(self, send: Send) -> None:
        """Send it as ASGI messages."""
        fields = ((name.encode(), value.encode("latin-1")) for name, value in self.headers)
        length = (b"content-length", str(len(self.body)).encode())
        await send({"type": "http.response.start", "status": self.status, "headers": [*fields, length]})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def success(data: object, status: int = 200, headers: Headers = ()) -> RawResponse:
    """Return the answer that holds `data`.

    Args:
        data: Records (attrs classes), and lists and mappings of them.
        status: The HTTP status.
        headers: Beside those of every JSON answer.
    """
    body = _encode({"success": True, "data": to_jsonable(data)})
    return RawResponse(status, body, (*JSON_HEADERS, *headers))


def failure(error: Exception, request_id: str) -> RawResponse:
    """Return the answer to a request that failed, and log what only the operator may see.

    Args:
        error: What was raised, by the core, by Litestar, or by a fault of ours.
        request_id: The request's id, under which the log has the cause.
    """
    known = to_api_error(error)
    log_cause(known, error, request_id)
    body = _encode({"success": False, "error": error_dict(known)})
    return RawResponse(known.status, body, (*JSON_HEADERS, *_error_headers(known, error)))


def error_dict(error: ImageHostError) -> dict[str, str]:
    """Return the three public members of an error."""
    return {"code": error.code, "message": error.message, "details": error.details}


def to_api_error(error: Exception) -> ImageHostError:
    """Return the error of the contract's table that `error` stands for.

    Whatever is not raised on purpose is a fault of ours, and its text is not for the public.
    """
    if isinstance(error, ImageHostError) and not isinstance(error, InternalError):
        return error
    for kind, known in _LITESTAR.items():
        if isinstance(error, kind):
            return known(error)
    if isinstance(error, HTTPException) and error.status_code < 500:
        return _BY_STATUS.get(error.status_code, BadRequestError)(error.detail)
    return InternalError("the cause is in the log, under the id that X-Request-Id gives")


def log_cause(known: ImageHostError, error: Exception, request_id: str) -> None:
    """Log the cause of a fault of ours, or of a store that does not answer."""
    cause = error if isinstance(known, InternalError) else known.__cause__
    if known.status >= 500 and cause is not None:
        fields = {"request_id": request_id, "code": known.code}
        logger.error("the request failed", exc_info=cause, extra={"fields": fields})


def to_jsonable(value: object) -> object:
    """Return `value` in types that JSON has, times as the contract writes them."""
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, datetime):
        return to_rfc3339(value)
    if isinstance(value, Mapping):
        return {name: to_jsonable(item) for name, item in value.items()}
    if attrs.has(type(value)):
        return {name: to_jsonable(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, list | tuple):
        return [to_jsonable(item) for item in value]
    return value


_encode = msgspec.json.Encoder().encode
_field_names: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    if kind not in _field_names:
        _field_names[kind] = tuple(attribute.name for attribute in attrs.fields(kind))
    return _field_names[kind]


_BY_STATUS: dict[int, type[ImageHostError]] = {
    kind.status: kind for kind in BY_CODE.values() if not issubclass(kind, RateLimitError | UnavailableError)
}

_LITESTAR: dict[type[HTTPException], Callable[[Exception], ImageHostError]] = {
    NotFoundException: lambda _: NotFoundError("expected an address of this interface"),
    MethodNotAllowedException: lambda error: MethodNotAllowedError(f"expected one of {_allow(error)}"),
}
"""Errors of the framework that say something of their own."""


def _allow(error: Exception) -> str:
    headers = error.headers if isinstance(error, HTTPException) else None
    names = {name.strip() for name in (headers or {}).get("allow", "").split(",")}
    return ", ".join(sorted(names))


def _error_headers(known: ImageHostError, error: Exception) -> Headers:
    if isinstance(known, UnauthorizedError):
        return (("www-authenticate", "Bearer"),)
    if isinstance(known, RateLimitError | UnavailableError | ConflictError) and known.retry_after:
        return (("retry-after", str(known.retry_after)),)
    if isinstance(error, MethodNotAllowedException):
        return (("allow", _allow(error)),)
    return ()
