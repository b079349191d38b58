"""Checks of a request by its headers alone: HTTPS, their size, and what servers may read differently."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from imagehost_core.errors import BadRequestError, FieldError, ForbiddenError
from imagehost_server.http.client_address import Network, is_trusted_proxy
from imagehost_server.settings import is_loopback

if TYPE_CHECKING:
    from litestar.types import HTTPScope

MAX_HEADER_BYTES = 64 * 2**10
"""All names and values of a request's headers. `serve.protocol` has its own limit, twice as high."""

FORWARDING_HEADERS = frozenset({b"forwarded", b"via"})
"""Headers that proxies add to requests, beside `X-Forwarded-*`."""

FORWARDING_PREFIX = b"x-forwarded-"

HTTP_1_0 = ("1.0", "1")
"""HTTP/1.0 as the ASGI specification spells it, and as some servers do."""

PROBE_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that are served over plain HTTP to any IP address."""

PROBE_METHODS = frozenset({"GET", "HEAD"})

_HTTPS_ONLY = (
    "expected HTTPS for a request from another machine but received plain HTTP; "
    "give the server a certificate, or name the proxy before it in trusted_proxies; "
    "a loopback client counts as another machine if it sends Forwarded, X-Forwarded-* or Via"
)


class HeadersTooLargeError(BadRequestError):
    """The request line or the headers are too large (RFC 6585, 5)."""

    status = 431
    default_message = "The request's headers are too large"


def require_valid_request(scope: HTTPScope, trusted: tuple[Network, ...]) -> None:
    """Raise an error unless a request may be handled, judged by its headers alone.

    Args:
        scope: The request.
        trusted: Networks of trusted proxies.

    Raises:
        HeadersTooLargeError: Its headers are too large.
        BadRequestError: Its headers are ambiguous. Names every error.
        ForbiddenError: It came over plain HTTP from another machine, and is no probe.
    """
    size = sum(map(len, chain.from_iterable(scope["headers"])))
    if size > MAX_HEADER_BYTES:
        expected = f"at most {MAX_HEADER_BYTES} bytes"
        raise HeadersTooLargeError(errors=[FieldError("all headers", expected, f"{size}")])
    names = [name for name, _ in scope["headers"]]
    if errors := [error for find in (_host_error, _body_length_error) if (error := find(scope, names))]:
        raise BadRequestError(errors=errors)
    if not is_private(scope, trusted) and not is_probe(scope):
        raise ForbiddenError(_HTTPS_ONLY)


def _host_error(scope: HTTPScope, names: Sequence[bytes]) -> FieldError | None:
    """Return an error unless there is one Host, which HTTP/1.0 does not require (RFC 9112, 3.2)."""
    hosts = names.count(b"host")
    if hosts > 1:
        return FieldError("Host", "exactly one header", f"{hosts}")
    # Some servers add an empty one where it is missing.
    if (hosts and dict(scope["headers"])[b"host"]) or _is_http_1_0(scope):
        return None
    return FieldError("Host", "exactly one header", "none")


def _body_length_error(scope: HTTPScope, names: Sequence[bytes]) -> FieldError | None:
    """Return an error if servers may disagree on where the body ends: request smuggling (RFC 9112, 6.1)."""
    if b"transfer-encoding" not in names:
        return None
    codings = [value.strip().lower() for name, value in scope["headers"] if name == b"transfer-encoding"]
    if b"content-length" in names:
        return FieldError("the body's length", "one header", "Transfer-Encoding and Content-Length")
    # No coding but chunked is decoded here.
    if codings != [b"chunked"]:
        return FieldError("Transfer-Encoding", "chunked", "another coding")
    # HTTP/1.0 has no transfer codings, so a proxy may have taken the body for another request.
    return FieldError("Transfer-Encoding", "none in HTTP/1.0", "chunked") if _is_http_1_0(scope) else None


def _is_http_1_0(scope: HTTPScope) -> bool:
    return scope["http_version"] in HTTP_1_0


def is_probe(scope: HTTPScope) -> bool:
    """Return whether a request is a health or readiness probe, which load balancers send over plain HTTP."""
    return scope["path"] in PROBE_PATHS and scope["method"] in PROBE_METHODS


def is_https(scope: HTTPScope, trusted: tuple[Network, ...]) -> bool:
    """Return whether a request came over HTTPS, to this server or to a trusted proxy."""
    return scope["scheme"] == "https" or _forwarded_https(scope, trusted)


def is_private(scope: HTTPScope, trusted: tuple[Network, ...]) -> bool:
    """Return whether a request came over HTTPS or from this machine."""
    return is_https(scope, trusted) or is_loopback_client(scope)


def is_loopback_client(scope: HTTPScope) -> bool:
    """Return whether a request comes from this machine, and not through a proxy on it."""
    return is_loopback(_peer_ip(scope)) and not any(
        name in FORWARDING_HEADERS or name.startswith(FORWARDING_PREFIX) for name, _ in scope["headers"]
    )


def _forwarded_https(scope: HTTPScope, trusted: tuple[Network, ...]) -> bool:
    """Return whether a trusted proxy reports HTTPS."""
    if not trusted or not is_trusted_proxy(_peer_ip(scope), trusted):
        return False
    values = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    schemes = [scheme.strip().lower() for value in values for scheme in value.split(b",")]
    return bool(schemes) and all(scheme == b"https" for scheme in schemes)


def _peer_ip(scope: HTTPScope) -> str:
    return (scope["client"] or ("", 0))[0]
