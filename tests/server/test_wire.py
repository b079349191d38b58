"""The real server against raw sockets: what is refused, what is cut off, and who is served meanwhile."""

from __future__ import annotations

import re
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from imagehost_server.middleware.security import MAX_HEADER_BYTES
from imagehost_server.serve.protocol import MAX_HEAD_BYTES
from imagehost_server.testing import RunningServer, running

JSON = b"Content-Type: application/json\r\n"
LAST = b"Connection: close\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
SIGN_IN = b"POST /v1/session HTTP/1.1\r\nHost: a\r\n" + JSON


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory, no_limits: dict[str, str]) -> Iterator[RunningServer]:
    """A server with short deadlines."""
    variables = {
        **no_limits,
        "IMAGEHOST_HTTP_HEADER_TIMEOUT_SECONDS": "1",
        "IMAGEHOST_HTTP_MAX_CONCURRENT_REQUESTS_PER_CLIENT": "8",
        "IMAGEHOST_HTTP_BODY_IDLE_TIMEOUT_SECONDS": "1",
        "IMAGEHOST_HTTP_JSON_BODY_TIMEOUT_SECONDS": "2",
        "IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1",
    }
    with running(tmp_path_factory.mktemp("wire") / "data", variables=variables) as server:
        yield server


def connect(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def hear(wire: socket.socket) -> bytes:
    """Return all that comes until the other side closes."""
    heard = b""
    try:
        while piece := wire.recv(65_536):
            heard += piece
    except ConnectionError:
        pass
    return heard


def speak(server: RunningServer, request: bytes) -> list[int]:
    """Send bytes; return the statuses of all answers until the server closes."""
    with connect(server) as wire:
        wire.sendall(request)
        return [int(status) for status in re.findall(rb"HTTP/1\.\d (\d{3}) ", hear(wire))]


def is_served(server: RunningServer) -> bool:
    return httpx2.get(f"{server.origin}/healthz", timeout=5).status_code == 200


# One request, one meaning.


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: b\r\n", b"Host: a\r\nHost: a\r\n", b"Host:\r\n"])
def test_no_host_or_several_are_400_and_http_1_0_may_have_none(server: RunningServer, hosts: bytes) -> None:
    several = hosts.count(b"Host") > 1
    assert speak(server, b"GET /healthz HTTP/1.1\r\n" + hosts + LAST + b"\r\n") == [400]
    assert speak(server, b"GET /healthz HTTP/1.0\r\n" + hosts + b"\r\n") == [400 if several else 200]


def test_every_kind_of_answer_is_to_be_had_by_http_1_0_without_a_host(
    server: RunningServer, image_id: str
) -> None:
    for path in ("/healthz", "/v1/gallery", f"/img/{image_id}", f"/img/{image_id}?w=9", "/v1/docs"):
        assert speak(server, f"GET {path} HTTP/1.0\r\n\r\n".encode()) == [200], path


TWO_LENGTHS = {
    "different lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a signed length": b"Content-Length: +2\r\n\r\n{}",
    "a list of lengths": b"Content-Length: 2, 3\r\n\r\n{}",
    "a negative length": b"Content-Length: -1\r\n\r\n{}",
    "another coding": b"Transfer-Encoding: identity\r\n\r\n{}",
    "a coding around the chunks": b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunks twice": b"Transfer-Encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a coding in disguise": b"Transfer-Encoding: \x0bchunked\r\nContent-Length: 2\r\n\r\n{}",
    "a space before the colon": b"Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}",
    "a folded line": b"X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    "a bare CR": b"X: y\rTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    "a NUL": b"X: y\0\r\nContent-Length: 2\r\n\r\n{}",
    "a chunk with a bare LF": b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n",
    "a chunk of negative size": b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "a chunk size with 0x": b"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "a chunk that is too long": b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("rest", TWO_LENGTHS.values(), ids=TWO_LENGTHS)
def test_a_body_whose_end_can_be_read_in_two_ways_is_400_and_the_last_of_its_connection(
    server: RunningServer, rest: bytes
) -> None:
    after = HEALTH + LAST + b"\r\n"
    assert speak(server, SIGN_IN + rest + after) == [400]


def test_chunks_in_http_1_0_are_400(server: RunningServer) -> None:
    request = SIGN_IN.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert speak(server, request) == [400]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_both_lengths_are_400_and_the_last_of_their_connection(
    server: RunningServer, order: tuple[int, int]
) -> None:
    both = (b"Content-Length: 12\r\n", b"Transfer-Encoding: chunked\r\n")
    request = SIGN_IN + both[order[0]] + both[order[1]] + b"\r\n2\r\n{}\r\n0\r\n\r\n"
    smuggled = HEALTH + LAST + b"\r\n"
    assert speak(server, request + smuggled) == [400]
    assert speak(server, SIGN_IN + both[1] + b"\r\n2\r\n{}\r\n0\r\n\r\n" + smuggled) == [422, 200]


def test_lines_that_end_with_a_bare_lf_are_400(server: RunningServer) -> None:
    """RFC 9112, 2.2, lets a server take them; what a proxy before it takes for one line would then be two."""
    whole = HEALTH + LAST + b"\r\n"
    assert speak(server, whole.replace(b"\r\n", b"\n")) == [400]
    assert speak(server, whole.replace(b"a\r\n", b"a\n")) == [400]


def test_a_body_that_nobody_reads_is_never_taken_for_a_request(server: RunningServer) -> None:
    inner = b"GET /healthz HTTP/1.1\r\nHost: smuggled\r\n\r\n"
    for size in (len(inner), len(inner) + 100_000):
        head = b"PUT /v1/images HTTP/1.1\r\nHost: a\r\nContent-Length: " + str(size).encode() + b"\r\n\r\n"
        body = inner + b"x" * (size - len(inner))
        statuses = speak(server, head + body + HEALTH + LAST + b"\r\n")
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
def test_what_is_no_http_is_refused(server: RunningServer, garbage: bytes) -> None:
    assert speak(server, garbage) in ([400], [])
    assert is_served(server)


def test_http_2_is_not_spoken_in_plain_text(server: RunningServer) -> None:
    assert speak(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") in ([400], [])
    upgrade = (
        HEALTH + b"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n\r\n"
    )
    assert speak(server, upgrade) == [200]


# Headers.


def test_headers_have_a_bound(server: RunningServer) -> None:
    for size, statuses in ((MAX_HEADER_BYTES - 100, [200]), (MAX_HEADER_BYTES, [400]), (1_000_000, [431])):
        assert speak(server, HEALTH + LAST + b"X: " + b"y" * size + b"\r\n\r\n") == statuses
    many = b"X: y\r\n" * (MAX_HEAD_BYTES // 2)
    assert speak(server, HEALTH + LAST + many + b"\r\n") == [431]
    assert speak(server, b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: a\r\n" + LAST + b"\r\n") == [431]


@pytest.mark.parametrize(
    "endless",
    [b"0\r\nX: " + b"y" * 1_000_000, b"0\r\n" + b"X: y\r\n" * MAX_HEAD_BYTES, b"1;" + b"y" * 1_000_000],
    ids=["a trailer", "trailers", "an extension"],
)
def test_what_stands_around_chunks_has_the_same_bound(server: RunningServer, endless: bytes) -> None:
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"
    assert speak(server, SIGN_IN + LAST + chunked + endless) == [431]


@pytest.mark.parametrize("sent", [b"", b"G", HEALTH, HEALTH + b"X: "])
def test_headers_that_do_not_come_are_waited_for_until_a_deadline(
    impatient: RunningServer, sent: bytes
) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(connect(impatient)) for _ in range(50)]
        for wire in wires:
            wire.sendall(sent)
        assert is_served(impatient)
        assert not any(b" 200 " in hear(wire) for wire in wires)


def test_headers_that_drip_are_cut_off_by_the_same_deadline(impatient: RunningServer) -> None:
    with connect(impatient) as wire:
        wire.sendall(HEALTH)
        began, closed = time.monotonic(), False
        while not closed and time.monotonic() - began < 20:
            try:
                wire.sendall(b"X")
                closed = bool(select.select([wire], [], [], 0.1)[0])
            except ConnectionError:
                closed = True
        assert closed


def test_a_connection_that_asks_nothing_more_is_closed(impatient: RunningServer) -> None:
    with connect(impatient) as wire:
        wire.sendall(HEALTH + b"\r\n")
        heard = hear(wire)
    assert heard.startswith(b"HTTP/1.1 200 ")
    assert heard.count(b"HTTP/1.1") == 1


def test_connections_beyond_the_bound_are_told_so_until_others_are_cut_off(
    tmp_path: Path, no_limits: dict[str, str]
) -> None:
    variables = {
        **no_limits,
        "IMAGEHOST_HTTP_MAX_CONNECTIONS": "20",
        "IMAGEHOST_HTTP_HEADER_TIMEOUT_SECONDS": "1",
    }
    with running(tmp_path / "data", variables=variables) as server, ExitStack() as stack:
        for wire in [stack.enter_context(connect(server)) for _ in range(60)]:
            wire.sendall(b"GET /")
        refused = httpx2.get(f"{server.origin}/healthz")
        assert refused.status_code == 503
        assert refused.headers["Retry-After"] == "1"
        assert refused.headers["Connection"] == "close"
        assert refused.json()["error"]["code"] == "SERVICE_UNAVAILABLE"
        time.sleep(1.5)
        assert httpx2.get(f"{server.origin}/healthz").status_code == 200


def test_as_many_files_are_open_as_connections_need(tmp_path: Path, no_limits: dict[str, str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2_000:
        pytest.skip("NOT TESTED: this user may not have 2,000 files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2_000, hard) if hard > 0 else 2_000, hard))
    try:
        with running(tmp_path / "data", variables=no_limits) as server, ExitStack() as stack:
            for wire in [stack.enter_context(connect(server)) for _ in range(1_500)]:
                wire.sendall(b"GET /")
            assert is_served(server)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Bodies.


@pytest.mark.parametrize("piece", [b"", b" "])
def test_a_body_that_stalls_or_drips_is_cut_off_and_others_are_served(
    impatient: RunningServer, piece: bytes
) -> None:
    with connect(impatient) as wire:
        wire.sendall(SIGN_IN + b"Content-Length: 9999\r\n\r\n{")
        began = time.monotonic()
        while not select.select([wire], [], [], 0.1)[0]:
            assert is_served(impatient)
            assert time.monotonic() - began < 20
            wire.sendall(piece)
        answer = hear(wire)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert (b"pauses above 1 s" if not piece else b"within 2 s") in answer


def test_an_answer_that_nobody_reads_holds_up_nobody_else(server: RunningServer, image_id: str) -> None:
    with ExitStack() as stack:
        for wire in [stack.enter_context(connect(server)) for _ in range(40)]:
            wire.sendall(f"GET /img/{image_id} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * 50)
        assert is_served(server)
        assert httpx2.get(f"{server.origin}/img/{image_id}").status_code == 200


def test_one_address_may_have_only_so_many_requests_under_way(impatient: RunningServer) -> None:
    """The proxy tells the addresses apart; the crowd of one does not keep the other out."""

    def head(address: str) -> bytes:
        forwarded = f"X-Forwarded-For: {address}\r\nX-Forwarded-Proto: https\r\n".encode()
        return SIGN_IN + forwarded + b"Content-Length: 9\r\n\r\n"

    with ExitStack() as stack:
        wires = [stack.enter_context(connect(impatient)) for _ in range(8)]
        for wire in wires:
            wire.sendall(head("192.0.2.7"))
        time.sleep(0.3)
        with connect(impatient) as ninth:
            ninth.sendall(head("192.0.2.7") + b"123456789")
            refused = ninth.recv(65_536)
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"\r\nretry-after: 1\r\n" in refused
        with connect(impatient) as other:
            other.sendall(head("192.0.2.8") + b"123456789")
            assert other.recv(65_536).startswith(b"HTTP/1.1 422 ")
        assert all(hear(wire).startswith(b"HTTP/1.1 400 ") for wire in wires)
    assert is_served(impatient)
