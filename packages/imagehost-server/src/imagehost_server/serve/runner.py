"""The start of a server: the listening socket, the supervisor, and checks of what they need."""

from __future__ import annotations

import errno
import gc
import logging
import os
import secrets
import shutil
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from logging.config import dictConfig
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import cast

from imagehost_core import ImageHost, UnavailableError
from imagehost_core.errors import EngineUnavailableError
from imagehost_server.logging_config import logging_config
from imagehost_server.metrics import create_folder
from imagehost_server.serve.tls import create_context
from imagehost_server.serve.transport import limit_unsent_bytes
from imagehost_server.settings import ServerSettings, is_loopback

if sys.platform != "win32":
    import resource

EXTRA_FILES = 1_024
"""File descriptors of a process in addition to its connections."""
PORT_WAIT_SECONDS = 3.0
"""How long a start waits for a port that another process is closing."""

WAIT_SECONDS = 30.0
"""How long a start waits for a database or an image store that does not respond."""
_PAUSE_SECONDS = 0.5

logger = logging.getLogger("imagehost.server")


@contextmanager
def open_when_available(data: Path, settings: ServerSettings) -> Iterator[ImageHost]:
    """Open a host for a block; wait for a database and an image store that are late.

    Meanwhile the port responds to probes and requests.

    Raises:
        UnavailableError: One of them does not respond within `WAIT_SECONDS`.
    """
    dictConfig(logging_config(settings.log.level, settings.log.format))
    deadline, missing = time.monotonic() + WAIT_SECONDS, ""
    with ExitStack() as opened, ExitStack() as waiting:
        while True:
            try:
                host = opened.enter_context(ImageHost.open(data, settings=settings))
                host.maintenance.readiness_checks["storage"]()
                break
            except UnavailableError as error:
                opened.close()
                if time.monotonic() >= deadline:
                    raise
                engine = error.engine if isinstance(error, EngineUnavailableError) else "database"
                if not missing:
                    responder = waiting.enter_context(_WaitingServer.started(settings))
                if engine != missing:
                    fields = {"missing": engine, "seconds": WAIT_SECONDS, "reason": error.details}
                    logger.warning("waiting", extra={"fields": fields})
                responder.missing = missing = engine
            time.sleep(_PAUSE_SECONDS)
        waiting.close()
        yield host


class _WaitingServer(ThreadingTCPServer):
    """The port while a host waits: 200 for `/healthz`, and 503 for all else, which names what is missing."""

    allow_reuse_address = daemon_threads = True
    missing = ""

    @classmethod
    @contextmanager
    def started(cls, settings: ServerSettings) -> Iterator[_WaitingServer]:
        """Respond in threads while a block runs."""
        listen = settings.server
        cls.address_family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        with cls((listen.host, listen.port), _WaitingHandler) as server:
            if listen.tls_cert is not None:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(listen.tls_cert, listen.tls_key)
                server.socket = context.wrap_socket(
                    server.socket, server_side=True, do_handshake_on_connect=False
                )
            Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield server
            finally:
                server.shutdown()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error of a connection."""


class _WaitingHandler(BaseHTTPRequestHandler):
    timeout = 5.0

    def respond(self) -> None:
        """Respond to a request."""
        # It is long to import, and needed here only.
        from imagehost_server.http.responses import error_response, success_response

        request_id = secrets.token_hex(8)
        missing = cast("_WaitingServer", self.server).missing
        if self.path.partition("?")[0].endswith("/healthz"):
            response = success_response({"status": "alive"})
        else:
            details = f"expected the host to be ready but received no response from {missing}"
            response = error_response(UnavailableError(details), {"request_id": request_id})
        self.send_response(response.status)
        for name, value in (*response.headers, ("x-request-id", request_id)):
            self.send_header(name, value)
        self.send_header("content-length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    # The names are those of `BaseHTTPRequestHandler`.
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = respond  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Log no request."""


def run(data: Path, settings: ServerSettings) -> None:
    """Serve a data directory until SIGTERM or SIGINT.

    This process becomes the supervisor, which must have one thread: on Linux, server processes are forks of
    it. Each opens the directory itself, and is replaced when it dies.

    Raises:
        SystemExit: At the end; with an error if a server process could not start, whose cause is in the log.
    """
    listen, http = settings.server, settings.http
    dictConfig(logging_config(settings.log.level, settings.log.format))
    raise_file_limit(http.max_connections + EXTRA_FILES)
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.create_server((listen.host, listen.port), family=family) as listener:
        limit_unsent_bytes(listener)
        # Connections are accepted now, and wait for the first server process.
        # It may be a file on a full disk.
        with suppress(OSError):
            sys.stdout.write(f"Serving {settings.base_url}\n")
            sys.stdout.flush()
        warn_of_plain_http(listener.getsockname()[0], settings)
        warn_of_stale_caches(settings)
        for descriptor in _free_ports:
            os.close(descriptor)
        # The forks share what is imported here; commands that serve nothing do without the application.
        from imagehost_server.serve.config import ServerConfig
        from imagehost_server.serve.server import EventDrivenServer

        config = ServerConfig(data, settings)
        if sys.platform == "win32":
            # It cannot pass sockets to other processes.
            EventDrivenServer(config).run([listener])
            status = 0
        else:
            from imagehost_server.serve.supervisor import Supervisor

            metrics = create_folder()
            gc.freeze()  # so that collections in the forks do not copy what they share
            try:
                status = Supervisor(config, listener).run()
            finally:
                shutil.rmtree(metrics, ignore_errors=True)
    sys.exit(status)


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


def warn_of_stale_caches(settings: ServerSettings) -> None:
    """Log a warning if shared caches store images that nothing removes when they are deleted."""
    seconds = settings.delivery.shared_max_age_seconds
    if seconds and settings.purge.url is None:
        logger.warning(
            "shared caches will serve deleted and private images until s-maxage ends; set purge.url",
            extra={"fields": {"shared_max_age_seconds": seconds}},
        )


def require_valid_certificate(certificate: str | None, key: str | None) -> None:
    """Raise OSError unless a certificate and its key can be used.

    Args:
        certificate: Path of the PEM file with the certificate and its chain, or `None` for plain HTTP.
        key: Path of the PEM file with the key.

    Raises:
        OSError: A file cannot be read or is not valid PEM, or the key is not the certificate's.
    """
    if certificate is not None:
        create_context(certificate, key or certificate)


def raise_file_limit(count: int) -> None:
    """Raise the limit of open files of this process and its children to `count`, or to the hard limit."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < count:
            limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


_free_ports: list[int] = []
"""Descriptors of sockets that are bound to the free ports until the server listens, or until this process
ends: other programs could be given the ports meanwhile."""


def free_port(host: str) -> int:
    """Return a free port of an interface, which stays free for the server of this process.

    Raises:
        OSError: There is no such interface.
    """
    probe = _bind(host, 0)
    port = int(probe.getsockname()[1])
    if sys.platform == "win32":
        probe.close()  # a second socket could not be bound to its port
    else:
        _free_ports.append(probe.detach())
    return port


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
            _bind(host, port).close()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
            time.sleep(0.05)
        else:
            return


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    probe = socket.socket(family, socket.SOCK_STREAM)
    try:
        # As for the server's own socket: connections in TIME_WAIT do not occupy the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
    except BaseException:
        probe.close()
        raise
    return probe
