"""What the processes below the supervisor have in common: their configuration, and its channel."""

from __future__ import annotations

import os
import pickle
import socket
from pathlib import Path
from threading import Thread

from imagehost_server.serve.supervisor import PING
from imagehost_server.settings import ServerSettings

MAX_CONFIGURATION_BYTES = 2**20
"""The longest configuration; settings are a few KiB."""


def connect_supervisor(channel: int) -> socket.socket:
    """Answer the supervisor's pings on a thread; this process exits when the channel closes.

    Args:
        channel: The file descriptor of the channel.
    """
    supervisor = socket.socket(fileno=channel)
    Thread(target=_answer_pings, args=(supervisor,), name="supervisor", daemon=True).start()
    return supervisor


def read_configuration(descriptor: int) -> tuple[Path, ServerSettings]:
    """Return the data directory and its settings, from the file that `runner` has written."""
    pickled = os.pread(descriptor, MAX_CONFIGURATION_BYTES, 0)
    data, settings = pickle.loads(pickled)  # noqa: S301 - written by this user's `runner`
    return data, settings


def _answer_pings(supervisor: socket.socket) -> None:
    """Answer the supervisor, and exit with it: an orphaned process would keep the port."""
    try:
        while pings := supervisor.recv(4_096):
            supervisor.send(PING * len(pings))
    except OSError:
        pass
    os._exit(1)
