"""Clients that read a response too slowly, judged by the bytes that they acknowledge.

The size of the write buffer does not tell: the kernel takes new bytes in large steps, and a stalled client's
buffer is as full as that of one that reads steadily.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from asyncio import BaseTransport

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
