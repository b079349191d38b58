"""uvicorn's server, without its timers: an idle process sleeps until a signal or a connection wakes it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import cast

from uvicorn.config import Config
from uvicorn.server import HANDLED_SIGNALS, Server, ServerState

from imagehost_server.app import Application
from imagehost_server.middleware.connections import OpenConnection
from imagehost_server.serve.protocol import HttpProtocol
from imagehost_server.serve.tls import TlsListener


class DatedServerState(ServerState):
    """The state that all connections share; it makes the `Date` header when a response needs it.

    uvicorn renews the header every second, also when there are no responses.

    Args:
        clock: Returns the current time in seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._second = clock, -1
        self._headers = list[tuple[bytes, bytes]]()
        super().__init__()

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of all responses: a new list in each second."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._headers = second, [(b"date", formatdate(second, usegmt=True).encode())]
        return self._headers

    @default_headers.setter
    def default_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Ignore what uvicorn's server assigns."""


class EventDrivenServer(Server):
    """A server that waits for signals instead of looking for them ten times a second.

    Args:
        config: uvicorn's configuration.
        on_started: Called when the server accepts connections.
        on_stopped: Called when the application has stopped; then uvicorn ends the process by the signal,
            without the functions of `atexit`.
        tls: The TLS settings; `None` for plain HTTP. uvicorn is configured without TLS in both cases.
    """

    def __init__(
        self,
        config: Config,
        on_started: Callable[[], object],
        on_stopped: Callable[[], object],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(config)
        self._tls = tls
        self._listeners = list[TlsListener]()
        self.server_state = DatedServerState()
        self._on_started, self._on_stopped = on_started, on_stopped

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and accept connections on listening sockets."""
        if self._tls is None or sockets is None:
            await super().startup(sockets)
            return
        await super().startup([])
        application = cast("Application", self.config.loaded_app)
        for listener in sockets:
            listener.listen(self.config.backlog)
            self._listeners.append(
                TlsListener(listener, self._tls, application.connections, self._create_protocol)
            )

    async def main_loop(self) -> None:
        """Return after SIGTERM or SIGINT."""
        self._on_started()
        if sys.platform == "win32":
            # Its event loops have no signal handlers.
            await super().main_loop()
        else:
            await self._wait_for_signal()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the application, after the requests in progress."""
        for listener in self._listeners:
            listener.close()
        await super().shutdown(sockets)
        self._on_stopped()

    def _create_protocol(self, place: OpenConnection) -> HttpProtocol:
        return HttpProtocol(self.config, self.server_state, self.lifespan.state, place=place)

    async def _wait_for_signal(self) -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()

        def stop(number: int) -> None:
            self.handle_exit(number, None)
            stopping.set()

        for number in HANDLED_SIGNALS:
            loop.add_signal_handler(number, stop, number)
        # A signal may have come before.
        if not self.should_exit:
            await stopping.wait()
