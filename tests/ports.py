"""Ports for the servers of tests."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

LISTENING_PORTS = range(10_240, 32_768)
"""Linux uses the ports above for outgoing connections, and those of ended ones stay in use for a minute."""


def free_port() -> int:
    """Return a free TCP port of loopback, which no other test gets until this process ends.

    A socket is bound to it. A server that sets `SO_REUSEADDR`, as all of tests do, can bind another one.
    """
    while True:
        port = random.choice(LISTENING_PORTS)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            # Only now: no two processes can bind the same port before it is set.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.detach()
            return port
