"""The server processes: a supervisor, and one or more workers that run the application on uvicorn."""

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
from imagehost_server.settings import ServerSettings, is_loopback

if sys.platform == "win32":
    from asyncio import ProactorEventLoop as _Loop
else:
    import resource

    try:
        from uvloop import Loop as _Loop
    except ImportError:  # another Python than CPython
        from asyncio import SelectorEventLoop as _Loop  # type: ignore[assignment]

EXTRA_FILES = 1_024
"""File descriptors of a process in addition to its connections."""
PORT_WAIT_SECONDS = 3.0
"""How long a start waits for a port that another process is closing."""
STOP_SECONDS = 10
"""Grace period for requests in progress when the server stops, and again for the rest of the shutdown."""
HEALTHCHECK_SECONDS = 15
"""After how long an unresponsive worker is replaced."""
RETRY_SECONDS = 5
"""How long a worker that cannot open its data directory waits before it exits and is replaced."""
HANDSHAKE_SECONDS = 10.0
"""Timeout of TLS handshakes, during which a connection does not count for `max_connections`."""
TLS_SHUTDOWN_SECONDS = 2.0
"""Timeout of TLS shutdown."""

logger = logging.getLogger("imagehost.server")


def run(data: Path, settings: ServerSettings) -> None:
    """Serve a data directory until SIGTERM or SIGINT.

    Each worker opens the folder itself, and is replaced when it dies.

    Raises:
        SystemExit: A worker could not start; the log has the cause.
    """
    listen, http = settings.server, settings.http
    # TLS handshakes in progress need file descriptors beyond `max_connections`.
    raise_file_limit(http.max_connections * (4 if listen.tls_cert else 1) + EXTRA_FILES)
    config = Config(
        partial(open_app, data, settings),
        factory=True,
        interface="asgi3",
        lifespan="on",
        loop="imagehost_server.serve.runner:TlsTimeoutLoop",
        workers=listen.workers,
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
        timeout_worker_healthcheck=HEALTHCHECK_SECONDS,
    )
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.create_server((listen.host, listen.port), family=family) as listener:
        listener.set_inheritable(True)
        warn_of_plain_http(listener.getsockname()[0], settings)
        supervisor = Supervisor(config, [listener])
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise SystemExit(STARTUP_FAILURE)


def warn_of_plain_http(ip_address: str, settings: ServerSettings) -> None:
    """Log a warning if clients on other machines can only get 403.

    Args:
        ip_address: The IP address that the server listens on.
        settings: The server's settings.
    """
    if is_loopback(ip_address) or settings.server.tls_cert or settings.trusted_proxies:
        return
    logger.warning(
        "clients on other machines will get 403: plain HTTP is served on loopback only; "
        "set server.tls_cert and server.tls_key, or trusted_proxies",
        extra={"fields": {"host": ip_address}},
    )


def require_valid_certificate(certificate: str | None, key: str | None) -> None:
    """Raise OSError unless a certificate and its key can be used.

    Args:
        certificate: Path of the PEM file with the certificate and its chain, or `None` for plain HTTP.
        key: Path of the PEM file with the key.

    Raises:
        OSError: A file cannot be read or is not valid PEM, or the key is not the certificate's.
    """
    if certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        raise OSError(f"expected a certificate in {certificate} and its key in {key}: {error}") from error


class TlsTimeoutLoop(_Loop):
    """An event loop with shorter timeouts of TLS handshakes and shutdowns, which uvicorn cannot set."""

    handshake_timeout = HANDSHAKE_SECONDS
    shutdown_timeout = TLS_SHUTDOWN_SECONDS

    async def create_server(self, *args: Any, **options: Any) -> Any:
        """Create a server as asyncio does."""
        if options.get("ssl") is not None:
            options |= {
                "ssl_handshake_timeout": self.handshake_timeout,
                "ssl_shutdown_timeout": self.shutdown_timeout,
            }
        return await super().create_server(*args, **options)


class Supervisor(Multiprocess):
    """The parent process, which starts the workers, replaces those that die, and stops them."""

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have died, and log it."""
        before = list(self.processes)
        super().keep_subprocess_alive()
        for process in before:
            if process not in self.processes:
                fields = {"pid": process.pid, "exitcode": process.exitcode}
                logger.warning("server worker exited; starting another", extra={"fields": fields})

    def join_all(self) -> None:
        """Wait for the workers to exit, and kill those that do not."""
        deadline = time.monotonic() + 2 * STOP_SECONDS
        for process in self.processes:
            process.process.join(max(0.0, deadline - time.monotonic()))
            if process.process.is_alive():
                process.kill()
                process.process.join()


def open_app(data: Path, settings: ServerSettings) -> Application:
    """Open a data directory and return the application that serves it; called in each worker."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_exit_with_parent, args=(parent,), name="parent", daemon=True).start()
    try:
        host = ImageHost.open(data, settings=settings)
        host.maintenance.start_workers()
        return create_app(host, settings)
    except Exception:
        # The supervisor replaces this worker until one can start; other workers go on.
        logger.exception("data directory cannot be opened", extra={"fields": {"path": data}})
        time.sleep(RETRY_SECONDS)
        raise


def _exit_with_parent(parent: BaseProcess) -> None:
    """Exit when the parent process has exited: an orphaned worker would keep the port."""
    parent.join()
    os._exit(1)


def raise_file_limit(count: int) -> None:
    """Raise the limit of open files of this process and its children to `count`, or to the hard limit."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def free_port(host: str) -> int:
    """Return a free port of an interface.

    Raises:
        OSError: There is no such interface.
    """
    return _bind(host, 0)


def require_free_port(host: str, port: int, timeout: float = PORT_WAIT_SECONDS) -> None:
    """Raise OSError unless a port can be bound.

    Args:
        host: The IP address of the interface.
        port: The port.
        timeout: How long to wait for a server that is stopping, in seconds.

    Raises:
        OSError: The port is in use, or this user may not bind it.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            _bind(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _bind(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As for the server's own socket: connections in TIME_WAIT do not occupy the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return int(probe.getsockname()[1])
