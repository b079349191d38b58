"""Cross-origin resource sharing (CORS): which pages of other origins may use the JSON API from a browser.

`RequestMiddleware` adds the headers to the responses of every layer, so that a page can read all errors.
`Dispatcher` responds to preflight requests inside it, so that they get a request id and a line in the access
log, but are neither authenticated nor counted. Litestar's middleware would run inside authentication and rate
limits, whose 401 and 429 would be unreadable; its `CORSConfig` matches origins and builds the headers.

Credentials are never allowed: a page of another origin sends a token, never the session cookie. The routes
of passwords, sessions, keys and accounts have no CORS headers at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from litestar.config.cors import CORSConfig
from litestar.utils import normalize_path

from imagehost_server.auth.identity import RATE_LIMIT_HEADERS
from imagehost_server.http.responses import RawResponse

if TYPE_CHECKING:
    from litestar.types import HTTPScope

RawHeaders = list[tuple[bytes, bytes]]

REQUEST_HEADERS = (
    "Accept",
    "Authorization",
    "Cache-Control",
    "Content-Type",
    "Idempotency-Key",
    "X-Requested-With",
)
"""Request headers that pages may set; `Cache-Control` and `X-Requested-With` are those of uploaders."""

EXPOSED_HEADERS = (
    "Idempotent-Replayed",
    "Location",
    "Retry-After",
    *RATE_LIMIT_HEADERS,
    "X-Request-Id",
)
"""Response headers that pages may read."""

MAX_AGE_SECONDS = 7_200
"""How long browsers may keep the result of a preflight request: the maximum of Chromium."""

PRIVATE_PATHS = ("session", "sessions", "keys", "accounts", "account/password", "account/signing-secret")
"""Paths below the prefix of the API that pages of other origins may not use, with everything below them."""

_SHARED_PATH = re.compile(rf"(/api)?/v1(?!/({'|'.join(PRIVATE_PATHS)})(/|$))(/.*)?", re.DOTALL)


class CorsPolicy:
    """The CORS headers of the JSON API.

    Args:
        origins: The allowed origins; `*` is all of them, and none disables CORS.

    Attributes:
        is_enabled: Whether any origin is allowed.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._config = CORSConfig(
            allow_origins=list(origins),
            allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=list(REQUEST_HEADERS),
            expose_headers=list(EXPOSED_HEADERS),
            max_age=MAX_AGE_SECONDS,
        )
        self.is_enabled = bool(self._config.allow_origins)
        self._simple_headers = _encode(self._config.simple_headers.items())

    def applies_to(self, path: str) -> bool:
        """Return whether pages of other origins may use a path, given as it was received."""
        # Litestar routes `/v1//keys/` as `/v1/keys`.
        if "//" in path or path.endswith("/"):
            path = normalize_path(path)
        return self.is_enabled and _SHARED_PATH.fullmatch(path) is not None

    def response_headers(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
        """Return the headers of every response on a path; none where the policy does not apply.

        Args:
            path: The path as it was received.
            headers: The headers of the request.
        """
        if not self.applies_to(path):
            return []
        if self._config.is_allow_all_origins:
            return self._simple_headers
        origin = _header(headers, b"origin")
        vary = (b"vary", b"Origin")
        if origin is None or not self._config.is_origin_allowed(origin.decode("latin-1")):
            return [vary]
        return [*self._simple_headers, (b"access-control-allow-origin", origin), vary]

    def preflight_response(self, path: str) -> RawResponse:
        """Return the response to a preflight request, without `response_headers`; it may allow nothing."""
        headers = self._config.preflight_headers
        names = ("Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age")
        fields = ((name.lower(), headers[name]) for name in names if self.applies_to(path))
        return RawResponse(204, b"", (*fields, ("cache-control", "no-store")))


def is_preflight(scope: HTTPScope) -> bool:
    """Return whether a request is a CORS preflight request (Fetch standard, 3.3.2)."""
    return (
        scope["method"] == "OPTIONS"
        and _header(scope["headers"], b"origin") is not None
        and _header(scope["headers"], b"access-control-request-method") is not None
    )


def _header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the value of a header, or `None` if it is missing or repeated."""
    values = [value for other, value in headers if other == name]
    return values[0] if len(values) == 1 else None


def _encode(headers: Iterable[tuple[str, str]]) -> RawHeaders:
    return [(name.lower().encode(), value.encode()) for name, value in headers]
