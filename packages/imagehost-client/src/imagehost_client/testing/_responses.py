"""Responses of the in-memory host, and failures that tests plan."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import httpx2
from attrs import define

from imagehost_client.errors import ImageHostError
from imagehost_client.testing._store import Record, current_time


@define
class PlannedFailure:
    """A failure that a test has planned for requests.

    Attributes:
        times: The number of requests that still fail.
        method: Their HTTP method, or `None` for any.
        path: A pattern of their paths.
        response: The error response; `None` lets the connection fail.
    """

    times: int
    method: str | None
    path: str
    response: httpx2.Response | None = None

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request fails."""
        return self.times > 0 and self.method in {None, method} and fnmatchcase(path, self.path)


def rate_headers(limit: int, remaining: int, reset: datetime) -> dict[str, str]:
    """Return the headers of a rate limit window."""
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Reset": str(int(reset.timestamp())),
    }


def error_response(
    error: ImageHostError, status: int, headers: Mapping[str, str] | None = None
) -> httpx2.Response:
    """Return the response of an error."""
    body = {"code": error.code, "message": error.message, "details": error.details}
    challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return envelope_response(status, {"success": False, "error": body}, {**challenge, **(headers or {})})


def envelope_response(
    status: int, envelope: Record, headers: Mapping[str, str] | None = None
) -> httpx2.Response:
    """Return a response with the headers of every response."""
    all_headers = {
        "Content-Type": "application/json",
        "X-Request-Id": f"fake-{secrets.token_hex(4)}",
        **rate_headers(60, 59, datetime.fromtimestamp(current_time().timestamp() // 60 * 60 + 60, UTC)),
        **(headers or {}),
    }
    return httpx2.Response(status, headers=all_headers, content=json.dumps(envelope).encode())
