"""The body of a request, which is read before a response, or its connection closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import move_on_after

if TYPE_CHECKING:
    from litestar.types import HTTPReceiveMessage, HTTPScope, Receive, WebSocketReceiveMessage

MAX_DRAIN_BYTES = 64 * 2**10
"""The largest declared length of a body that is drained."""

DRAIN_TIMEOUT = 1.0
"""Seconds that a response waits for the rest of the body."""


class RequestBody:
    """The `receive` callable of a request, which knows whether a part of the body is unread.

    Args:
        scope: The request.
        receive: The server's `receive` callable.
        drain_timeout: Seconds that `drain` waits.

    Attributes:
        has_unread: Whether a part of the body is unread.
        received_bytes: The bytes that were read.
    """

    def __init__(self, scope: HTTPScope, receive: Receive, *, drain_timeout: float = DRAIN_TIMEOUT) -> None:
        self._receive = receive
        self._drain_timeout = drain_timeout
        headers = dict(scope["headers"])
        has_coding = b"transfer-encoding" in headers
        length = headers.get(b"content-length", b"0")
        declared = int(length) if length.isdigit() else MAX_DRAIN_BYTES + 1
        # With Expect, reading would request the body that the client has held back.
        self._can_drain = declared <= MAX_DRAIN_BYTES and not has_coding and b"expect" not in headers
        self._is_http_1 = scope["http_version"].startswith("1")
        self.has_unread = has_coding or declared > 0
        self.received_bytes = 0

    async def __call__(self) -> HTTPReceiveMessage | WebSocketReceiveMessage:
        """Receive the next part of the body."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.received_bytes += len(message["body"])
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.has_unread = False
        return message

    async def drain(self, *, read: bool) -> bool:
        """Discard the rest of the body if it is small; return whether the connection must be closed.

        Args:
            read: Whether anything may be read.
        """
        if self.has_unread and self._can_drain and read:
            with move_on_after(self._drain_timeout):
                while self.has_unread:
                    await self()
        return self.has_unread and self._is_http_1
