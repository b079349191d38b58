"""Running the application on uvicorn, in one process or several beside the one that watches over them."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import socket
import ssl
import sys
import time
from functools import partial
from math import ceil
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Any

from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.supervisors import Multiprocess

from imagehost_core import ImageHost
from imagehost_server import logging_config as logs
from imagehost_server.app import Application, create_app
from imagehost_server.serve.protocol import HttpProtocol
from imagehost_server.settings import ServerSettings

if sys.platform == "win32":
    from asyncio import ProactorEventLoop as _Loop
else:
    import resource

    try:
        from uvloop import Loop as _Loop
    except ImportError:  # another Python than CPython
        from asyncio import SelectorEventLoop as _Loop  # type: ignore[assignment]

EXTRA_FILES = 1_024
"""Open files that a process needs beside its connections."""
PORT_SECONDS = 3.0
"""How long a start waits for a port that another process is letting go of."""
STOP_SECONDS = 10
"""How long requests under way may still take when the server is told to stop, and then all the rest."""
HEALTHCHECK_SECONDS = 15
"""After how long a process that says nothing is taken for dead, and replaced."""
RETRY_SECONDS = 5
"""How long a process that cannot open its folder waits before it is replaced."""
HANDSHAKE_SECONDS = 10.0
"""How long a client may take for the TLS handshake; half-open ones are not counted as connections."""
TLS_SHUTDOWN_SECONDS = 2.0
"""How long it may take to end TLS."""

logger = logging.getLogger("imagehost.server")


def run(data: Path, settings: ServerSettings) -> None:
    """Serve a data folder until a signal (SIGTERM, SIGINT) ends it.

    Each process opens the folder for itself, and is replaced when it dies.

    Args:
        data: The data folder.
        settings: The settings.

    Raises:
        SystemExit: A process could not begin to serve; the log says why.
    """
    listen, connections = settings.server, settings.http
    # Half-open TLS connections are files, too.
    raise_file_limit(connections.max_connections * (4 if listen.tls_cert else 1) + EXTRA_FILES)
    config = Config(
        partial(open_app, data, settings),
        factory=True,
        interface="asgi3",
        lifespan="on",
        loop="imagehost_server.serve.runner:TlsTimeoutLoop",
        workers=listen.workers,
        http=HttpProtocol,
        ws="none",
        # The guard judges for itself whom to believe.
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=logs.logging_config(settings.log.level),
        ssl_certfile=listen.tls_cert,
        ssl_keyfile=listen.tls_key,
        timeout_keep_alive=ceil(connections.header_timeout_seconds),
        timeout_graceful_shutdown=STOP_SECONDS,
        timeout_worker_healthcheck=HEALTHCHECK_SECONDS,
    )
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.create_server((listen.host, listen.port), family=family) as listener:
        listener.set_inheritable(True)
        supervisor = Supervisor(config, [listener])
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise SystemExit(STARTUP_FAILURE)


def check_tls(certificate: str | None, key: str | None) -> None:
    """Let a certificate and its key pass that can be used.

    Args:
        certificate: The file, or `None` for plain HTTP.
        key: The key's file.

    Raises:
        OSError: A file cannot be read, is no certificate or key, or they do not belong together.
    """
    if certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        raise OSError(f"expected a certificate in {certificate} and its key in {key}: {error}") from error


class TlsTimeoutLoop(_Loop):
    """An event loop whose servers wait for TLS no longer than they should."""

    async def create_server(self, *args: Any, **options: Any) -> Any:
        """Listen as asyncio does."""
        if options.get("ssl") is not None:
            options |= {
                "ssl_handshake_timeout": HANDSHAKE_SECONDS,
                "ssl_shutdown_timeout": TLS_SHUTDOWN_SECONDS,
            }
        return await super().create_server(*args, **options)


class Supervisor(Multiprocess):
    """The first process, which starts the others, replaces those that die, and ends them."""

    def keep_subprocess_alive(self) -> None:
        """Replace those that have died, and say so."""
        before = list(self.processes)
        super().keep_subprocess_alive()
        for process in before:
            if process not in self.processes:
                fields = {"pid": process.pid, "exitcode": process.exitcode}
                logger.warning(
                    "a process that answers requests has ended; it is replaced", extra={"fields": fields}
                )

    def join_all(self) -> None:
        """Wait for the others to end; those that do not are killed."""
        ends = time.monotonic() + 2 * STOP_SECONDS
        for process in self.processes:
            process.process.join(max(0.0, ends - time.monotonic()))
            if process.process.is_alive():
                process.kill()
                process.process.join()


def open_app(data: Path, settings: ServerSettings) -> Application:
    """Open a data folder and return the application that serves it; called in each process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_exit_with_parent, args=(parent,), name="parent", daemon=True).start()
    try:
        host = ImageHost.open(data, settings=settings)
        host.maintenance.start_workers()
        return create_app(host, settings)
    except Exception:
        # This process is replaced until it can; the others go on.
        logger.exception("the server cannot open its data folder")
        time.sleep(RETRY_SECONDS)
        raise


def _exit_with_parent(parent: BaseProcess) -> None:
    """End this process when its parent is gone.

    Whoever kills the server means all of it: an orphan would go on answering, and hold the port.
    """
    parent.join()
    os._exit(1)


def raise_file_limit(wanted: int) -> None:
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
