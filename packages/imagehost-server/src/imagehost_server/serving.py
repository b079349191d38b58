"""Running the application on Granian, in one process or several."""

from __future__ import annotations

import errno
import multiprocessing
import os
import socket
import sys
import time
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

from granian import Granian
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels

from imagehost_core import ImageHost
from imagehost_server import logs
from imagehost_server.app import create_app
from imagehost_server.guard import MAX_HEADER_BYTES, Guard
from imagehost_server.settings import ServerSettings

if sys.platform != "win32":
    import resource

SPARE_FILES = 1_024
"""Open files that a process needs beside its connections."""
PORT_SECONDS = 3.0
"""How long a start waits for a port that another process is letting go of."""
STOP_SECONDS = 10
"""How long requests under way may still take when the server is told to stop."""


def run(data: Path, settings: ServerSettings) -> None:
    """Serve a data folder until a signal (SIGTERM, SIGINT) ends it.

    Each process opens the folder for itself.

    Args:
        data: The data folder.
        settings: The settings.
    """
    listen, connections = settings.server, settings.connections
    allow_files(connections.total + SPARE_FILES)
    server = Granian(
        "imagehost_server.serving:open_app",
        address=listen.host,
        port=listen.port,
        interface=Interfaces.ASGI,
        workers=listen.workers,
        websockets=False,
        # HTTP/2 is agreed on within TLS only: in plain HTTP it is a way around proxies.
        http=HTTPModes.auto if listen.tls_cert else HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=round(connections.header_seconds * 1_000), max_buffer_size=MAX_HEADER_BYTES
        ),
        # Beyond it connections are not taken from the system's queue.
        backpressure=connections.total,
        log_level=LogLevels.warning,
        log_dictconfig=logs.configuration(settings.log.level),
        ssl_cert=Path(listen.tls_cert) if listen.tls_cert else None,
        ssl_key=Path(listen.tls_key) if listen.tls_key else None,
        ssl_protocol_min=SSLProtocols.tls12,
        respawn_failed_workers=True,
        workers_kill_timeout=STOP_SECONDS,
    )
    server.serve(target_loader=partial(open_app, data, settings), wrap_loader=False)


def open_app(data: Path, settings: ServerSettings) -> Guard:
    """Open a data folder and return the application that serves it; called in each process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent,), name="parent", daemon=True).start()
    host = ImageHost.open(data, settings=settings)
    host.start()
    return create_app(host, settings)


def _end_with(parent: BaseProcess) -> None:
    """End this process when its parent is gone.

    Whoever kills the server means all of it: an orphan would go on answering, and hold the port.
    """
    parent.join()
    os._exit(1)


def allow_files(wanted: int) -> None:
    """Let this process and its children have that many open files, as far as the system allows it."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))


def free_port(host: str) -> int:
    """Return a port of an interface that nobody listens on.

    Raises:
        OSError: There is no such interface.
    """
    return _bind(host, 0)


def check_port(host: str, port: int, seconds: float = PORT_SECONDS) -> None:
    """Let an address pass that can be listened on.

    Args:
        host: The interface.
        port: The port.
        seconds: How long to wait for a server that is just ending.

    Raises:
        OSError: Somebody listens there, or it may not be had.
    """
    ends = time.monotonic() + seconds
    while True:
        try:
            _bind(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= ends:
                raise
            time.sleep(0.05)
        else:
            return


def _bind(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the server itself: a port of which old connections are still dying is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return int(probe.getsockname()[1])
