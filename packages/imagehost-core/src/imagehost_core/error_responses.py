"""Responses of errors: their bodies and headers, for every server and framework in the same way."""

from __future__ import annotations

import json

from imagehost_core.conditional import RangeError
from imagehost_core.errors import (
    ConflictError,
    ImageHostError,
    MethodNotAllowedError,
    RateLimitError,
    UnauthorizedError,
    UnavailableError,
    quote_value,
)

Headers = tuple[tuple[str, str], ...]

JSON_HEADERS: Headers = (
    ("content-type", "application/json"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
)
"""Headers of every JSON response. It is specific to the caller, so it must not be cached."""


def method_not_allowed(allowed: str, method: str) -> MethodNotAllowedError:
    """Return the error for a method that is not among the allowed ones, separated by commas."""
    details = f"expected one of {allowed} but received {quote_value(method)[1:-1]}"
    return MethodNotAllowedError(details, allowed=allowed)


def error_headers(error: ImageHostError) -> Headers:
    """Return the headers of an error response in addition to `JSON_HEADERS`."""
    if isinstance(error, UnauthorizedError):
        return (("www-authenticate", "Bearer"),)
    if isinstance(error, RateLimitError | UnavailableError | ConflictError) and error.retry_after:
        return (("retry-after", str(error.retry_after)),)
    if isinstance(error, MethodNotAllowedError) and error.allowed:
        return (("allow", error.allowed),)
    if isinstance(error, RangeError):
        return (("content-range", f"bytes */{error.size}"),)
    return ()


def error_dict(error: ImageHostError) -> dict[str, str]:
    """Return the members of an error in a response."""
    return {"code": error.code, "message": error.message, "details": error.details}


def error_body(error: ImageHostError) -> bytes:
    """Return the body of an error response."""
    envelope = {"success": False, "error": error_dict(error)}
    return json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()
