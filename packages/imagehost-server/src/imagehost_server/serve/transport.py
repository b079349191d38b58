"""The transport of a connection: how responses are written and read, and how the connection ends."""

from __future__ import annotations

import socket
import struct
from asyncio import AbstractEventLoop, BaseTransport, Handle, TimerHandle, Transport
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from attrs import frozen

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

BYTES_PER_SECOND = 2**10
"""The slowest rate at which a client may read a response."""
PERIOD_SECONDS = 60.0
"""The time over which the rate is an average: how long a client may read nothing at first."""
LONGEST_SECONDS = 600.0
"""How long a client may acknowledge nothing after it has acknowledged much at once. A kernel or proxy buffers
some MiB for a client, and takes more in large steps: 4 MiB at a time from one that reads 60 KiB a second."""
UNSENT_BYTES = 32 * 2**10
"""Bytes from which on the kernel takes no more of a response until the client has read some; by default
it buffers up to 4 MiB for a client that reads nothing."""
BYTES_ACKNOWLEDGED = struct.Struct("120xQ")
"""`tcpi_bytes_acked` in the `tcp_info` of Linux."""


@frozen
class ReadProgress:
    """How far a client is with a response that waits for it: a leaky bucket of acknowledged bytes.

    Attributes:
        acknowledged: The bytes of the connection that it has acknowledged.
        deadline: When it must have acknowledged more.
    """

    acknowledged: int
    deadline: float

    @classmethod
    def start(cls, acknowledged: int, now: float) -> ReadProgress:
        """Return the progress when a response begins to wait: what was acknowledged before counts."""
        seconds = acknowledged / BYTES_PER_SECOND
        return cls(acknowledged, now + min(max(PERIOD_SECONDS, seconds), LONGEST_SECONDS))

    def update(self, acknowledged: int, now: float) -> ReadProgress | None:
        """Return the progress at a later time, or `None` if the client is too slow.

        Args:
            acknowledged: The bytes of the connection that it has acknowledged.
            now: The time, by the same clock as `deadline`.
        """
        paid_until = self.deadline + (acknowledged - self.acknowledged) / BYTES_PER_SECOND
        deadline = min(paid_until, now + LONGEST_SECONDS)
        return ReadProgress(acknowledged, deadline) if now < deadline else None


def limit_unsent_bytes(listener: socket.socket) -> None:
    """Limit what the kernel takes of a response ahead of time, for all connections of a listening socket."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)


def acknowledged_bytes(transport: BaseTransport) -> int | None:
    """Return how many bytes of a connection the client has acknowledged; `None` where no kernel tells."""
    connection = transport.get_extra_info("socket")
    if connection is None or not hasattr(socket, "TCP_INFO"):
        return None
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKNOWLEDGED.size)
    return int(BYTES_ACKNOWLEDGED.unpack(info)[0]) if len(info) == BYTES_ACKNOWLEDGED.size else None


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
        disconnect: Called with the cycle after a write to a connection that has failed or is closing.
    """

    def __init__(
        self,
        transport: Transport,
        loop: AbstractEventLoop,
        cycle: RequestResponseCycle,
        close: Callable[[RequestResponseCycle], None],
        disconnect: Callable[[RequestResponseCycle], None],
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        # The cycle refers to its transport: with another strong reference, each request would leave garbage
        # that only a collection finds, and a collection stops all requests.
        self._cycle = ref(cycle)
        self._close = close
        self._disconnect = disconnect
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
        if self._transport.is_closing():
            # `connection_lost` follows when the application waits, which it need not do before its last part.
            self._disconnect(cycle)

    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Let the connection close the transport."""
        self._flush()
        cycle = self._cycle()
        if cycle is not None:
            self._close(cycle)

    def abort(self) -> None:
        """Close the connection at once; what waits for the client is discarded."""
        self._transport.abort()
        cycle = self._cycle()
        if cycle is not None:
            self._disconnect(cycle)

    def get_write_buffer_size(self) -> int:
        """Return the bytes that wait for the client."""
        return self._transport.get_write_buffer_size()

    def _flush(self) -> None:
        self._flush_handle = None
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)


LINGER_SECONDS = 10.0
"""The longest time in which received data is discarded: 50 MB at 40 Mbit/s."""
LINGER_IDLE_SECONDS = 2.0
"""The longest pause between two chunks of discarded data."""
LINGER_BYTES = 64 * 2**20
"""How many received bytes are discarded before the connection is aborted."""


class LingeringClose:
    """Discards what a client sends after the final response, and closes the connection when it stops.

    Most clients send a whole body before they read the response. With unread data in the receive buffer,
    closing resets the connection, and these clients lose the response.

    Args:
        loop: The event loop of the connection.
        transport: The transport of the connection.
    """

    def __init__(self, loop: AbstractEventLoop, transport: Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._received_bytes = 0
        self._received_at = loop.time()
        self._deadline = self._received_at + LINGER_SECONDS
        self._timer: TimerHandle | None = None
        # A TLS connection cannot be half-closed; its client closes it because of `Connection: close`.
        if transport.can_write_eof():
            transport.write_eof()
        self._check_deadlines()

    def discard(self, size: int) -> None:
        """Count discarded bytes, and abort the connection if there are too many."""
        self._received_bytes += size
        self._received_at = self._loop.time()
        if self._received_bytes > LINGER_BYTES:
            self._transport.abort()

    def cancel(self) -> None:
        """Stop the timer, since the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _check_deadlines(self) -> None:
        """Close the connection if the client has paused or sent for too long; else check again."""
        remaining = min(self._received_at + LINGER_IDLE_SECONDS, self._deadline) - self._loop.time()
        if remaining > 0:
            self._timer = self._loop.call_later(remaining, self._check_deadlines)
        else:
            self._transport.close()
