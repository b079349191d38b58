"""A server process: it opens the data directory and serves HTTP with uvicorn on the listening socket.

The supervisor starts it as a program. Its arguments are the file descriptors of the listening socket, of the
configuration and of the supervisor's channel.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from math import ceil
from pathlib import Path
from threading import Thread

from uvicorn.config import Config

from imagehost_core import ImageHost
from imagehost_server import logging_config as logs
from imagehost_server.app import Application, create_app
from imagehost_server.serve.protocol import HttpProtocol
from imagehost_server.serve.server import EventDrivenServer
from imagehost_server.serve.supervisor import PING, READY
from imagehost_server.settings import ServerSettings

STOP_SECONDS = 10
"""Grace period for requests in progress when the server stops; half of the supervisor's."""
RETRY_SECONDS = 5
"""How long a server process that cannot open its data directory waits before it exits and is replaced."""
MAX_CONFIGURATION_BYTES = 2**20
"""The longest configuration; settings are a few KiB."""

logger = logging.getLogger("imagehost.server")


def main(arguments: list[str]) -> None:
    """Run a server process until SIGTERM or SIGINT.

    Args:
        arguments: The file descriptors, as in the docstring of this module.
    """
    listener, configuration, channel = map(int, arguments)
    supervisor = socket.socket(fileno=channel)
    Thread(target=answer_pings, args=(supervisor,), name="supervisor", daemon=True).start()
    pickled = os.pread(configuration, MAX_CONFIGURATION_BYTES, 0)
    data, settings = pickle.loads(pickled)  # noqa: S301 - written by `runner`
    with socket.socket(fileno=listener) as listening:
        serve(data, settings, listening, lambda: supervisor.send(READY))


def answer_pings(supervisor: socket.socket) -> None:
    """Answer the supervisor, and exit with it: an orphaned process would keep the port."""
    try:
        while pings := supervisor.recv(4_096):
            supervisor.send(PING * len(pings))
    except OSError:
        pass
    os._exit(1)


def serve(
    data: Path, settings: ServerSettings, listener: socket.socket, on_started: Callable[[], object]
) -> None:
    """Serve a data directory on a listening socket until SIGTERM or SIGINT.

    Args:
        data: The data directory.
        settings: Its settings.
        listener: The socket.
        on_started: Called when the application has started.
    """
    listen, http = settings.server, settings.http
    logs.skip_unused_attributes()
    config = Config(
        partial(open_app, data, settings),
        factory=True,
        interface="asgi3",
        lifespan="on",
        loop="imagehost_server.serve.event_loop:TlsTimeoutLoop",
        http=HttpProtocol,
        ws="none",
        # `SecurityMiddleware` evaluates the headers of trusted proxies.
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=logs.logging_config(settings.log.level),
        ssl_certfile=listen.tls_cert,
        ssl_keyfile=listen.tls_key,
        timeout_keep_alive=ceil(http.header_timeout_seconds),
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    EventDrivenServer(config, on_started).run([listener])


def open_app(data: Path, settings: ServerSettings) -> Application:
    """Open a data directory and return the application that serves it."""
    try:
        host = ImageHost.open(data, settings=settings)
        host.maintenance.start_workers()
        return create_app(host, settings)
    except Exception:
        # The supervisor replaces this process until one can start; others go on.
        logger.exception("data directory cannot be opened", extra={"fields": {"path": data}})
        time.sleep(RETRY_SECONDS)
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
