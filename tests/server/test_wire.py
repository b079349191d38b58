"""The server over raw sockets: ambiguous requests, limits and timeouts."""

from __future__ import annotations

import re
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest
from tests.waiting import PATIENCE

from imagehost_server.middleware.header_checks import MAX_HEADER_BYTES
from imagehost_server.serve.request_head import MAX_HEAD_BYTES
from imagehost_server.testing import RunningServer, running

JSON_TYPE = b"Content-Type: application/json\r\n"
CONNECTION_CLOSE = b"Connection: close\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
SIGN_IN = b"POST /v1/session HTTP/1.1\r\nHost: a\r\n" + JSON_TYPE


@pytest.fixture(scope="module")
def short_timeouts(
    tmp_path_factory: pytest.TempPathFactory, no_limits: dict[str, str]
) -> Iterator[RunningServer]:
    """A server with short timeouts."""
    variables = {
        **no_limits,
        "IMAGEHOST_HTTP_HEADER_TIMEOUT_SECONDS": "1",
        "IMAGEHOST_HTTP_MAX_CONCURRENT_REQUESTS_PER_CLIENT": "8",
        "IMAGEHOST_HTTP_BODY_IDLE_TIMEOUT_SECONDS": "1",
        "IMAGEHOST_HTTP_JSON_BODY_TIMEOUT_SECONDS": "2",
        "IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1",
    }
    with running(tmp_path_factory.mktemp("connection") / "data", variables=variables) as server:
        yield server


def connect(server: RunningServer, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE, source_address=(source, 0))


def read_all(connection: socket.socket) -> bytes:
    """Return everything until the server closes the connection."""
    received = b""
    try:
        while chunk := connection.recv(65_536):
            received += chunk
    except ConnectionError:
        pass
    return received


def statuses_of(server: RunningServer, request: bytes) -> list[int]:
    """Send bytes; return the statuses of all responses until the server closes the connection."""
    with connect(server) as connection:
        connection.sendall(request)
        return [int(status) for status in re.findall(rb"HTTP/1\.\d (\d{3}) ", read_all(connection))]


def is_served(server: RunningServer) -> bool:
    return httpx2.get(f"{server.origin}/healthz", timeout=PATIENCE).status_code == 200


# Ambiguous requests.


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: b\r\n", b"Host: a\r\nHost: a\r\n", b"Host:\r\n"])
def test_a_missing_or_repeated_host_is_400_except_in_http_1_0(server: RunningServer, hosts: bytes) -> None:
    several = hosts.count(b"Host") > 1
    assert statuses_of(server, b"GET /healthz HTTP/1.1\r\n" + hosts + CONNECTION_CLOSE + b"\r\n") == [400]
    assert statuses_of(server, b"GET /healthz HTTP/1.0\r\n" + hosts + b"\r\n") == [400 if several else 200]


def test_http_1_0_without_host_is_served(server: RunningServer, image_id: str) -> None:
    for path in ("/healthz", "/v1/gallery", f"/img/{image_id}", f"/img/{image_id}?w=9", "/v1/docs"):
        assert statuses_of(server, f"GET {path} HTTP/1.0\r\n\r\n".encode()) == [200], path


AMBIGUOUS_LENGTHS = {
    "different lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a signed length": b"Content-Length: +2\r\n\r\n{}",
    "a list of lengths": b"Content-Length: 2, 3\r\n\r\n{}",
    "a negative length": b"Content-Length: -1\r\n\r\n{}",
    "another coding": b"Transfer-Encoding: identity\r\n\r\n{}",
    "a coding around the chunks": b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunks twice": b"Transfer-Encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a coding after a vertical tab": b"Transfer-Encoding: \x0bchunked\r\nContent-Length: 2\r\n\r\n{}",
    "a space before the colon": b"Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}",
    "a folded line": b"X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    "a bare CR": b"X: y\rTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    "a NUL": b"X: y\0\r\nContent-Length: 2\r\n\r\n{}",
    "a chunk with a bare LF": b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n",
    "a chunk of negative size": b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "a chunk size with 0x": b"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "a chunk that is too long": b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("rest", AMBIGUOUS_LENGTHS.values(), ids=AMBIGUOUS_LENGTHS)
def test_an_ambiguous_body_length_is_400_and_closes_the_connection(
    server: RunningServer, rest: bytes
) -> None:
    after = HEALTH + CONNECTION_CLOSE + b"\r\n"
    assert statuses_of(server, SIGN_IN + rest + after) == [400]


def test_a_chunked_body_in_http_1_0_is_400_and_closes_the_connection(server: RunningServer) -> None:
    chunked = b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    request = SIGN_IN.replace(b"HTTP/1.1", b"HTTP/1.0") + chunked
    assert statuses_of(server, request + HEALTH + CONNECTION_CLOSE + b"\r\n") == [400]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_content_length_with_transfer_encoding_is_400_and_closes_the_connection(
    server: RunningServer, order: tuple[int, int]
) -> None:
    both = (b"Content-Length: 12\r\n", b"Transfer-Encoding: chunked\r\n")
    request = SIGN_IN + both[order[0]] + both[order[1]] + b"\r\n2\r\n{}\r\n0\r\n\r\n"
    smuggled = HEALTH + CONNECTION_CLOSE + b"\r\n"
    assert statuses_of(server, request + smuggled) == [400]
    assert statuses_of(server, SIGN_IN + both[1] + b"\r\n2\r\n{}\r\n0\r\n\r\n" + smuggled) == [422, 200]


def test_bare_lf_is_400(server: RunningServer) -> None:
    """RFC 9112, 2.2, permits it, but a proxy may parse as one line what would then be two."""
    whole = HEALTH + CONNECTION_CLOSE + b"\r\n"
    assert statuses_of(server, whole.replace(b"\r\n", b"\n")) == [400]
    assert statuses_of(server, whole.replace(b"a\r\n", b"a\n")) == [400]


def test_an_unread_body_is_never_parsed_as_a_request(server: RunningServer) -> None:
    inner = b"GET /healthz HTTP/1.1\r\nHost: smuggled\r\n\r\n"
    for size in (len(inner), len(inner) + 100_000):
        head = b"PUT /v1/images HTTP/1.1\r\nHost: a\r\nContent-Length: " + str(size).encode() + b"\r\n\r\n"
        body = inner + b"x" * (size - len(inner))
        statuses = statuses_of(server, head + body + HEALTH + CONNECTION_CLOSE + b"\r\n")
        assert statuses in ([405], [405, 200])


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"\0" * 100 + b"\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
    ],
)
def test_data_that_is_not_http_is_rejected(server: RunningServer, garbage: bytes) -> None:
    assert statuses_of(server, garbage) in ([400], [])
    assert is_served(server)


def test_http_2_over_plain_tcp_is_not_supported(server: RunningServer) -> None:
    assert statuses_of(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") in ([400], [])
    upgrade = (
        HEALTH + b"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n\r\n"
    )
    assert statuses_of(server, upgrade) == [200]


# Headers.


def test_the_size_of_headers_is_limited(server: RunningServer) -> None:
    for size, statuses in ((MAX_HEADER_BYTES - 100, [200]), (MAX_HEADER_BYTES, [431]), (1_000_000, [431])):
        assert statuses_of(server, HEALTH + CONNECTION_CLOSE + b"X: " + b"y" * size + b"\r\n\r\n") == statuses
    many = b"X: y\r\n" * (MAX_HEAD_BYTES // 2)
    assert statuses_of(server, HEALTH + CONNECTION_CLOSE + many + b"\r\n") == [431]
    assert statuses_of(
        server, b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: a\r\n" + CONNECTION_CLOSE + b"\r\n"
    ) == [431]


@pytest.mark.parametrize(
    "endless",
    [b"0\r\nX: " + b"y" * 1_000_000, b"0\r\n" + b"X: y\r\n" * MAX_HEAD_BYTES, b"1;" + b"y" * 1_000_000],
    ids=["a trailer", "trailers", "an extension"],
)
def test_the_size_of_trailers_and_chunk_extensions_is_limited(server: RunningServer, endless: bytes) -> None:
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"
    assert statuses_of(server, SIGN_IN + CONNECTION_CLOSE + chunked + endless) == [431]


@pytest.mark.parametrize("sent", [b"", b"G", HEALTH, HEALTH + b"X: "])
def test_incomplete_headers_time_out(short_timeouts: RunningServer, sent: bytes) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(short_timeouts)) for _ in range(50)]
        for connection in connections:
            connection.sendall(sent)
        assert is_served(short_timeouts)
        assert not any(b" 200 " in read_all(connection) for connection in connections)


def test_slow_headers_time_out(short_timeouts: RunningServer) -> None:
    with connect(short_timeouts) as connection:
        connection.sendall(HEALTH)
        began, closed = time.monotonic(), False
        while not closed and time.monotonic() - began < PATIENCE:
            try:
                connection.sendall(b"X")
                closed = bool(select.select([connection], [], [], 0.1)[0])
            except ConnectionError:
                closed = True
        assert closed


def test_an_idle_connection_is_closed(short_timeouts: RunningServer) -> None:
    with connect(short_timeouts) as connection:
        connection.sendall(HEALTH + b"\r\n")
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert received.count(b"HTTP/1.1") == 1


@pytest.mark.slow
def test_too_many_connections_get_503_while_all_have_a_request_in_progress(
    tmp_path: Path, no_limits: dict[str, str]
) -> None:
    variables = {**no_limits, "IMAGEHOST_HTTP_MAX_CONNECTIONS": "20"}
    with running(tmp_path / "data", variables=variables) as server, ExitStack() as stack:
        busy = [stack.enter_context(connect(server)) for _ in range(20)]
        for connection in busy:
            connection.sendall(SIGN_IN + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            assert connection.recv(99) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert all(is_served(server) for _ in range(40))
        rejected = httpx2.get(f"{server.origin}/v1/gallery")
        assert rejected.status_code == 503
        assert rejected.headers["Retry-After"] == "1"
        assert rejected.headers["Connection"] == "close"
        assert rejected.json()["error"]["code"] == "SERVICE_UNAVAILABLE"
        # After the response to one of them, another is admitted.
        busy[0].sendall(b"{}")
        assert busy[0].recv(99).startswith(b"HTTP/1.1 4")
        assert httpx2.get(f"{server.origin}/v1/gallery").status_code == 200
        for connection in busy[1:]:
            connection.sendall(b"{}")
            assert connection.recv(99).startswith(b"HTTP/1.1 4")


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"GET /"])
def test_idle_connections_of_one_client_are_closed_for_others(
    tmp_path: Path, no_limits: dict[str, str], sent: bytes
) -> None:
    variables = {
        **no_limits,
        "IMAGEHOST_HTTP_MAX_CONNECTIONS": "20",
        "IMAGEHOST_HTTP_HEADER_TIMEOUT_SECONDS": "600",
    }
    with running(tmp_path / "data", variables=variables) as server, ExitStack() as stack:
        others = [stack.enter_context(connect(server, f"127.0.0.{number}")) for number in (2, 3)]
        idle = [stack.enter_context(connect(server, "127.0.0.4")) for _ in range(60)]
        for connection in idle:
            with suppress(ConnectionError):
                connection.sendall(sent)
        for connection in others:
            connection.sendall(HEALTH + CONNECTION_CLOSE + b"\r\n")
            assert read_all(connection).startswith(b"HTTP/1.1 200 ")
        assert all(select.select([connection], [], [], 30)[0] for connection in idle[:40])


@pytest.mark.slow
def test_the_limit_of_open_files_is_raised_for_connections(tmp_path: Path, no_limits: dict[str, str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2_000:
        pytest.skip("NOT TESTED: the hard limit of open files is below 2,000")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2_000, hard) if hard > 0 else 2_000, hard))
    try:
        with running(tmp_path / "data", variables=no_limits) as server, ExitStack() as stack:
            for connection in [stack.enter_context(connect(server)) for _ in range(1_500)]:
                connection.sendall(b"GET /")
            assert is_served(server)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Bodies.


@pytest.mark.parametrize("chunk", [b"", b" "])
def test_stalled_and_slow_bodies_time_out_while_others_are_served(
    short_timeouts: RunningServer, chunk: bytes
) -> None:
    with connect(short_timeouts) as connection:
        connection.sendall(SIGN_IN + b"Content-Length: 9999\r\n\r\n{")
        began = time.monotonic()
        while not select.select([connection], [], [], 0.1)[0]:
            assert is_served(short_timeouts)
            assert time.monotonic() - began < PATIENCE
            connection.sendall(chunk)
        response = read_all(connection)
    assert response.startswith(b"HTTP/1.1 400 ")
    assert (b"pauses above 1 s" if not chunk else b"within 2 s") in response


def test_an_unread_response_does_not_block_other_clients(server: RunningServer, image_id: str) -> None:
    with ExitStack() as stack:
        for connection in [stack.enter_context(connect(server)) for _ in range(40)]:
            connection.sendall(f"GET /img/{image_id} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * 50)
        assert is_served(server)
        assert httpx2.get(f"{server.origin}/img/{image_id}").status_code == 200


def test_concurrent_requests_are_limited_per_forwarded_ip_address(short_timeouts: RunningServer) -> None:
    """Requests of one IP address do not use up the limit of another."""

    def head(ip_address: str) -> bytes:
        forwarded = f"X-Forwarded-For: {ip_address}\r\nX-Forwarded-Proto: https\r\n".encode()
        return SIGN_IN + forwarded + b"Content-Length: 9\r\n\r\n"

    with ExitStack() as stack:
        connections = [stack.enter_context(connect(short_timeouts)) for _ in range(8)]
        for connection in connections:
            connection.sendall(head("192.0.2.7"))
        time.sleep(0.3)
        with connect(short_timeouts) as ninth:
            ninth.sendall(head("192.0.2.7") + b"123456789")
            rejected = ninth.recv(65_536)
        assert rejected.startswith(b"HTTP/1.1 429 ")
        assert b"\r\nretry-after: 1\r\n" in rejected
        # Probes have no limit.
        forwarded = b"X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n"
        for path in (b"/healthz", b"/readyz"):
            with connect(short_timeouts) as probe:
                probe.sendall(
                    b"GET %b HTTP/1.1\r\nHost: a\r\n" % path + forwarded + CONNECTION_CLOSE + b"\r\n"
                )
                assert read_all(probe).startswith(b"HTTP/1.1 200 ")
        with connect(short_timeouts) as other:
            other.sendall(head("192.0.2.8") + b"123456789")
            assert other.recv(65_536).startswith(b"HTTP/1.1 422 ")
        assert all(read_all(connection).startswith(b"HTTP/1.1 400 ") for connection in connections)
    assert is_served(short_timeouts)
