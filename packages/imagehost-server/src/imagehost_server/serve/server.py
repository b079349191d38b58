"""A server process: it opens the data directory, and serves HTTP by uvicorn on the listening socket."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import cast

from uvicorn.server import HANDLED_SIGNALS, Server, ServerState

from imagehost_core import ImageHost
from imagehost_server import logging_config as logs
from imagehost_server.app import Application, create_app
from imagehost_server.metrics import Recorder, Slot
from imagehost_server.middleware.connections import OpenConnection
from imagehost_server.serve.allocator import limit_free_memory, trim_periodically
from imagehost_server.serve.config import ServerConfig
from imagehost_server.serve.protocol import HttpProtocol
from imagehost_server.serve.tls import TlsListener, create_context
from imagehost_server.settings import ServerSettings
from imagehost_server.tracing import configure

RETRY_SECONDS = 5
"""How long a server process that cannot open its data directory waits before it exits and is replaced."""
logger = logging.getLogger("imagehost.server")


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
    """A server that waits for signals, instead of looking for them ten times a second.

    Args:
        config: The configuration. TLS is in its settings only: uvicorn is configured without it.

    Attributes:
        loop: The event loop, while it serves requests.
    """

    config: ServerConfig

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(config)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.server_state = DatedServerState()
        self._listeners = list[TlsListener]()
        self._is_draining = False

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve requests until SIGTERM or SIGINT."""
        limit_free_memory()
        trim_periodically()
        logs.prepare_process()
        listen = self.config.settings.server
        self._tls = (
            create_context(listen.tls_cert, listen.tls_key) if listen.tls_cert and listen.tls_key else None
        )
        self._export_rest = configure(os.environ)
        super().run(sockets)

    def drain(self) -> None:
        """Prepare for a stop, in any thread."""
        self._is_draining = True
        if self.loop is not None:
            cast("Application", self.config.loaded_app).drain()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and accept connections on listening sockets."""
        if self._tls is None or sockets is None:
            await super().startup(sockets)
        else:
            await super().startup([])
            connections = cast("Application", self.config.loaded_app).connections
            for listener in sockets:
                listener.listen(self.config.backlog)
                self._listeners.append(TlsListener(listener, self._tls, connections, self._create_protocol))
        # What exists now lasts as long as the process. Otherwise full collections search it all: 40 ms every
        # few seconds of load, in which no request is handled.
        gc.collect()
        gc.freeze()
        self.loop = asyncio.get_running_loop()
        if self._is_draining:
            self.drain()

    async def main_loop(self) -> None:
        """Return after SIGTERM or SIGINT."""
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
        # uvicorn ends the process by the signal, without the functions of `atexit`.
        self._export_rest()
        logs.flush()

    def _create_protocol(self, place: OpenConnection) -> HttpProtocol:
        return HttpProtocol(self.config, self.server_state, self.lifespan.state, place=place)

    async def _wait_for_signal(self) -> None:
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()

        def stop(number: int) -> None:
            self.handle_exit(number, None)
            stopping.set()

        for number in HANDLED_SIGNALS:
            loop.add_signal_handler(number, stop, number)
        # A signal may have come before.
        if not self.should_exit:
            await stopping.wait()


def open_app(data: Path, settings: ServerSettings) -> Application:
    """Open a data directory and return the application that serves it."""
    try:
        recorder = Recorder(slot=Slot.claim())
        processes = settings.server.workers
        host = ImageHost.open(data, settings=settings, server_processes=processes, observe=recorder.observe)
        return create_app(host, settings, recorder)
    except Exception:
        # The supervisor replaces this process until one can start; others go on.
        logger.exception("data directory cannot be opened", extra={"fields": {"path": data}})
        time.sleep(RETRY_SECONDS)
        sys.exit(1)
