"""The transport of one response, as uvicorn sees it."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Handle, Transport
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class ResponseTransport(Transport):
    """A transport that sends head and body together, and leaves it to the connection how it is closed.

    uvicorn writes the head of a response, then its body. Each write would be a system call and a packet, so
    the head waits for the body, or for other events to be handled.

    uvicorn closes the transport after a response with `Connection: close`. If the client is still sending,
    that would reset the connection before the client has read the response (RFC 9112, 9.6).

    Args:
        transport: The transport of the connection.
        loop: The event loop.
        cycle: The request and its response.
        close: Called with the cycle instead of the transport's `close`.
    """

    def __init__(
        self,
        transport: Transport,
        loop: AbstractEventLoop,
        cycle: RequestResponseCycle,
        close: Callable[[RequestResponseCycle], None],
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        # The cycle refers to its transport: with another strong reference, each request would leave garbage
        # that only a collection finds, and a collection stops all requests.
        self._cycle = ref(cycle)
        self._close = close
        self._head: bytes | bytearray | memoryview[Any] = b""
        self._is_head_written = False
        self._flush_handle: Handle | None = None

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send data, after the head if it waits; or keep it, if it is the head of a response with a body."""
        cycle = self._cycle()
        if cycle is None:
            # Both are being destroyed, with an application that did not end before the event loop.
            return
        if self._head:
            head, self._head = self._head, b""
            if self._flush_handle is not None:
                self._flush_handle.cancel()
                self._flush_handle = None
            self._transport.writelines((head, data) if data else (head,))
        elif cycle.response_started and not self._is_head_written and cycle.scope["method"] != "HEAD":
            self._is_head_written, self._head = True, data
            self._flush_handle = self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Let the connection close the transport."""
        self._flush()
        cycle = self._cycle()
        if cycle is not None:
            self._close(cycle)

    def _flush(self) -> None:
        self._flush_handle = None
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)
