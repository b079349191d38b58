"""Limits on the bytes of a request that are not data of its body: its target, its fields, and its framing."""

from __future__ import annotations

from imagehost_server.middleware.security import MAX_HEADER_BYTES, HeadersTooLargeError
from imagehost_server.serve.request_line import MAX_TARGET_BYTES

MAX_HEAD_BYTES = 2 * MAX_HEADER_BYTES
"""All fields of a request, with trailers, and any single line; `SecurityMiddleware` has a lower limit."""

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
