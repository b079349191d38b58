"""Every request that was read gets an envelope and a line in the access log, also if it is rejected."""

from __future__ import annotations

import json
import re
import socket

import pytest
from attrs import frozen
from tests.waiting import PATIENCE, wait_until

from imagehost_server.middleware.header_checks import MAX_HEADER_BYTES
from imagehost_server.serve.request_head import MAX_HEAD_BYTES, MAX_TARGET_BYTES
from imagehost_server.testing import RunningServer

HEAD = b"GET /v1/images HTTP/1.1\r\nHost: a\r\n"
SIGN_IN = b"POST /v1/session HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
CHUNKED = SIGN_IN + b"Transfer-Encoding: chunked\r\n\r\n"
MIB = 2**20


@frozen
class Answer:
    """A response, and the line of the access log with its request id."""

    status: int
    error: dict[str, str]
    log_line: str


def exchange(server: RunningServer, data: bytes, *, part: int = 0, end: bool = False) -> list[Answer]:
    """Send bytes, all before anything is read; return the responses until the connection is closed.

    Args:
        server: The server.
        data: The bytes to send.
        part: The size of each write; 0 = one write.
        end: Whether to half-close the connection then.
    """
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), part or len(data)):
            connection.sendall(data[start : start + (part or len(data))])
        if end:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(65_536):
            received += chunk
    return [answer_of(server, response) for response in re.split(rb"(?=HTTP/1\.1 \d{3} )", received)[1:]]


def answer_of(server: RunningServer, response: bytes) -> Answer:
    head, _, body = response.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    [request_id] = [line.partition(": ")[2] for line in lines if line.startswith("x-request-id: ")]
    content = json.loads(body) if b"application/json" in head else {}
    return Answer(int(head.split()[1]), content.get("error", {}), log_line(server, request_id))


def log_line(server: RunningServer, request_id: str) -> str:
    """Return the only line of the access log with a request id, as soon as it is written."""

    def find() -> list[str]:
        return [line for line in server.log.read_text(encoding="utf-8").splitlines() if request_id in line]

    (found,) = wait_until(find)
    return found


def require_error(answer: Answer, status: int) -> None:
    assert (answer.status, answer.error["code"]) == (status, "BAD_REQUEST")
    assert answer.error["details"].startswith("expected ")
    assert f" status={status} " in answer.log_line


# Sizes.


@pytest.mark.parametrize("part", [0, 1_000, 16_384])
@pytest.mark.parametrize("size", [1_024, 65_000, 65_535, 65_536, 65_537, 100_000, 131_071, 131_072, 10 * MIB])
def test_a_request_target_is_404_or_431_at_any_size(server: RunningServer, size: int, part: int) -> None:
    target = b"/" + b"a" * (size - 1)
    request = b"GET " + target + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    [answer] = exchange(server, request, part=part)
    if size <= MAX_TARGET_BYTES:
        assert (answer.status, answer.error["code"]) == (404, "NOT_FOUND")
    else:
        require_error(answer, 431)
    assert " method=GET path=/aaaa" in answer.log_line
    assert len(answer.log_line) < 500


def test_a_long_target_is_431_before_its_end(server: RunningServer) -> None:
    [answer] = exchange(server, b"GET /" + b"a" * MAX_TARGET_BYTES, part=9_999)
    require_error(answer, 431)


@pytest.mark.parametrize("part", [0, 16_384])
@pytest.mark.parametrize("size", [MAX_HEADER_BYTES, 100_000, MAX_HEAD_BYTES, 10 * MIB])
@pytest.mark.parametrize("line", [b"X: %b\r\n", b"%b: y\r\n", b"X: y\r\n"], ids=["value", "name", "many"])
def test_headers_that_are_too_large_are_431_at_any_size(
    server: RunningServer, line: bytes, size: int, part: int
) -> None:
    fields = line % (b"y" * size) if b"%b" in line else line * (size // 2)
    [answer] = exchange(server, HEAD + fields + b"Connection: close\r\n\r\n", part=part)
    require_error(answer, 431)
    assert " method=GET path=/v1/images " in answer.log_line


@pytest.mark.parametrize("part", [0, 16_384])
def test_a_long_chunk_extension_or_trailer_is_431(server: RunningServer, part: int) -> None:
    for endless in (b"2;" + b"x" * MAX_HEAD_BYTES, b"0\r\nX: " + b"x" * MAX_HEAD_BYTES):
        [answer] = exchange(server, CHUNKED + endless, part=part)
        require_error(answer, 431)


# Requests that are no HTTP/1.1, or ambiguous.


REJECTED = {
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method in lower case": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a relative target": b"GET healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "a byte that is not ASCII": b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "authority form": b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an absolute target without a host": b"GET http:///healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "another scheme": b"GET ftp://a/healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "a user name": b"GET http://u:p@a/healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "an asterisk": b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 508,
    "NUL bytes": b"\0" * 100,
    "a NUL in a header": HEAD + b"X: \0\r\n\r\n",
    "a bare LF": HEAD.replace(b"\r\n", b"\n") + b"\n",
    "a bare CR": HEAD + b"X: a\rY: b\r\n\r\n",
    "a folded line": HEAD + b"X: a\r\n b\r\n\r\n",
    "a space before the colon": HEAD + b"X : a\r\n\r\n",
    "no colon": HEAD + b"no colon\r\n\r\n",
    "no host": b"GET /v1/images HTTP/1.1\r\nConnection: close\r\n\r\n",
    "two lengths": SIGN_IN + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length that is no number": SIGN_IN + b"Content-Length: 0x2\r\n\r\n{}",
    "a length above 64 bits": SIGN_IN + b"Content-Length: 99999999999999999999\r\n\r\n{}",
    "length and coding": SIGN_IN + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": SIGN_IN + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    "another coding": SIGN_IN + b"Transfer-Encoding: gzip\r\n\r\n{}",
    "a chunk size that is no number": CHUNKED + b"ZZ\r\n",
    "a chunk size above 64 bits": CHUNKED + b"fffffffffffffffff\r\n",
    "a chunk that is too long": CHUNKED + b"1\r\n{}\r\n",
    "a chunk with a bare LF": CHUNKED + b"2\n{}\r\n",
}


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("request_data", REJECTED.values(), ids=REJECTED)
def test_a_request_that_cannot_be_served_gets_one_envelope_and_one_log_line(
    server: RunningServer, request_data: bytes, part: int
) -> None:
    [answer] = exchange(server, request_data, part=part)
    require_error(answer, 400)


@pytest.mark.parametrize("cut", [1, 5])
def test_a_truncated_body_gets_an_envelope_and_a_log_line(server: RunningServer, cut: int) -> None:
    for body in (
        b"Content-Length: 9\r\n\r\n" + b"{" * (9 - cut),
        b"Transfer-Encoding: chunked\r\n\r\n9\r\n{}",
    ):
        [answer] = exchange(server, SIGN_IN + body, end=True)
        require_error(answer, 400)
        assert " method=POST path=/v1/session " in answer.log_line


@pytest.mark.parametrize("data", [b"", b"\r\n", b"GET", b"GET /healthz HTTP/1.1\r\nHost: a\r\n"])
def test_a_connection_that_ends_before_a_request_is_closed_without_a_response(
    server: RunningServer, data: bytes
) -> None:
    assert exchange(server, data or b"\r\n", end=True) == []


def test_a_half_closed_client_gets_all_its_responses(server: RunningServer) -> None:
    answers = exchange(server, (HEAD + b"\r\n") * 5, end=True)
    assert [answer.status for answer in answers] == [401] * 5


def test_an_invalid_request_in_a_pipeline_is_rejected_after_the_responses_before_it(
    server: RunningServer,
) -> None:
    *answers, last = exchange(server, (HEAD + b"\r\n") * 3 + b"BREW / HTTP/1.1\r\n\r\n" + HEAD)
    assert [answer.status for answer in answers] == [401] * 3
    require_error(last, 400)


def test_too_many_pipelined_requests_get_an_envelope_after_the_others(server: RunningServer) -> None:
    *answers, last = exchange(server, (HEAD + b"\r\n") * 300)
    assert {answer.status for answer in answers} == {401}
    require_error(last, 400)
    assert "pipelined" in last.error["details"]


ABSOLUTE = {
    b"GET http://a": (200, "/"),
    b"GET http://a?x=1": (200, "/"),
    b"GET http://a/v1/images": (401, "/v1/images"),
    b"GET https://b:8443/v1/images?x=1": (401, "/v1/images"),
    b"OPTIONS *": (404, "*"),
}


@pytest.mark.parametrize(("start", "expected"), ABSOLUTE.items(), ids=map(bytes.decode, ABSOLUTE))
def test_absolute_targets_are_served_and_logged(
    server: RunningServer, start: bytes, expected: tuple[int, str]
) -> None:
    [answer] = exchange(server, start + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.status == expected[0]
    assert f" path={expected[1]} " in answer.log_line


FORWARDED = (
    b"Forwarded: for=192.0.2.7",
    b"Via: 1.1 proxy",
    b"X-Forwarded-Proto: https",
    b"X-Forwarded-Port: 1",
)


@pytest.mark.parametrize("header", FORWARDED)
def test_loopback_requests_through_an_unknown_proxy_get_403_with_an_unread_body(
    server: RunningServer, image_id: str, header: bytes
) -> None:
    """The body is never sent: a server that waited for it would send no response."""
    [answer] = exchange(server, SIGN_IN + header + b"\r\nContent-Length: 5000\r\n\r\n")
    assert (answer.status, answer.error["code"]) == (403, "FORBIDDEN")
    for query in ("", "?w=20", "?w=20"):
        start = f"GET /img/{image_id}{query} HTTP/1.1\r\nHost: a\r\n".encode()
        closing = b"\r\nConnection: close\r\n\r\n"
        [answer] = exchange(server, start + header + closing)
        assert (answer.status, answer.error["code"]) == (403, "FORBIDDEN")
    for path in (b"/healthz", b"/readyz"):
        [answer] = exchange(server, b"GET " + path + b" HTTP/1.1\r\nHost: a\r\n" + header + closing)
        assert answer.status == 200
