"""The TLS listener: connections count for the limits before their handshake, not only after it.

asyncio's servers report a connection to its protocol after the TLS handshake. With them a client could hold
any number of connections by completing no handshake.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from imagehost_server.middleware.connections import ConnectionTable, OpenConnection

HANDSHAKE_SECONDS = 10.0
"""Timeout of TLS handshakes."""
SHUTDOWN_SECONDS = 2.0
"""Timeout of TLS shutdown."""
RETRY_SECONDS = 1.0
"""Pause after a connection that cannot be accepted, since this process has too many open files."""

logger = logging.getLogger("imagehost.server")


def create_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the TLS settings of a server: TLS 1.2 or later.

    Args:
        certificate: Path of the PEM file with the certificate and its chain.
        key: Path of the PEM file with the key.

    Raises:
        OSError: A file cannot be read or is not valid PEM, or the key is not the certificate's.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise OSError(f"expected a certificate in {certificate} and its key in {key}: {error}") from error
    return context


class TlsListener:
    """A listening socket whose connections speak TLS; `close` it to stop.

    Args:
        listener: The socket.
        context: The TLS settings.
        table: The open connections; one with a handshake in progress is idle, so it is closed for others.
        create_protocol: Creates the protocol of a connection, which takes its place in the table over when
            the handshake is complete.
        handshake_seconds: Timeout of the handshake.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        table: ConnectionTable,
        create_protocol: Callable[[OpenConnection], asyncio.Protocol],
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._listener = listener
        self._context = context
        self._table = table
        self._create_protocol = create_protocol
        self._handshake_seconds = handshake_seconds
        self._loop = asyncio.get_running_loop()
        # The event loop refers to tasks weakly.
        self._handshakes = set[asyncio.Task[None]]()
        listener.setblocking(False)
        self._accepting = self._loop.create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections, and close those with a handshake in progress."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def _accept(self) -> None:
        while True:
            try:
                connection, address = await self._loop.sock_accept(self._listener)
            except ConnectionError:
                continue
            except OSError:
                logger.exception("cannot accept a connection; retrying")
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._start(connection, address[0])
            # Let other tasks run before the next connection.
            await asyncio.sleep(0)

    def _start(self, connection: socket.socket, ip_address: str) -> None:
        """Start the handshake of a connection."""

        def evict() -> bool:
            # The handshake fails then, and closes the socket.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            return True

        place = self._table.add(ip_address, evict)
        task = self._loop.create_task(self._shake_hands(connection, place))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: socket.socket, place: OpenConnection) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._create_protocol(place),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except OSError:
            # The client speaks no TLS, is too slow, or has closed the connection.
            place.remove()
        except asyncio.CancelledError:
            place.remove()
            raise
