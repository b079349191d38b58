"""Reading bodies as they arrive, within deadlines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from anyio import current_time, fail_after

from imagehost_core.errors import (
    BadRequestError,
    FieldError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    quote_value,
)
from imagehost_server.settings import HttpSettings

if TYPE_CHECKING:
    from litestar.types import Receive

JSON_BYTES = 2**20
"""The largest JSON body: 1 MiB, of which the longest sensible one (10,000 image ids) is a fifth."""


async def iter_body(receive: Receive, idle: float, total: float) -> AsyncIterator[bytes]:
    """Yield the body's pieces, none of them empty.

    Args:
        receive: Where they come from.
        idle: The longest pause between two of them, in seconds.
        total: The longest time for all of them, in seconds.

    Raises:
        BadRequestError: The sender went away before the end, or is too slow.
    """
    seen = 0
    ends = current_time() + total
    while True:
        wait = min(idle, ends - current_time())
        try:
            with fail_after(wait):
                message = await receive()
        except TimeoutError:
            late = _TOTAL_TIMEOUT.format(total, seen) if wait < idle else _IDLE_TIMEOUT.format(idle, seen)
            raise BadRequestError(late) from None
        if message["type"] != "http.request":
            raise BadRequestError(f"expected the whole body but received its first {seen} bytes and no more")
        piece = message.get("body", b"")
        if piece:
            seen += len(piece)
            yield piece
        if not message.get("more_body", False):
            return


async def read_body(receive: Receive, limit: int, deadlines: HttpSettings) -> bytes:
    """Return the whole body of a request that takes JSON.

    Args:
        receive: Where it comes from.
        limit: The most bytes that are taken.
        deadlines: How long it may take.

    Raises:
        PayloadTooLargeError: It is longer.
        BadRequestError: It did not come to its end.
    """
    body = bytearray()
    async for piece in iter_body(
        receive, deadlines.body_idle_timeout_seconds, deadlines.json_body_timeout_seconds
    ):
        body += piece
        if len(body) > limit:
            received = f"at least {len(body)} bytes"
            raise PayloadTooLargeError(
                message="The body is too large",
                errors=[FieldError("the body", f"at most {limit} bytes", received)],
            )
    return bytes(body)


def is_json(content_type: str | None) -> None:
    """Let a body pass that is declared as JSON.

    Raises:
        UnsupportedMediaTypeError: It is not. Contract 2: *415: the body's content type is not what the
            endpoint takes (multipart form data on /upload, JSON elsewhere)*.
    """
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise unsupported_media_type("application/json", content_type)


def unsupported_media_type(expected: str, content_type: str | None) -> UnsupportedMediaTypeError:
    """Return the error for a body that is declared as something else."""
    received = quote_value(content_type) if content_type else "none"
    return UnsupportedMediaTypeError(
        message="The body's content type is not supported",
        errors=[FieldError("Content-Type", expected, received)],
    )


_TOTAL_TIMEOUT = "expected the whole body within {:g} s but received {} bytes"
_IDLE_TIMEOUT = "expected the body without pauses above {:g} s but received nothing more after {} bytes"
