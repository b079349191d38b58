"""The end of a connection whose client may still be sending (RFC 9112, 9.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle, Transport

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
