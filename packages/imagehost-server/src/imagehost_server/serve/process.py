"""What the processes below the supervisor have in common: their configuration, and its channel."""

from __future__ import annotations

import os
import pickle
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from imagehost_server.serve.supervisor import DRAIN, PING, READY
from imagehost_server.settings import ServerSettings

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

MAX_CONFIGURATION_BYTES = 2**20
"""The longest configuration; settings are a few KiB."""


class SupervisorChannel:
    """This process's end of its channel to the supervisor; the process exits when the other end closes.

    Args:
        channel: The file descriptor of the channel.
    """

    def __init__(self, channel: int) -> None:
        self._socket = socket.socket(fileno=channel)
        self._loop: AbstractEventLoop | None = None
        self._on_drain: Callable[[], object] | None = None
        Thread(target=self._receive_pings, name="supervisor", daemon=True).start()

    def ready(
        self, loop: AbstractEventLoop | None = None, on_drain: Callable[[], object] | None = None
    ) -> None:
        """Tell the supervisor that this process serves requests.

        Args:
            loop: The event loop that serves them. From now on it answers the pings, so that a process whose
                event loop is blocked does not count as alive.
            on_drain: Called by the event loop when the server is about to stop.
        """
        self._loop, self._on_drain = loop, on_drain
        self._socket.send(READY)

    def _receive_pings(self) -> None:
        """Answer the supervisor, and exit with it: an orphaned process would keep the port."""
        try:
            while received := self._socket.recv(4_096):
                if DRAIN in received and self._loop is not None and self._on_drain is not None:
                    with suppress(RuntimeError):
                        self._loop.call_soon_threadsafe(self._on_drain)
                self._answer(PING * received.count(PING))
        except OSError:
            pass
        os._exit(1)

    def _answer(self, pings: bytes) -> None:
        loop = self._loop
        if loop is not None:
            # A closed loop belongs to a process that is about to exit.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._send, pings)
                return
        self._send(pings)

    def _send(self, pings: bytes) -> None:
        # The other thread notices that the channel is closed.
        with suppress(OSError):
            self._socket.send(pings)


def read_configuration(descriptor: int) -> tuple[Path, ServerSettings]:
    """Return the data directory and its settings, from the file that `runner` has written."""
    if sys.platform != "win32":
        pickled = os.pread(descriptor, MAX_CONFIGURATION_BYTES, 0)
        data, settings = pickle.loads(pickled)  # noqa: S301 - written by this user's `runner`
        return data, settings
    raise NotImplementedError("expected a system that passes descriptors to other programs")
