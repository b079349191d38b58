"""The connection protocol: deadlines on an injected clock, order of responses, invalid requests."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.open_host import open_host
from tests.server.fake_server import TIMEOUT, AppDouble, FakeServer, FakeTransport, ParsedResponse, run_tasks

from imagehost_core import ImageHost
from imagehost_core.models import Image
from imagehost_core.testing import make_image
from imagehost_server.app import create_app
from imagehost_server.middleware.connections import EXTRA_CONNECTIONS
from imagehost_server.middleware.requests import RequestMiddleware
from imagehost_server.serve.protocol import EXTRA_SECONDS, MAX_PIPELINED, HttpProtocol
from imagehost_server.serve.request_head import CHUNK_BYTES, FEED_BYTES, MAX_HEAD_BYTES, MAX_UNPARSED_BYTES
from imagehost_server.serve.transport import (
    BYTES_PER_SECOND,
    LINGER_BYTES,
    LINGER_IDLE_SECONDS,
    LINGER_SECONDS,
    PERIOD_SECONDS,
)
from imagehost_server.settings import HttpSettings, ServerSettings

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
FAST_GET = b"GET /fast HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def app() -> AppDouble:
    return AppDouble()


def closed_by(transport: FakeTransport) -> str:
    """Return how the server has closed a connection; a call, so that mypy does not narrow the attribute."""
    return transport.closed_by


def pass_time(connection: HttpProtocol, seconds: float) -> None:
    """Advance the clock of a connection."""
    cast("Any", connection.loop).advance(seconds)


def connect(app: AppDouble) -> tuple[FakeTransport, HttpProtocol]:
    transport = FakeTransport()
    return transport, FakeServer(app).connect(transport)


@pytest.mark.anyio
@pytest.mark.parametrize("received", [b"", b"GET / HT", GET[:-2]])
async def test_a_connection_without_a_whole_head_is_closed_at_the_header_timeout(
    app: AppDouble, received: bytes
) -> None:
    transport, connection = connect(app)
    if received:
        connection.data_received(received)
    pass_time(connection, 0.9 * TIMEOUT)
    assert not transport.closed_by
    pass_time(connection, 0.2 * TIMEOUT)
    assert closed_by(transport) == "close"
    assert app.paths == []


@pytest.mark.anyio
async def test_the_header_timeout_does_not_run_while_a_response_is_due(app: AppDouble) -> None:
    transport, connection = connect(app)
    connection.data_received(GET)
    pass_time(connection, 4.5 * TIMEOUT)
    assert not transport.closed_by
    app.go.set()
    await run_tasks()
    assert transport.sent.endswith(b"\r\n\r\nok")
    pass_time(connection, 0.9 * TIMEOUT)
    assert not transport.closed_by
    pass_time(connection, 0.2 * TIMEOUT)
    assert closed_by(transport) == "close"


@pytest.mark.anyio
async def test_a_request_on_the_fast_path_restarts_the_header_timeout(app: AppDouble) -> None:
    transport, connection = connect(app)
    app.go.set()
    connection.data_received(GET)
    await run_tasks()
    for _ in range(12):
        pass_time(connection, 0.8 * TIMEOUT)
        connection.data_received(FAST_GET)
    assert not transport.closed_by
    assert transport.sent.endswith(b"fast\n" * 12)
    pass_time(connection, 1.1 * TIMEOUT)
    assert closed_by(transport) == "close"


@pytest.mark.anyio
@pytest.mark.parametrize("request_bytes", [GET, FAST_GET])
async def test_a_client_that_reads_nothing_is_aborted_and_a_slow_reader_is_not(
    app: AppDouble, request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "imagehost.access")
    app.go.set()
    transport, connection = connect(app)
    transport.unread = 9
    connection.data_received(request_bytes)
    await run_tasks()
    for _ in range(20):
        pass_time(connection, PERIOD_SECONDS - 1)
        transport.acknowledged += int(PERIOD_SECONDS * BYTES_PER_SECOND)
        assert not transport.closed_by
    pass_time(connection, 2 * PERIOD_SECONDS)
    assert closed_by(transport) == "abort"
    # The application, or the fast path, has logged the response before.
    fields = cast("Any", caplog.records[-1]).fields
    assert (caplog.records[-1].message, fields["cut"]) == ("response cut", "slow")
    assert (fields["client"], fields["unsent_bytes"]) == ("127.0.0.1", 9)


@pytest.mark.anyio
async def test_a_client_that_catches_up_has_a_minute_again(app: AppDouble) -> None:
    app.go.set()
    transport, connection = connect(app)
    transport.unread = 9
    connection.data_received(GET)
    for _ in range(9):
        pass_time(connection, PERIOD_SECONDS - TIMEOUT)
        transport.unread = 0
        connection.data_received(FAST_GET)
        pass_time(connection, 0.9 * TIMEOUT)
        connection.data_received(FAST_GET)
        pass_time(connection, 0.9 * TIMEOUT)
        assert not transport.closed_by
        transport.unread = 9


@pytest.mark.anyio
async def test_the_fast_path_preserves_the_order_of_responses(app: AppDouble) -> None:
    transport, connection = connect(app)
    connection.data_received(GET)
    await run_tasks()
    connection.data_received(FAST_GET)
    await run_tasks()
    assert (transport.sent, app.paths) == (b"", ["/"])
    app.go.set()
    await run_tasks()
    assert app.paths == ["/", "/fast"]
    connection.data_received(FAST_GET[:9])
    connection.data_received(FAST_GET[9:])
    await run_tasks()
    assert app.paths == ["/", "/fast", "/fast"]
    connection.data_received(FAST_GET)
    assert transport.sent.endswith(b"\r\n\r\nokfast\n")


@pytest.mark.anyio
async def test_the_fast_path_never_responds_to_a_part_of_another_request(app: AppDouble) -> None:
    app.go.set()
    transport, connection = connect(app)
    connection.data_received(b"GET /first HTTP/1.1\r\nX: ")
    connection.data_received(FAST_GET)
    await run_tasks()
    # The application responds before it has received the body.
    head = b"POST /begin HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(FAST_GET)
    for chunk in (head, FAST_GET, GET):
        connection.data_received(chunk)
        await run_tasks()
    assert app.paths == ["/first", "/begin", "/"]
    assert b"fast" not in transport.sent
    assert transport.sent.count(b"HTTP/1.1 200") == 3


@pytest.mark.anyio
async def test_the_fast_path_is_not_used_while_writing_is_paused(app: AppDouble) -> None:
    transport, connection = connect(app)
    connection.pause_writing()
    connection.data_received(FAST_GET)
    await run_tasks()
    assert (transport.sent, app.paths) == (b"", ["/fast"])
    app.go.set()
    connection.resume_writing()
    await run_tasks()
    assert transport.sent.endswith(b"ok")


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["resume_writing", "connection_lost"])
async def test_what_waits_for_clients_on_the_fast_path_is_counted_until_it_has_been_sent(
    app: AppDouble, end: str
) -> None:
    assert app.fast_path is not None
    connections = [connect(app) for _ in range(3)]
    for unread, (transport, connection) in enumerate(connections):
        transport.unread = 1_000 * unread
        connection.data_received(FAST_GET)
        if unread:
            connection.pause_writing()
    assert app.fast_path.unsent_bytes == 3_000
    for _, connection in connections[1:]:
        connection.resume_writing() if end == "resume_writing" else connection.connection_lost(None)
    assert app.fast_path.unsent_bytes == 0


@pytest.mark.anyio
async def test_an_invalid_second_request_does_not_prevent_the_first_response(app: AppDouble) -> None:
    for target, before in ((b"/", b""), (b"/begin", b"HTTP/1.1 200 OK")):
        app.go.clear()
        transport, connection = connect(app)
        connection.data_received(GET.replace(b"/", target, 1))
        await run_tasks()
        assert transport.sent.startswith(before)
        connection.data_received(b"garbage\r\n\r\n")
        await run_tasks()
        connection.data_received(GET)
        assert not transport.closed_by
        app.go.set()
        await run_tasks()
        first, second = transport.sent.split(b"\r\n\r\nok")
        assert (first.count(b"HTTP/1.1"), b"connection: close" in first) == (1, False)
        assert ParsedResponse.parse(second).status == 400
        pass_time(connection, LINGER_IDLE_SECONDS)
        assert closed_by(transport) == "close"


@pytest.mark.anyio
@pytest.mark.parametrize("tls", [False, True])
async def test_an_invalid_body_is_400_and_closes_the_connection(app: AppDouble, tls: bool) -> None:
    transport = FakeTransport(tls=tls)
    connection = FakeServer(app).connect(transport)
    connection.data_received(POST)
    await run_tasks()
    for _ in range(3):
        connection.data_received(b"garbage")
    await run_tasks()
    response = ParsedResponse.parse(transport.sent)
    assert (response.status, response.headers["connection"]) == (400, "close")
    assert response.headers["content-type"] == "application/json"
    assert len(response.headers["x-request-id"]) == 24
    assert b'"code":"BAD_REQUEST"' in response.body
    # TLS cannot be half-closed.
    assert (transport.closed_by, transport.is_half_closed) == ("", not tls)
    pass_time(connection, LINGER_IDLE_SECONDS)
    assert closed_by(transport) == "close"
    connection.connection_lost(None)
    await run_tasks()
    assert ParsedResponse.parse(transport.sent) == response


@pytest.mark.anyio
async def test_a_half_closed_client_gets_its_response(app: AppDouble) -> None:
    transport, connection = connect(app)
    connection.data_received(GET)
    await run_tasks()
    assert connection.eof_received()
    app.go.set()
    await run_tasks(500)
    assert closed_by(transport) == "close"
    assert ParsedResponse.parse(transport.sent).headers["connection"] == "close"
    assert transport.sent.endswith(b"\r\n\r\nok")


@pytest.mark.anyio
async def test_an_incomplete_body_is_400_and_stops_the_application(app: AppDouble) -> None:
    transport, connection = connect(app)
    connection.data_received(POST + b"2\r\n{}\r\n")
    await run_tasks()
    assert not connection.eof_received()
    app.go.set()
    await run_tasks()
    response = ParsedResponse.parse(transport.sent)
    assert (response.status, b"the whole body" in response.body) == (400, True)
    assert not connection.tasks


@pytest.mark.anyio
@pytest.mark.parametrize("received", [b"", GET[:9]])
async def test_eof_without_a_request_closes_the_connection(app: AppDouble, received: bytes) -> None:
    _, connection = connect(app)
    connection.data_received(received)
    assert not connection.eof_received()


@pytest.mark.anyio
async def test_too_many_busy_connections_get_503_and_the_oldest_of_far_too_many_are_aborted() -> None:
    app = AppDouble(http=HttpSettings(header_timeout_seconds=600, max_connections=2))
    server = FakeServer(app)
    transports = [FakeTransport() for _ in range(app.http.max_connections + EXTRA_CONNECTIONS + 1)]
    connections = []
    for transport in transports:
        connections.append(server.connect(transport))
        if not transport.closed_by:
            # The event loop does not run, so that no response is sent yet.
            connections[-1].data_received(FAST_GET if len(connections) > 2 else GET)
    assert [transport.closed_by for transport in transports[1:4]] == ["", "abort", ""]
    await run_tasks(2_000)
    for transport in transports[3:]:
        response = ParsedResponse.parse(transport.sent)
        assert (response.status, response.headers["retry-after"], transport.closed_by) == (503, "1", "close")
        assert len(response.headers["x-request-id"]) == 24
    # Earlier connections are served, and a later one as soon as others have closed.
    app.go.set()
    await run_tasks()
    assert transports[0].sent.startswith(b"HTTP/1.1 200 ")
    for connection in connections[1:]:
        connection.connection_lost(None)
    transport = FakeTransport()
    server.connect(transport).data_received(FAST_GET)
    assert transport.sent == b"fast\n"
    assert app.paths == ["/", "/"]


PROBE = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "request_bytes", [PROBE, PROBE.replace(b"healthz", b"readyz?x"), PROBE[:9], b"", GET]
)
@pytest.mark.parametrize("http", [{"max_connections": 2}, {"max_connections_per_client": 2}])
async def test_beyond_the_limits_a_probe_is_answered_and_its_connection_closed(
    request_bytes: bytes, http: dict[str, Any]
) -> None:
    app = AppDouble(http=HttpSettings(header_timeout_seconds=600, **http))
    server = FakeServer(app)
    for _ in range(2):
        server.connect(FakeTransport()).data_received(GET)
    await run_tasks()
    transport = FakeTransport()
    connection = server.connect(transport)
    connection.data_received(request_bytes)
    app.go.set()
    await run_tasks()
    if request_bytes.endswith(b"\r\n\r\n"):
        response = ParsedResponse.parse(transport.sent)
        assert response.status == (503 if request_bytes is GET else 200)
        assert (response.headers["connection"], transport.closed_by) == ("close", "close")
    else:
        pass_time(connection, EXTRA_SECONDS)
        assert (transport.sent, transport.closed_by) == (b"", "close")


@pytest.mark.anyio
async def test_clients_beyond_the_limits_cannot_hold_the_places_of_probes() -> None:
    app = AppDouble(http=HttpSettings(header_timeout_seconds=600, max_connections=2))
    server = FakeServer(app)
    for _ in range(2):
        server.connect(FakeTransport()).data_received(GET)
    await run_tasks()
    stalled = [(FakeTransport(), data) for data in (b"", GET[:9], PROBE, GET) * EXTRA_CONNECTIONS]
    for transport, data in stalled:
        transport.unread = 9
        server.connect(transport).data_received(data)
    transport = FakeTransport()
    server.connect(transport).data_received(PROBE)
    app.go.set()
    await run_tasks(4_000)
    assert ParsedResponse.parse(transport.sent).status == 200
    assert all(other.closed_by for other, _ in stalled[:-EXTRA_CONNECTIONS])


@pytest.mark.anyio
async def test_the_oldest_idle_connection_is_closed_for_a_new_one() -> None:
    app = AppDouble(http=HttpSettings(header_timeout_seconds=600, max_connections=4))
    app.go.set()
    server = FakeServer(app)
    transports = [FakeTransport() for _ in range(4)]
    silent, half, kept, fast = [server.connect(transport) for transport in transports]
    half.data_received(GET[:9])
    kept.data_received(GET)
    fast.data_received(FAST_GET)
    await run_tasks()
    # A request, also one on the fast path, makes a connection the newest idle one; a part of a head does not.
    silent.data_received(FAST_GET)
    order = []
    for _ in range(4):
        server.connect(FakeTransport(("192.0.2.1", 9)))
        order += [number for number, item in enumerate(transports) if item.closed_by and number not in order]
    assert order == [1, 3, 2]
    for connection in (silent, half, kept, fast):
        connection.connection_lost(None)


@pytest.mark.anyio
async def test_a_connection_with_a_request_in_progress_or_an_unsent_response_is_not_aborted() -> None:
    app = AppDouble(http=HttpSettings(header_timeout_seconds=TIMEOUT, max_connections=2))
    server = FakeServer(app)
    busy, unread = FakeTransport(), FakeTransport()
    server.connect(busy).data_received(GET)
    connection = server.connect(unread)
    connection.data_received(FAST_GET)
    unread.unread = 9
    server.connect(FakeTransport())
    # It is closed when the client has read the response, and counts until then.
    assert (busy.closed_by, unread.closed_by) == ("", "close")
    assert len(app.connections) == 3
    connection.connection_lost(None)
    assert len(app.connections) == 2
    app.go.set()
    await run_tasks()
    assert busy.sent.endswith(b"\r\n\r\nok")


@pytest.mark.anyio
async def test_connections_beyond_the_limit_of_one_client_replace_its_own() -> None:
    server = FakeServer(
        AppDouble(http=HttpSettings(header_timeout_seconds=600, max_connections_per_client=2))
    )
    others = [FakeTransport(("192.0.2.1", number)) for number in range(2)]
    mine = [FakeTransport() for _ in range(9)]
    for transport in (*others, *mine):
        server.connect(transport)
    assert [transport.closed_by for transport in others] == ["", ""]
    assert [transport.closed_by for transport in mine] == ["abort"] * 7 + ["", ""]


@pytest.mark.anyio
async def test_a_connection_keeps_the_place_of_its_tls_handshake() -> None:
    app = AppDouble(http=HttpSettings(header_timeout_seconds=600, max_connections=1))
    server, transport = FakeServer(app), FakeTransport()
    connection = server.connect(transport, app.connections.add("192.0.2.1", lambda: True))
    assert len(app.connections) == 1
    server.connect(FakeTransport())
    assert transport.closed_by == "abort"
    connection.connection_lost(None)
    assert len(app.connections) == 1


@pytest.mark.anyio
async def test_a_connection_that_was_closed_for_another_at_the_end_of_its_tls_handshake_is_aborted() -> None:
    app = AppDouble(http=HttpSettings(header_timeout_seconds=600, max_connections=1))
    server, transport = FakeServer(app), FakeTransport()
    place = app.connections.add("192.0.2.1", lambda: True)
    server.connect(FakeTransport())
    connection = server.connect(transport, place)
    assert transport.closed_by == "abort"
    connection.connection_lost(None)
    assert len(app.connections) == 1


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"


@pytest.mark.anyio
@pytest.mark.parametrize("cut", [0, 9, 60, -7])
async def test_a_request_with_upgrade_keeps_its_body(app: AppDouble, cut: int) -> None:
    """llhttp treats a request with `Upgrade` as one without a body; the body must not become a request."""
    app.go.set()
    head = b"POST /first HTTP/1.1\r\nHost: a\r\n" + UPGRADE + b"Content-Length: %d\r\n\r\n" % len(FAST_GET)
    sent = head + FAST_GET
    transport, connection = connect(app)
    for chunk in (sent[:cut], sent[cut:]) if cut else (head, FAST_GET):
        connection.data_received(chunk)
        await run_tasks()
    assert app.paths == ["/first"]
    connection.data_received(FAST_GET)
    connection.data_received(GET.replace(b"/", b"/third", 1))
    await run_tasks()
    assert app.paths == ["/first", "/third"]
    assert transport.sent.count(b"HTTP/1.1 200") == 2
    assert transport.sent.count(b"fast\n") == 1


@pytest.mark.anyio
async def test_pipelined_requests_with_upgrade_get_responses(app: AppDouble) -> None:
    app.go.set()
    transport, connection = connect(app)
    chunks = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    connection.data_received(GET[:-2] + UPGRADE + b"\r\n" + POST[:-30] + UPGRADE + chunks + GET)
    await run_tasks()
    assert transport.sent.count(b"HTTP/1.1 200") == 3
    assert not transport.closed_by


@pytest.mark.anyio
@pytest.mark.parametrize("first", ["HTTP/2.0", "HTTP/0.9"])
async def test_other_versions_of_http_are_400(app: AppDouble, first: str) -> None:
    transport, connection = connect(app)
    connection.data_received(f"GET / {first}\r\nHost: a\r\n\r\n".encode())
    assert ParsedResponse.parse(transport.sent).status == 400
    assert app.paths == []


@pytest.mark.anyio
async def test_trailers_are_discarded(app: AppDouble) -> None:
    _, connection = connect(app)
    app.go.set()
    connection.data_received(POST)
    await run_tasks()
    connection.data_received(b"0\r\nAuthorization: Bearer x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
    await run_tasks()
    assert connection.headers == [(b"host", b"a"), (b"transfer-encoding", b"chunked")]


@pytest.mark.anyio
async def test_the_number_of_pipelined_requests_is_limited(app: AppDouble) -> None:
    transport, connection = connect(app)
    connection.data_received(GET * (MAX_PIPELINED + 50))
    await run_tasks()
    assert len(connection.pipeline) == MAX_PIPELINED
    app.go.set()
    await run_tasks(500)
    assert transport.is_half_closed
    assert transport.sent.count(b"HTTP/1.1 200") == MAX_PIPELINED + 1
    rejected = ParsedResponse.parse(transport.sent.rpartition(b"ok")[2])
    assert (rejected.status, rejected.headers["connection"]) == (400, "close")
    assert b"pipelined" in rejected.body


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("invalid", "status"), [(b"ZZ\r\n", 400), (b"1;" + b"x" * 2 * MAX_HEAD_BYTES, 431), (b"", 400)]
)
async def test_an_invalid_pipelined_request_is_rejected_in_its_turn(
    app: AppDouble, invalid: bytes, status: int
) -> None:
    transport, connection = connect(app)
    connection.data_received(GET + POST)
    if invalid:
        connection.data_received(invalid)
    else:
        assert connection.eof_received()
    await run_tasks()
    assert (transport.sent, transport.closed_by) == (b"", "")
    app.go.set()
    await run_tasks(500)
    pass_time(connection, LINGER_IDLE_SECONDS)
    assert closed_by(transport) == "close"
    first, second = transport.sent.split(b"ok", 1)
    assert first.startswith(b"HTTP/1.1 200 ")
    assert ParsedResponse.parse(second).status == status
    assert app.paths == ["/"]


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "has_content"), [(b"GET", True), (b"HEAD", False)])
async def test_the_rejection_of_a_head_request_has_no_content(
    app: AppDouble, method: bytes, has_content: bool
) -> None:
    transport, connection = connect(app)
    connection.data_received(method + b" / HTTP/1.1\r\nHost: a\r\nno field\r\n\r\n")
    await run_tasks()
    response = ParsedResponse.parse(transport.sent)
    assert response.status == 400
    assert int(response.headers["content-length"]) > 0
    assert bool(response.body) is has_content


@pytest.mark.anyio
async def test_the_header_timeout_does_not_run_during_a_pipelined_body(app: AppDouble) -> None:
    transport, connection = connect(app)
    app.go.set()
    connection.data_received(GET + POST)
    await run_tasks()
    assert transport.sent.count(b"HTTP/1.1 200") == 1
    pass_time(connection, 4.5 * TIMEOUT)
    assert not transport.closed_by
    connection.data_received(b"0\r\n\r\n")
    await run_tasks()
    assert transport.sent.count(b"HTTP/1.1 200") == 2


@pytest.mark.anyio
async def test_nothing_is_sent_after_a_reset(app: AppDouble, caplog: pytest.LogCaptureFixture) -> None:
    transport, connection = connect(app)
    connection.data_received(GET * 3)
    await run_tasks()
    transport.closed_by = "reset"
    connection.connection_lost(ConnectionResetError())
    app.go.set()
    await run_tasks()
    assert (transport.sent, caplog.records) == (b"", [])
    assert not connection.tasks


@pytest.mark.anyio
async def test_an_invalid_body_leaves_no_traceback(app: AppDouble, caplog: pytest.LogCaptureFixture) -> None:
    for expect in (b"", b"Expect: 100-continue\r\n"):
        transport, connection = connect(app)
        connection.data_received(POST[:-2] + expect + b"\r\nZZ\r\n")
        app.go.set()
        await run_tasks()
        assert ParsedResponse.parse(transport.sent).status == 400
        assert not connection.tasks
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.anyio
async def test_an_invalid_body_after_the_response_gets_no_second_response(app: AppDouble) -> None:
    app.go.set()
    transport, connection = connect(app)
    connection.data_received(POST.replace(b"/", b"/begin", 1))
    await run_tasks()
    assert transport.sent.endswith(b"\r\n\r\nok")
    connection.data_received(b"ZZ\r\n")
    assert closed_by(transport) == "close"
    assert transport.sent.count(b"HTTP/1.1") == 1


@pytest.mark.anyio
async def test_discarded_data_after_the_final_response_is_limited(app: AppDouble) -> None:
    transport, connection = connect(app)
    connection.data_received(b"garbage\r\n\r\n")
    chunk = bytes(2**20)
    for _ in range(LINGER_BYTES // len(chunk)):
        connection.data_received(chunk)
    assert not transport.closed_by
    connection.data_received(b"x")
    assert closed_by(transport) == "abort"


@pytest.mark.anyio
@pytest.mark.parametrize("tls", [False, True])
async def test_the_rest_of_a_body_is_discarded_after_a_response_that_closes_the_connection(
    app: AppDouble, tls: bool
) -> None:
    """Most clients send the whole body before they read the response."""
    transport = FakeTransport(tls=tls)
    connection = FakeServer(app).connect(transport)
    app.go.set()
    connection.data_received(b"POST /begin HTTP/1.0\r\nContent-Length: 9999999\r\n\r\n")
    await run_tasks()
    assert transport.sent.endswith(b"\r\n\r\nok")
    assert (transport.closed_by, transport.is_half_closed) == ("", not tls)
    for _ in range(4):
        pass_time(connection, 0.9 * LINGER_IDLE_SECONDS)
        connection.data_received(GET)
    assert (transport.closed_by, app.paths) == ("", ["/begin"])
    pass_time(connection, LINGER_IDLE_SECONDS)
    assert closed_by(transport) == "close"


@pytest.mark.anyio
async def test_data_after_the_final_response_is_discarded_for_a_limited_time(app: AppDouble) -> None:
    transport, connection = connect(app)
    connection.data_received(b"garbage\r\n\r\n")
    for _ in range(int(LINGER_SECONDS)):
        assert not transport.closed_by
        connection.data_received(b"x")
        pass_time(connection, 1.0)
    assert closed_by(transport) == "close"


@pytest.mark.anyio
async def test_pipelined_requests_after_the_last_response_get_none(app: AppDouble) -> None:
    transport, connection = connect(app)
    connection.data_received(GET.replace(b"/", b"/close", 1) + GET + GET)
    app.go.set()
    await run_tasks()
    assert (transport.sent.count(b"HTTP/1.1 200"), app.paths) == (1, ["/close"])
    assert not transport.closed_by
    pass_time(connection, LINGER_IDLE_SECONDS)
    assert closed_by(transport) == "close"


@pytest.mark.anyio
async def test_a_response_that_the_application_does_not_end_is_cut_off_at_once(
    app: AppDouble, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(AppDouble):
        async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
            headers = [(b"content-length", b"9")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            raise ValueError("as on a failing disk")

    transport, connection = connect(Failing())
    connection.data_received(POST)
    await run_tasks()
    assert (closed_by(transport), len(caplog.records)) == ("close", 1)


@pytest.fixture
def image() -> Iterator[tuple[ImageHost, Image]]:
    with open_host() as host:
        yield host, host.upload(make_image(64, 48), owner="admin")


@pytest.mark.anyio
async def test_a_connection_alternates_between_fast_and_slow_path(
    image: tuple[ImageHost, Image],
) -> None:
    host, uploaded = image
    transport = FakeTransport()
    server = FakeServer(create_app(host, ServerSettings()))
    connection = server.connect(transport)
    request = f"GET /img/{uploaded.id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    responses = []
    for chunks in ((request,), (request,), (request[:9], request[9:]), (request,)):
        transport.sent = b""
        for chunk in chunks:
            connection.data_received(chunk)
        while server.state.tasks:
            await asyncio.wait(server.state.tasks)
        responses.append(ParsedResponse.parse(transport.sent).without_request_id())
    assert responses[0].status == 200
    assert responses == [responses[0]] * 4
    connection.connection_lost(None)


@pytest.mark.anyio
async def test_without_the_fast_path_every_request_takes_the_slow_path() -> None:
    app = AppDouble(fast_path=None)
    app.go.set()
    transport, connection = connect(app)
    connection.data_received(FAST_GET)
    await run_tasks()
    assert app.paths == ["/fast"]
    assert transport.sent.endswith(b"\r\n\r\nok")


@pytest.mark.anyio
async def test_an_invalid_request_target_is_400(app: AppDouble) -> None:
    transport, connection = connect(app)
    connection.data_received(GET.replace(b"/", b"http:///x", 1))
    assert ParsedResponse.parse(transport.sent).status == 400
    assert app.paths == []


# The access log.


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("received", "method", "path", "status"),
    [
        (b"BREW / HTTP/1.1\r\n\r\n", "-", "-", 400),
        (b"\r\n" * MAX_HEAD_BYTES, "-", "-", 431),
        (b"GET /a?sig=secret HTTP/9.9\r\n\r\n", "GET", "/a", 400),
        (b"GET http://u:secret@a/b?sig=secret HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/b", 400),
        (b"GET /" + b"a" * MAX_HEAD_BYTES, "GET", "/" + "a" * 197, 431),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nno field\r\n\r\n", "GET", "/a", 400),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nX: " + b"x" * MAX_HEAD_BYTES, "GET", "/a", 431),
        (POST.replace(b"/", b"/a", 1) + b"ZZ\r\n", "POST", "/a", 400),
    ],
)
async def test_a_rejected_request_is_in_the_access_log_once(
    app: AppDouble, received: bytes, method: str, path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "imagehost.access")
    transport, connection = connect(app)
    connection.data_received(received)
    await run_tasks()
    response = ParsedResponse.parse(transport.sent)
    [record] = caplog.records
    fields = record.__dict__["fields"]
    assert (fields["method"], fields["path"], fields["status"]) == (method, path, status)
    assert (fields["client"], response.status) == ("127.0.0.1", status)
    assert fields["request_id"] == response.headers["x-request-id"]
    assert "secret" not in caplog.text + str(fields)


CHUNK = b"2\r\n{}\r\n"
FRAMING = [(1, 0), (1, CHUNK_BYTES - 9), (9, 1), (0x4000, 60), (0x10000, 85)]
"""Sizes of chunks and of their extensions, as clients send them."""
splits = st.lists(st.integers(99, 3 * FEED_BYTES), min_size=1, max_size=9)
"""The sizes of the first reads, and of all further ones."""


def send_in_parts(app: AppDouble, data: bytes, sizes: list[int]) -> bytes:
    """Return what the server sends for a request that arrives in reads of these sizes."""

    async def run() -> bytes:
        app.go = asyncio.Event()
        app.go.set()
        transport, connection = connect(app)
        start = 0
        for size in itertools.chain(sizes, itertools.repeat(sizes[-1])):
            if start >= len(data):
                break
            connection.data_received(data[start : start + size])
            start += size
            await asyncio.sleep(0)
        await run_tasks()
        return transport.sent

    return asyncio.run(run())


@given(
    st.sampled_from([b"", CHUNK, 300 * CHUNK, b"8000\r\n" + b"x" * 0x8000 + b"\r\n"]),
    st.sampled_from([b"1;", b"", b"0;x=", b"0\r\nX: ", b'1;a="']),
    st.sampled_from([0, 1, 9, FEED_BYTES, 2**20]),
    st.booleans(),
    splits,
)
def test_a_long_line_or_trailer_is_431_however_it_arrives(
    before: bytes, start: bytes, extra: int, ends: bool, sizes: list[int]
) -> None:
    line = (start or b"0") + (b"x" if start else b"0") * (MAX_HEAD_BYTES + extra)
    line += b'"' if start.endswith(b'"') else b""
    end = b"\r\nx\r\n0\r\n\r\n" if start.startswith(b"1") else b"\r\n\r\n"
    data = POST + before + line + (end if ends else b"")
    assert ParsedResponse.parse(send_in_parts(AppDouble(), data, sizes)).status == 431


@given(
    st.lists(st.sampled_from(FRAMING), max_size=50),
    st.integers(1, MAX_UNPARSED_BYTES - 64),
    st.booleans(),
    splits,
)
def test_short_extensions_and_one_long_line_are_accepted_however_they_arrive(
    chunks: list[tuple[int, int]], long: int, is_trailer: bool, sizes: list[int]
) -> None:
    parts = []
    for size, extension in chunks:
        parts += [b"%x" % size, b";" * bool(extension), b"e" * extension, b"\r\n", b"d" * size, b"\r\n"]
    last = b"0\r\nX: " if is_trailer else b"0;"
    data = POST + b"".join(parts) + last + b"x" * long + b"\r\n\r\n"
    assert ParsedResponse.parse(send_in_parts(AppDouble(), data, sizes)).status == 200


@pytest.mark.parametrize("size", [7, 20_000, 2**30])
def test_many_chunks_of_little_data_with_extensions_are_431(size: int) -> None:
    chunk = b"1;" + b"x" * 30_000 + b"\r\nx\r\n"
    assert ParsedResponse.parse(send_in_parts(AppDouble(), POST + 4 * chunk, [size])).status == 431
    # Without extensions, chunks of one byte are accepted.
    body = 20_000 * b"1\r\nx\r\n" + b"0\r\n\r\n"
    assert ParsedResponse.parse(send_in_parts(AppDouble(), POST + body, [size])).status == 200


@pytest.mark.anyio
async def test_a_rejection_in_its_turn_is_in_the_access_log(
    app: AppDouble, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "imagehost.access")
    transport, connection = connect(app)
    connection.data_received(GET + POST.replace(b"/", b"/second", 1) + b"ZZ\r\n")
    app.go.set()
    await run_tasks()
    assert ParsedResponse.parse(transport.sent.split(b"ok")[1]).status == 400
    [record] = caplog.records
    assert record.__dict__["fields"]["path"] == "/second"
    # Data that begins no request is none of the request before it.
    connection = FakeServer(app).connect(FakeTransport())
    connection.data_received(GET)
    connection.data_received(b"\r\n" * MAX_HEAD_BYTES)
    await run_tasks()
    assert [record.__dict__["fields"]["path"] for record in caplog.records] == ["/second", "-"]


@pytest.mark.anyio
async def test_a_rejection_behind_a_trusted_proxy_logs_the_client_and_has_hsts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "imagehost.access")
    app = AppDouble()
    app.security = RequestMiddleware(cast("Any", app), trusted_proxies=["127.0.0.1"], hsts_seconds=60)
    transport, connection = connect(app)
    forwarded = b"X-Forwarded-Proto: https\r\nX-Forwarded-For: 192.0.2.9\r\n"
    connection.data_received(GET[:-2] + forwarded + b"X: y\r\nno field\r\n\r\n")
    assert ParsedResponse.parse(transport.sent).headers["strict-transport-security"] == "max-age=60"
    [record] = caplog.records
    assert record.__dict__["fields"]["client"] == "192.0.2.9"


# Request targets.


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"http://a", "/"),
        (b"http://a?x=1", "/"),
        (b"HTTPS://b:443", "/"),
        (b"http://a/v1/images?x=1", "/v1/images"),
        (b"http://[::1]:80/b", "/b"),
        (b"//a/b", "//a/b"),
    ],
)
async def test_an_absolute_target_is_accepted_and_names_the_host(
    app: AppDouble, target: bytes, path: str
) -> None:
    transport, connection = connect(app)
    app.go.set()
    connection.data_received(GET.replace(b"/", target, 1))
    await run_tasks()
    assert transport.sent.startswith(b"HTTP/1.1 200 ")
    assert app.paths == [path]
    host = b"a" if target.startswith(b"//") else target.split(b"/")[2].partition(b"?")[0]
    assert connection.headers == [(b"host", host)]


@pytest.mark.anyio
async def test_the_target_of_options_may_be_an_asterisk(app: AppDouble) -> None:
    app.go.set()
    _, connection = connect(app)
    connection.data_received(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
    await run_tasks()
    assert app.paths == ["*"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "request_line",
    [
        b"GET *", b"GET http:///x", b"GET http://", b"GET ftp://a/b", b"GET http://user@a/b", b"CONNECT a:80",
        b"GET a:80", b"GET a", b"GET ?x",
    ],
)  # fmt: skip
async def test_any_other_target_is_400_and_the_details_name_the_target(
    app: AppDouble, request_line: bytes
) -> None:
    transport, connection = connect(app)
    connection.data_received(request_line + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    response = ParsedResponse.parse(transport.sent)
    assert response.status == 400
    assert (b"request target" in response.body) or (b"CONNECT" in response.body)
    assert app.paths == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("received", "named"),
    [
        (b"BREW / HTTP/1.1\r\n\r\n", "HTTP method"),
        (b"get / HTTP/1.1\r\n\r\n", "HTTP method"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", "request target"),
        (b"GET / http/1.1\r\n\r\n", "HTTP/1.1 after the request target"),
        (b"GET / HTTP/9.9\r\n\r\n", "version HTTP/1.1"),
        (b"GET / HTTP/2.0\r\n\r\n", "but received HTTP/2.0"),
        (b"GET / HTTP/1.1\nHost: a\n\n", "CRLF"),
        (b"GET / HTTP/1.1\r\nHost: a\n\r\n", "CRLF"),
        (b"GET / HTTP/1.1\r\nno field\r\n\r\n", "header lines"),
        (b"GET / HTTP/1.1\r\nX: \0\r\n\r\n", "header lines"),
        (POST[:-2] + b"Content-Length: 2\r\n\r\n", "Content-Length"),
        (b"POST / HTTP/1.1\r\nContent-Length: -2\r\n\r\n", "Content-Length"),
        (POST.replace(b"chunked", b"identity"), "Transfer-Encoding"),
        (POST + b"ZZ\r\n", "chunks"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1"),
    ],
)
async def test_the_details_of_a_rejection_name_what_is_wrong(
    app: AppDouble, received: bytes, named: str
) -> None:
    transport, connection = connect(app)
    connection.data_received(received)
    response = ParsedResponse.parse(transport.sent)
    assert response.status == 400
    details = json.loads(response.body)["error"]["details"]
    assert details.startswith("expected ")
    assert " but received " in details
    assert named in details
