"""Bodies that nobody has read when the answer is ready.

RFC 9112, 9.3: *a server that does not read the entire body must close the connection after its answer*. A
client that is not told so sends its next request into a connection that is just being closed, and gets no
answer. So a small rest is read and thrown away, and before a large one the answer says that it is the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import move_on_after

if TYPE_CHECKING:
    from litestar.types import HTTPReceiveMessage, HTTPScope, Receive, WebSocketReceiveMessage

MAX_DRAIN_BYTES = 64 * 2**10
"""Bytes of a body that are read and thrown away."""
DRAIN_TIMEOUT = 1.0
"""How long the answer waits for them."""


class RequestBody:
    """The receiving side of a request, which knows whether anything is left to be received.

    Args:
        scope: The request.
        receive: Where its body comes from.
    """

    def __init__(self, scope: HTTPScope, receive: Receive) -> None:
        self._receive = receive
        headers = dict(scope["headers"])
        coded = b"transfer-encoding" in headers
        length = headers.get(b"content-length", b"0")
        declared = int(length) if length.isdigit() else MAX_DRAIN_BYTES + 1
        # Reading on would ask a client for the body that it has kept back.
        self._is_small = declared <= MAX_DRAIN_BYTES and not coded and b"expect" not in headers
        self._is_first_version = scope["http_version"].startswith("1")
        self.has_unread = coded or declared > 0

    async def __call__(self) -> HTTPReceiveMessage | WebSocketReceiveMessage:
        """Receive the next piece."""
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.has_unread = False
        return message

    async def drain(self, *, read: bool) -> bool:
        """Read what is left, if it is small; return whether the connection must be closed.

        Args:
            read: Whether anything may be read at all.
        """
        if self.has_unread and self._is_small and read:
            with move_on_after(DRAIN_TIMEOUT):
                while self.has_unread:
                    await self()
        return self.has_unread and self._is_first_version
