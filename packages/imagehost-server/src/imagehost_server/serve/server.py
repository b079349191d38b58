"""uvicorn's server, without its timers: an idle process sleeps until a signal or a connection wakes it."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from email.utils import formatdate

from uvicorn.config import Config
from uvicorn.server import HANDLED_SIGNALS, Server, ServerState


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
    """

    def __init__(
        self, config: Config, on_started: Callable[[], object], on_stopped: Callable[[], object]
    ) -> None:
        super().__init__(config)
        self.server_state = DatedServerState()
        self._on_started, self._on_stopped = on_started, on_stopped

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
        await super().shutdown(sockets)
        self._on_stopped()

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
