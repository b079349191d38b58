"""Request bodies, read as they arrive, with deadlines and limits; and the timestamps in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
from anyio import current_time, fail_after, move_on_after
from msgspec import Meta, UnsetType

from imagehost_core.errors import (
    BadRequestError,
    FieldError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    ValidationError,
    quote_value,
)
from imagehost_server.settings import HttpSettings

if TYPE_CHECKING:
    from litestar.types import Receive


JSON_BYTES = 2**20
"""The largest JSON body: 1 MiB, five times the longest sensible one (10,000 image ids)."""

MAX_COUNTED_BYTES = 64 * 2**20
"""How many bytes of a too large JSON body of unknown length are read, to name its size."""

COUNT_SECONDS = 3.0
"""The longest time for that."""


async def iter_body(receive: Receive, idle_timeout: float, total_timeout: float) -> AsyncIterator[bytes]:
    """Yield the non-empty chunks of a request body.

    Args:
        receive: The ASGI callable.
        idle_timeout: The longest pause between two chunks, in seconds.
        total_timeout: The longest time for the whole body, in seconds.

    Raises:
        BadRequestError: The client disconnected before the end, or exceeded a timeout.
    """
    received = 0
    deadline = current_time() + total_timeout
    while True:
        timeout = min(idle_timeout, deadline - current_time())
        try:
            with fail_after(timeout):
                message = await receive()
        except TimeoutError:
            details = (
                _TOTAL_TIMEOUT.format(total_timeout, received)
                if timeout < idle_timeout
                else _IDLE_TIMEOUT.format(idle_timeout, received)
            )
            raise BadRequestError(details) from None
        if message["type"] != "http.request":
            raise BadRequestError(
                f"expected the whole body but received its first {received} bytes and no more"
            )
        chunk = message.get("body", b"")
        if chunk:
            received += len(chunk)
            yield chunk
        if not message.get("more_body", False):
            return


async def read_body(
    receive: Receive, limit: int, timeouts: HttpSettings, declared: str | None = None
) -> bytes:
    """Return the whole body of a JSON request.

    Args:
        receive: The ASGI callable.
        limit: The largest size, in bytes.
        timeouts: Settings with the timeouts of JSON bodies.
        declared: The `Content-Length`, or `None`. A larger body than `limit` is not read then.

    Raises:
        PayloadTooLargeError: The body exceeds `limit`.
        BadRequestError: The client disconnected before the end, or exceeded a timeout.
    """
    if declared is not None and declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit, f"{int(declared)} bytes")
    body = bytearray()
    chunks = iter_body(receive, timeouts.body_idle_timeout_seconds, timeouts.json_body_timeout_seconds)
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise _too_large(limit, await _count_bytes(chunks, len(body)))
    return bytes(body)


async def _count_bytes(rest: AsyncIterator[bytes], received: int) -> str:
    """Read a body to its end, or for a limited time, and return its size as text."""
    with move_on_after(COUNT_SECONDS), suppress(BadRequestError):
        async for chunk in rest:
            received += len(chunk)
            if received > MAX_COUNTED_BYTES:
                break
        else:
            return f"{received} bytes"
    return f"at least {received} bytes"


def _too_large(limit: int, received: str) -> PayloadTooLargeError:
    errors = [FieldError("the body", f"at most {limit} bytes", received)]
    return PayloadTooLargeError(message="The body is too large", errors=errors)


def require_json(content_type: str | None) -> None:
    """Raise UnsupportedMediaTypeError unless a content type is `application/json`, with any parameters."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise unsupported_media_type("application/json", content_type)


def unsupported_media_type(expected: str, content_type: str | None) -> UnsupportedMediaTypeError:
    """Return the error for a body of another content type than `expected`."""
    received = quote_value(content_type) if content_type else "none"
    return UnsupportedMediaTypeError(
        message="The body's content type is not supported",
        errors=[FieldError("Content-Type", expected, received)],
    )


_TOTAL_TIMEOUT = "expected the whole body within {:g} s but received {} bytes"

_IDLE_TIMEOUT = "expected the body without pauses above {:g} s but received nothing more after {} bytes"


def parse_timestamp(name: str, text: str | UnsetType | None) -> datetime | None:
    """Return an RFC 3339 timestamp as a datetime in UTC; `None` if there is no text.

    Args:
        name: The field's name, for the error.
        text: The timestamp, with its time zone.

    Raises:
        ValidationError: The text is not RFC 3339, or has no time zone.
    """
    if not isinstance(text, str):
        return None
    try:
        timestamp: datetime = msgspec.convert(text, Annotated[datetime, Meta(tz=True)])
        # The last hours of the year 9999, in zones west of UTC, overflow in UTC.
        return timestamp.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        error = FieldError(name, "a time of RFC 3339, with its zone,", quote_value(text))
        raise ValidationError(errors=[error]) from None
