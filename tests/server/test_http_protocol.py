"""One connection: deadlines by a clock that the test turns, order, and what a bad client gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
from attrs import field, mutable
from tests.server.wire import Answer, Server, Wire

from imagehost_core import ImageHost
from imagehost_core.models import Image
from imagehost_core.testing import make_image
from imagehost_server.app import create_app
from imagehost_server.serve.protocol import (
    EXTRA_CONNECTIONS,
    LINGER_BYTES,
    LINGER_SECONDS,
    MAX_HEAD_BYTES,
    MAX_PIPELINED,
    HttpProtocol,
)
from imagehost_server.settings import HttpSettings, ServerSettings

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
DEADLINE = 10.0
BOUNDS = HttpSettings(header_timeout_seconds=DEADLINE, max_connections=2)


class Lane:
    """A lane that takes requests for `/fast` alone."""

    def answer(self, request: bytes, *_: Any) -> tuple[bytes, bytes] | None:
        return (b"fast", b"\n") if request.startswith(b"GET /fast ") else None


@mutable
class App:
    """An application that answers when it is told to."""

    fast_path: Lane = field(factory=Lane)
    connections: HttpSettings = BOUNDS
    asked: list[str] = field(factory=list)
    go: asyncio.Event = field(factory=asyncio.Event)

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        self.asked.append(scope["path"])
        if scope["path"] == "/begin":
            headers = [(b"content-length", b"2")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self.go.wait()
            await send({"type": "http.response.body", "body": b"ok", "more_body": False})
            return
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            pass
        if message["type"] == "http.disconnect":
            return
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok", "more_body": False})


@pytest.fixture
def app() -> App:
    return App()


async def ticks(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def ended(wire: Wire) -> str:
    """Return how the server has ended a connection."""
    return wire.ended


def later(connection: HttpProtocol, seconds: float) -> None:
    """Let time pass for a connection."""
    cast("Any", connection.loop).advance(seconds)


def opened(app: App) -> tuple[Wire, HttpProtocol]:
    wire = Wire()
    return wire, Server(app).connect(wire)


@pytest.mark.anyio
@pytest.mark.parametrize("said", [b"", b"GET / HT", GET[:-2]])
async def test_who_does_not_ask_in_time_is_cut_off(app: App, said: bytes) -> None:
    wire, connection = opened(app)
    if said:
        connection.data_received(said)
    later(connection, 0.9 * DEADLINE)
    assert not wire.ended
    later(connection, 0.2 * DEADLINE)
    assert ended(wire) == "close"
    assert app.asked == []


@pytest.mark.anyio
async def test_who_waits_for_an_answer_is_not_cut_off_until_it_is_given(app: App) -> None:
    wire, connection = opened(app)
    connection.data_received(GET)
    later(connection, 4.5 * DEADLINE)
    assert not wire.ended
    app.go.set()
    await ticks()
    assert wire.sent.endswith(b"\r\n\r\nok")
    later(connection, 0.9 * DEADLINE)
    assert not wire.ended
    later(connection, 0.2 * DEADLINE)
    assert ended(wire) == "close"


@pytest.mark.anyio
async def test_who_asks_by_the_lane_again_and_again_is_not_cut_off(app: App) -> None:
    wire, connection = opened(app)
    app.go.set()
    connection.data_received(GET)
    await ticks()
    for _ in range(12):
        later(connection, 0.8 * DEADLINE)
        connection.data_received(GET.replace(b"/", b"/fast", 1))
    assert not wire.ended
    assert wire.sent.endswith(b"fast\n" * 12)
    later(connection, 1.1 * DEADLINE)
    assert ended(wire) == "close"


@pytest.mark.anyio
async def test_who_reads_nothing_is_cut_off_and_who_reads_slowly_is_not(app: App) -> None:
    app.go.set()
    wire, connection = opened(app)
    connection.data_received(GET)
    for left in range(9, 0, -1):
        wire.kept = left
        later(connection, DEADLINE)
        assert not wire.ended
    later(connection, DEADLINE)
    assert ended(wire) == "abort"


@pytest.mark.anyio
async def test_the_lane_takes_nothing_out_of_order(app: App) -> None:
    wire, connection = opened(app)
    fast = GET.replace(b"/", b"/fast", 1)
    connection.data_received(GET)
    await ticks()
    connection.data_received(fast)
    await ticks()
    assert (wire.sent, app.asked) == (b"", ["/"])
    app.go.set()
    await ticks()
    assert app.asked == ["/", "/fast"]
    connection.data_received(fast[:9])
    connection.data_received(fast[9:])
    await ticks()
    assert app.asked == ["/", "/fast", "/fast"]
    connection.data_received(fast)
    assert wire.sent.endswith(b"\r\n\r\nokfast\n")


@pytest.mark.anyio
async def test_the_lane_takes_no_part_of_a_request_for_a_whole_one(app: App) -> None:
    app.go.set()
    fast = GET.replace(b"/", b"/fast", 1)
    wire, connection = opened(app)
    connection.data_received(b"GET /first HTTP/1.1\r\nX: ")
    connection.data_received(fast)
    await ticks()
    # Its application answers before the body has come.
    head = b"POST /begin HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(fast)
    for piece in (head, fast, GET):
        connection.data_received(piece)
        await ticks()
    assert app.asked == ["/first", "/begin", "/"]
    assert b"fast" not in wire.sent
    assert wire.sent.count(b"HTTP/1.1 200") == 3


@pytest.mark.anyio
async def test_the_lane_sends_nothing_to_who_has_much_to_read_already(app: App) -> None:
    wire, connection = opened(app)
    fast = GET.replace(b"/", b"/fast", 1)
    connection.pause_writing()
    connection.data_received(fast)
    await ticks()
    assert (wire.sent, app.asked) == (b"", ["/fast"])
    app.go.set()
    connection.resume_writing()
    await ticks()
    assert wire.sent.endswith(b"ok")


@pytest.mark.anyio
async def test_nonsense_after_a_request_does_not_take_its_answer(app: App) -> None:
    for target, before in ((b"/", b""), (b"/begin", b"HTTP/1.1 200 OK")):
        app.go.clear()
        wire, connection = opened(app)
        connection.data_received(GET.replace(b"/", target, 1))
        await ticks()
        assert wire.sent.startswith(before)
        connection.data_received(b"nonsense\r\n\r\n")
        await ticks()
        connection.data_received(GET)
        assert not wire.ended
        app.go.set()
        await ticks()
        assert wire.sent.count(b"HTTP/1.1") == 1
        assert wire.sent.endswith(b"\r\n\r\nok")
        assert ended(wire) == "close"


@pytest.mark.anyio
@pytest.mark.parametrize("tls", [False, True])
async def test_nonsense_in_a_body_is_400_and_the_last_that_is_said(app: App, tls: bool) -> None:
    wire = Wire(tls=tls)
    connection = Server(app).connect(wire)
    connection.data_received(POST)
    await ticks()
    for _ in range(3):
        connection.data_received(b"nonsense")
    await ticks()
    answer = Answer.of(wire.sent)
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert answer.headers["content-type"] == "application/json"
    assert len(answer.headers["x-request-id"]) == 24
    assert b'"code":"BAD_REQUEST"' in answer.body
    assert (wire.ended, wire.has_said_all) == (("close", False) if tls else ("", True))
    later(connection, LINGER_SECONDS)
    assert ended(wire) == "close"
    connection.connection_lost(None)
    await ticks()
    assert Answer.of(wire.sent) == answer


@pytest.mark.anyio
async def test_who_says_all_before_the_answer_gets_it(app: App) -> None:
    wire, connection = opened(app)
    connection.data_received(GET)
    await ticks()
    assert connection.eof_received()
    app.go.set()
    await ticks(500)
    assert ended(wire) == "close"
    assert Answer.of(wire.sent).headers["connection"] == "close"
    assert wire.sent.endswith(b"\r\n\r\nok")


@pytest.mark.anyio
async def test_a_body_that_ends_too_early_is_400_and_the_application_stops(app: App) -> None:
    wire, connection = opened(app)
    connection.data_received(POST + b"2\r\n{}\r\n")
    await ticks()
    assert not connection.eof_received()
    app.go.set()
    await ticks()
    answer = Answer.of(wire.sent)
    assert (answer.status, b"the whole body" in answer.body) == (400, True)
    assert not connection.tasks


@pytest.mark.anyio
@pytest.mark.parametrize("said", [b"", GET[:9]])
async def test_who_says_all_without_a_request_is_let_go(app: App, said: bytes) -> None:
    _, connection = opened(app)
    connection.data_received(said)
    assert not connection.eof_received()


@pytest.mark.anyio
async def test_too_many_connections_are_told_so_and_more_are_cut_off() -> None:
    app = App(connections=HttpSettings(header_timeout_seconds=600, max_connections=2))
    server = Server(app)
    app.go.set()
    wires = [Wire() for _ in range(app.connections.max_connections + EXTRA_CONNECTIONS + 1)]
    connections = [server.connect(wire) for wire in wires]
    assert [wire.ended for wire in wires[-2:]] == ["", "abort"]
    first, *_, last, _ = zip(wires, connections, strict=True)

    async def ask(target: bytes, wire: Wire, connection: HttpProtocol) -> bytes:
        wire.sent = b""
        connection.data_received(GET.replace(b"/", target, 1))
        await ticks()
        return wire.sent

    for wire, connection in zip(wires[-4:-2], connections[-4:-2], strict=True):
        answer = Answer.of(await ask(b"/fast", wire, connection))
        assert (answer.status, answer.headers["retry-after"], wire.ended) == (503, "1", "close")
        assert len(answer.headers["x-request-id"]) == 24
    # Who was there before is served, and so is who came too early once there is room.
    assert (await ask(b"/", *first)).startswith(b"HTTP/1.1 200 ")
    assert await ask(b"/fast", *first) == b"fast\n"
    for connection in (*connections[1:-2], connections[-1]):
        connection.connection_lost(None)
    assert await ask(b"/fast", *last) == b"fast\n"
    assert app.asked == ["/"]


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"


@pytest.mark.anyio
@pytest.mark.parametrize("cut", [0, 9, 60, -7])
async def test_a_body_behind_a_wish_to_upgrade_is_a_body(app: App, cut: int) -> None:
    """The parser takes a request with `Upgrade` for one without a body; what follows is no request."""
    app.go.set()
    inner = GET.replace(b"/", b"/fast", 1)
    head = b"POST /first HTTP/1.1\r\nHost: a\r\n" + UPGRADE + b"Content-Length: %d\r\n\r\n" % len(inner)
    sent = head + inner
    wire, connection = opened(app)
    for piece in (sent[:cut], sent[cut:]) if cut else (head, inner):
        connection.data_received(piece)
        await ticks()
    assert app.asked == ["/first"]
    connection.data_received(inner)
    connection.data_received(GET.replace(b"/", b"/third", 1))
    await ticks()
    assert app.asked == ["/first", "/third"]
    assert wire.sent.count(b"HTTP/1.1 200") == 2
    assert wire.sent.count(b"fast\n") == 1


@pytest.mark.anyio
async def test_what_follows_a_wish_to_upgrade_in_one_piece_is_answered(app: App) -> None:
    app.go.set()
    wire, connection = opened(app)
    chunks = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    connection.data_received(GET[:-2] + UPGRADE + b"\r\n" + POST[:-30] + UPGRADE + chunks + GET)
    await ticks()
    assert wire.sent.count(b"HTTP/1.1 200") == 3
    assert not wire.ended


@pytest.mark.anyio
@pytest.mark.parametrize("first", ["HTTP/2.0", "HTTP/0.9"])
async def test_another_version_is_400(app: App, first: str) -> None:
    wire, connection = opened(app)
    connection.data_received(f"GET / {first}\r\nHost: a\r\n\r\n".encode())
    assert Answer.of(wire.sent).status == 400
    assert app.asked == []


@pytest.mark.anyio
async def test_what_follows_a_body_in_chunks_is_no_part_of_the_head(app: App) -> None:
    _, connection = opened(app)
    app.go.set()
    connection.data_received(POST)
    await ticks()
    connection.data_received(b"0\r\nAuthorization: Bearer x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
    await ticks()
    assert connection.headers == [(b"host", b"a"), (b"transfer-encoding", b"chunked")]


@pytest.mark.anyio
async def test_only_so_many_requests_may_wait_behind_one(app: App) -> None:
    wire, connection = opened(app)
    connection.data_received(GET * (MAX_PIPELINED + 50))
    await ticks()
    assert len(connection.pipeline) == MAX_PIPELINED
    app.go.set()
    await ticks(500)
    assert ended(wire) == "close"
    assert wire.sent.count(b"HTTP/1.1 200") == MAX_PIPELINED + 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("broken", "status"), [(b"ZZ\r\n", 400), (b"1;" + b"x" * 2 * MAX_HEAD_BYTES, 431), (b"", 400)]
)
async def test_a_broken_request_that_waits_is_refused_in_its_turn(
    app: App, broken: bytes, status: int
) -> None:
    wire, connection = opened(app)
    connection.data_received(GET + POST)
    if broken:
        connection.data_received(broken)
    else:
        assert connection.eof_received()
    await ticks()
    assert (wire.sent, wire.ended) == (b"", "")
    app.go.set()
    await ticks(500)
    assert ended(wire) == "close"
    first, second = wire.sent.split(b"ok", 1)
    assert first.startswith(b"HTTP/1.1 200 ")
    assert Answer.of(second).status == status
    assert app.asked == ["/"]


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "told"), [(b"GET", True), (b"HEAD", False)])
async def test_the_refusal_of_a_head_has_the_fields_of_one_and_no_content(
    app: App, method: bytes, told: bool
) -> None:
    wire, connection = opened(app)
    connection.data_received(method + b" / HTTP/1.1\r\nHost: a\r\nno field\r\n\r\n")
    await ticks()
    answer = Answer.of(wire.sent)
    assert answer.status == 400
    assert int(answer.headers["content-length"]) > 0
    assert bool(answer.body) is told


@pytest.mark.anyio
async def test_a_request_that_waited_behind_another_is_under_way_too(app: App) -> None:
    wire, connection = opened(app)
    app.go.set()
    connection.data_received(GET + POST)
    await ticks()
    assert wire.sent.count(b"HTTP/1.1 200") == 1
    later(connection, 4.5 * DEADLINE)
    assert not wire.ended
    connection.data_received(b"0\r\n\r\n")
    await ticks()
    assert wire.sent.count(b"HTTP/1.1 200") == 2


@pytest.mark.anyio
async def test_after_a_reset_nothing_is_sent(app: App, caplog: pytest.LogCaptureFixture) -> None:
    wire, connection = opened(app)
    connection.data_received(GET * 3)
    await ticks()
    wire.ended = "reset"
    connection.connection_lost(ConnectionResetError())
    app.go.set()
    await ticks()
    assert (wire.sent, caplog.records) == (b"", [])
    assert not connection.tasks


@pytest.mark.anyio
async def test_what_is_broken_leaves_no_traceback(app: App, caplog: pytest.LogCaptureFixture) -> None:
    for expect in (b"", b"Expect: 100-continue\r\n"):
        wire, connection = opened(app)
        connection.data_received(POST[:-2] + expect + b"\r\nZZ\r\n")
        app.go.set()
        await ticks()
        assert Answer.of(wire.sent).status == 400
        assert not connection.tasks
    assert caplog.records == []


@pytest.mark.anyio
async def test_the_rest_of_a_request_that_was_answered_gets_no_second_answer(app: App) -> None:
    app.go.set()
    wire, connection = opened(app)
    connection.data_received(POST.replace(b"/", b"/begin", 1))
    await ticks()
    assert wire.sent.endswith(b"\r\n\r\nok")
    connection.data_received(b"ZZ\r\n")
    assert ended(wire) == "close"
    assert wire.sent.count(b"HTTP/1.1") == 1


@pytest.mark.anyio
async def test_what_comes_after_the_last_answer_has_a_bound(app: App) -> None:
    wire, connection = opened(app)
    connection.data_received(b"nonsense\r\n\r\n")
    for _ in range(LINGER_BYTES // 65_536):
        connection.data_received(bytes(65_536))
    assert not wire.ended
    connection.data_received(b"x")
    assert ended(wire) == "abort"


@pytest.fixture
def image() -> Iterator[tuple[ImageHost, Image]]:
    with ImageHost.open() as host:
        yield host, host.upload(make_image(64, 48), owner="admin")


@pytest.mark.anyio
async def test_a_connection_takes_turns_between_the_lane_and_the_long_way(
    image: tuple[ImageHost, Image],
) -> None:
    host, shown = image
    wire = Wire()
    server = Server(create_app(host, ServerSettings()))
    connection = server.connect(wire)
    request = f"GET /img/{shown.id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    answers = []
    for pieces in ((request,), (request,), (request[:9], request[9:]), (request,)):
        wire.sent = b""
        for piece in pieces:
            connection.data_received(piece)
        while server.state.tasks:
            await asyncio.wait(server.state.tasks)
        answers.append(Answer.of(wire.sent).without_id())
    assert answers[0].status == 200
    assert answers == [answers[0]] * 4
    connection.connection_lost(None)
