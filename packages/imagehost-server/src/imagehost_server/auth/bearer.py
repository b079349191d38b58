"""Bearer tokens in request headers (RFC 6750, section 2.1)."""

from __future__ import annotations

from collections.abc import Iterable

from imagehost_core.errors import UnauthorizedError


def bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the bearer token of a request; the scheme is case-insensitive.

    Raises:
        UnauthorizedError: There is no `Authorization` header, several, or another scheme. The message never
            contains the received value.
    """
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        received = "several" if values else "none"
        raise UnauthorizedError(
            f"expected one Authorization header with a Bearer token but received {received}"
        )
    scheme, _, token = values[0].partition(b" ")
    if scheme.lower() != b"bearer":
        raise UnauthorizedError("expected the scheme Bearer for Authorization but received another")
    return token.strip().decode("latin-1")
