"""The transport of one response, as uvicorn sees it."""

from __future__ import annotations

from asyncio import Transport
from collections.abc import Callable
from typing import Any


class ResponseTransport(Transport):
    """A transport that passes data on, but leaves it to the connection how it is closed.

    uvicorn closes the transport after a response with `Connection: close`. If the client is still sending,
    that would reset the connection before the client has read the response (RFC 9112, 9.6).

    Args:
        transport: The transport of the connection.
        close: Called instead of the transport's `close`.
    """

    def __init__(self, transport: Transport, close: Callable[[], None]) -> None:
        super().__init__()
        self._transport = transport
        self._close = close

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send data."""
        self._transport.write(data)

    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Let the connection close the transport."""
        self._close()
