"""Thousands of connections of a few IP addresses that send nothing, and the requests of another client."""

from __future__ import annotations

import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tests.certificates import create_certificate
from tests.waiting import PATIENCE

from imagehost_server.testing import RunningServer, running

CONNECTIONS = 4_700
FILES = CONNECTIONS + 500
NO_SENDER = {"IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false"}


@contextmanager
def more_files(count: int) -> Iterator[None]:
    """Raise the limit of open files of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < count:
        pytest.skip(f"NOT TESTED: the hard limit of open files is below {count:,}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The first bytes of a TLS handshake."""


def connect(server: RunningServer, source: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE, source_address=(source, 0))


@pytest.mark.parametrize(
    ("sources", "sent"),
    [
        (["127.0.0.2"], b""),
        (["127.0.0.2"], b"GET /healthz HTTP/1.1\r\nHost"),
        ([f"127.0.0.{number}" for number in range(2, 42)], b""),
    ],
    ids=["silent", "half a head", "40 IP addresses"],
)
def test_all_requests_of_another_client_are_served_beside_thousands_of_silent_connections(
    tmp_path: Path, sources: list[str], sent: bytes
) -> None:
    variables = {**NO_SENDER, "IMAGEHOST_HTTP_HEADER_TIMEOUT_SECONDS": "600"}
    with more_files(FILES), running(tmp_path / "data", variables=variables) as server, ExitStack() as stack:
        kept = stack.enter_context(connect(server, "127.0.0.1"))
        for number in range(CONNECTIONS):
            silent = stack.enter_context(connect(server, sources[number % len(sources)]))
            with suppress(ConnectionError):
                silent.sendall(sent)
        statuses = []
        for _ in range(256):
            with connect(server, "127.0.0.1") as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                statuses.append(connection.recv(12))
        assert statuses == [b"HTTP/1.1 200"] * 256
        # A connection from before is not closed for those of others.
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert kept.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("sent", [b"", CLIENT_HELLO], ids=["silent", "half a handshake"])
def test_all_requests_of_another_client_are_served_over_tls_beside_thousands_of_handshakes_that_never_end(
    tmp_path: Path, sent: bytes
) -> None:
    """The server keeps 512 of them, the newest ones."""
    certificate = create_certificate(tmp_path)
    context = ssl.create_default_context(cafile=str(certificate.cert))
    silent = list[socket.socket]()
    with (
        more_files(FILES),
        running(tmp_path / "data", *certificate.flags, variables=NO_SENDER) as server,
        ExitStack() as stack,
    ):
        for _ in range(CONNECTIONS):
            silent.append(stack.enter_context(connect(server, "127.0.0.2")))
            with suppress(ConnectionError):
                silent[-1].sendall(sent)
        statuses = []
        for _ in range(256):
            with context.wrap_socket(connect(server, "127.0.0.1"), server_hostname="127.0.0.1") as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                statuses.append(connection.recv(12))
        assert statuses == [b"HTTP/1.1 200"] * 256
        assert [number for number, item in enumerate(silent) if is_open(item)] == list(range(CONNECTIONS))[
            -512:
        ]


def is_open(connection: socket.socket) -> bool:
    """Return whether the server has not closed a connection on which it sends nothing."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
