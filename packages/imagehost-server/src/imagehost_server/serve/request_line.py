"""The request line of HTTP/1.1 (RFC 9112, 3): the version, and the target in origin form or absolute form."""

from __future__ import annotations

import re

from attrs import frozen

from imagehost_core.errors import BadRequestError, FieldError, quote_value

MAX_TARGET_BYTES = 2**16 - 1
"""The longest request target; uvicorn's URL parser takes no longer one."""

VERSIONS = ("1.0", "1.1")

_ABSOLUTE = re.compile(
    rb"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.DOTALL
)


@frozen
class RequestTarget:
    """A request target, whatever its form was.

    Attributes:
        path_and_query: The path, beginning with `/`, and the query; or `*`.
        host: Host and port of the absolute form, in place of the `Host` header; `None` in other forms.
    """

    path_and_query: bytes
    host: bytes | None = None

    def replace_host(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Replace the value of `Host` in place, if the target names a host (RFC 9112, 3.2.2)."""
        if self.host is not None:
            headers[:] = [(name, self.host if name == b"host" else value) for name, value in headers]


def require_http_1(method: bytes, version: str) -> None:
    """Raise BadRequestError unless a request has a supported version, and is not CONNECT."""
    if version not in VERSIONS:
        raise BadRequestError(errors=[FieldError("the version", "HTTP/1.1", f"HTTP/{version}")])
    if method == b"CONNECT":
        raise BadRequestError("expected a request to this server but received CONNECT, as for a proxy")


def parse_request_target(method: bytes, target: bytes) -> RequestTarget:
    """Return the parts of a request target.

    Args:
        method: The HTTP method; only OPTIONS may have the target `*`.
        target: The target as it was received.

    Raises:
        BadRequestError: The target has none of the forms, or an absolute URL without a host, with a user
            name (RFC 9110, 4.2.4), or of another scheme than HTTP's.
    """
    if target.startswith(b"/") or (method == b"OPTIONS" and target == b"*"):
        return RequestTarget(target)
    match = _ABSOLUTE.fullmatch(target)
    if match is not None and match["scheme"].lower() in (b"http", b"https"):
        authority, rest = match["authority"], match["rest"]
        if authority and b"@" not in authority:
            return RequestTarget(rest if rest.startswith(b"/") else b"/" + rest, authority)
    expected = "a path or an absolute http or https URL with a host and no user name"
    received = quote_value(target.decode("latin-1"))
    raise BadRequestError(errors=[FieldError("the request target", expected, received)])


def loggable_path(target: bytes) -> str:
    """Return the path of a request target for the log, without host, user name and query.

    Args:
        target: The target, or the part of it that was received.
    """
    match = _ABSOLUTE.fullmatch(target)
    path = match["rest"] if match is not None else target
    return re.split(rb"[?#]", path, maxsplit=1)[0].decode("latin-1") or "/"
