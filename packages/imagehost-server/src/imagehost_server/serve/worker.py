"""A server process: it opens the data directory and serves HTTP with uvicorn on the listening socket.

The supervisor starts it as a program. Its arguments are the file descriptors of the listening socket, of the
configuration and of the supervisor's channel.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from uvicorn.config import Config

from imagehost_core import ImageHost
from imagehost_server import logging_config as logs
from imagehost_server.app import Application, create_app
from imagehost_server.metrics import Recorder, Slot
from imagehost_server.serve.allocator import return_large_blocks, trim_periodically
from imagehost_server.serve.process import SupervisorChannel, read_configuration
from imagehost_server.serve.protocol import HttpProtocol
from imagehost_server.serve.server import EventDrivenServer
from imagehost_server.serve.tls import create_context
from imagehost_server.settings import ServerSettings
from imagehost_server.tracing import configure

STOP_SECONDS = 10
"""Grace period for requests in progress when the server stops; half of the supervisor's."""
RETRY_SECONDS = 5
"""How long a server process that cannot open its data directory waits before it exits and is replaced."""
logger = logging.getLogger("imagehost.server")


def main(arguments: list[str]) -> None:
    """Run a server process until SIGTERM or SIGINT.

    Args:
        arguments: The file descriptors, as in the docstring of this module.
    """
    listener, configuration, channel = map(int, arguments)
    return_large_blocks()
    trim_periodically()
    supervisor = SupervisorChannel(channel)
    data, settings = read_configuration(configuration)
    with socket.socket(fileno=listener) as listening:
        serve(
            data,
            settings,
            listening,
            lambda drain: supervisor.ready(asyncio.get_running_loop(), drain),
        )


def serve(
    data: Path,
    settings: ServerSettings,
    listener: socket.socket,
    on_started: Callable[[Callable[[], object]], object],
) -> None:
    """Serve a data directory on a listening socket until SIGTERM or SIGINT.

    Args:
        data: The data directory.
        settings: Its settings.
        listener: The socket.
        on_started: Called by the event loop when the application has started, with a function to call when
            the server is about to stop.
    """
    listen = settings.server
    logs.prepare_process()
    config = Config(
        partial(open_app, data, settings),
        factory=True,
        interface="asgi3",
        lifespan="on",
        http=HttpProtocol,
        ws="none",
        # `SecurityMiddleware` evaluates the headers of trusted proxies.
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=logs.logging_config(settings.log.level, settings.log.format),
        timeout_graceful_shutdown=STOP_SECONDS,
    )

    # With the log that `Config` has configured.
    export_rest = configure(os.environ)

    def start() -> None:
        # What exists now lasts as long as the process. Otherwise full collections search it all: 40 ms every
        # few seconds of load, in which no request is handled.
        gc.collect()
        gc.freeze()
        on_started(cast("Application", config.loaded_app).drain)

    tls = None
    if listen.tls_cert is not None and listen.tls_key is not None:
        tls = create_context(listen.tls_cert, listen.tls_key)
    EventDrivenServer(config, start, export_rest, tls).run([listener])


def open_app(data: Path, settings: ServerSettings) -> Application:
    """Open a data directory and return the application that serves it."""
    try:
        recorder = Recorder(slot=Slot.claim())
        processes = settings.server.workers
        host = ImageHost.open(data, settings=settings, server_processes=processes, observe=recorder.observe)
        host.maintenance.start_workers()
        return create_app(host, settings, recorder)
    except Exception:
        # The supervisor replaces this process until one can start; others go on.
        logger.exception("data directory cannot be opened", extra={"fields": {"path": data}})
        time.sleep(RETRY_SECONDS)
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
