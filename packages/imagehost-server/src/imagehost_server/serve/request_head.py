"""The head of a request: the request line (RFC 9112, 3), and limits on all that is not data of its body."""

from __future__ import annotations

import re

from attrs import frozen

from imagehost_core.errors import BadRequestError, FieldError, quote_value
from imagehost_server.middleware.header_checks import MAX_HEADER_BYTES, HeadersTooLargeError

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


MAX_HEAD_BYTES = 2 * MAX_HEADER_BYTES
"""All fields of a request, with trailers, and any single line; `RequestMiddleware` has a lower limit."""

FEED_BYTES = 32 * 2**10
"""How many bytes the parser gets at a time: it does not tell how many of them it has made no callback for."""

MAX_UNPARSED_BYTES = MAX_HEAD_BYTES - 2 * FEED_BYTES
"""The most bytes in a row without a callback, or between chunks. They are counted by parts as the parser gets
them, and the parts in which a line begins and ends may count for something else. So every line of
`MAX_HEAD_BYTES` is rejected and none of `MAX_UNPARSED_BYTES`, however a client divides what it sends."""

CHUNK_BYTES = 64
"""What the framing of a chunk may add to its data: a size, an extension, and line ends. A client that sends
more for many chunks is rejected: it would make the server read much more than the limits of bodies allow."""

_TOO_LONG = f"expected at most {MAX_HEAD_BYTES} bytes of headers but received more"
_TARGET_TOO_LONG = f"expected a request target of at most {MAX_TARGET_BYTES} bytes but received more"


class HeadLimit:
    """The sizes of the current request's fields, and of data for which the parser made no callback yet."""

    def __init__(self) -> None:
        self._field_bytes = self._unparsed_bytes = 0

    def begin_request(self) -> None:
        """Begin to count the fields of a request."""
        self._field_bytes = self._unparsed_bytes = 0

    def add_unparsed(self, size: int) -> None:
        """Count data that the parser gets."""
        self._unparsed_bytes += size

    def set_parsed(self) -> None:
        """Stop counting the data so far, since the parser has made a callback for it."""
        self._unparsed_bytes = 0

    def set_target_size(self, size: int) -> None:
        """Set the size of the request target so far.

        Raises:
            HeadersTooLargeError: It is too long.
        """
        self._unparsed_bytes = 0
        if size > MAX_TARGET_BYTES:
            raise HeadersTooLargeError(_TARGET_TOO_LONG)

    def add_body(self, size: int) -> None:
        """Stop counting data of a body, with the framing of a chunk."""
        self._unparsed_bytes = max(0, self._unparsed_bytes - size - CHUNK_BYTES)

    def add_field(self, size: int) -> None:
        """Count a header or a trailer.

        Raises:
            HeadersTooLargeError: The request has too many of them.
        """
        self._unparsed_bytes = 0
        self._field_bytes += size
        if self._field_bytes > MAX_HEAD_BYTES:
            raise HeadersTooLargeError(_TOO_LONG)

    def error(self) -> HeadersTooLargeError | None:
        """Return the error for too much data without a callback."""
        return HeadersTooLargeError(_TOO_LONG) if self._unparsed_bytes > MAX_UNPARSED_BYTES else None
