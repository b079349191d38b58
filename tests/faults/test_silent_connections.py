"""Thousands of connections of a few IP addresses that send nothing, and the requests of another client."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from imagehost_server.testing import RunningServer, running

CONNECTIONS = 4_700
FILES = CONNECTIONS + 500


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


def connect(server: RunningServer, source: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60, source_address=(source, 0))


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
    variables = {"IMAGEHOST_HTTP_HEADER_TIMEOUT_SECONDS": "600", "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false"}
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
