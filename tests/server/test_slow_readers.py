"""Clients that read slowly: the rule over bytes and a clock, and one connection over a real socket."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from attrs import field, mutable
from hypothesis import given
from hypothesis import strategies as st
from tests.server.fake_server import DATE, FakeLoop
from uvicorn import Config
from uvicorn.server import ServerState

from imagehost_server.metrics import HTTP_CUT, Recorder
from imagehost_server.middleware.connections import ConnectionTable
from imagehost_server.middleware.requests import RequestMiddleware
from imagehost_server.serve.protocol import HttpProtocol
from imagehost_server.serve.transport import (
    BYTES_PER_SECOND,
    LONGEST_SECONDS,
    PERIOD_SECONDS,
    UNSENT_BYTES,
    ReadProgress,
    acknowledged_bytes,
    limit_unsent_bytes,
)
from imagehost_server.settings import HttpSettings

BURST_BYTES = int(PERIOD_SECONDS * BYTES_PER_SECOND)
LONGEST_BYTES = int(LONGEST_SECONDS * BYTES_PER_SECOND)


def seconds_until_cut(
    step_bytes: int, pause: float, *, checks: float = 15.0, buffer: int = 0, end: float = 20_000.0
) -> float | None:
    """Return when a client is cut that acknowledges what fits its buffer, and a step after each pause.

    Returns:
        `None` if it is not cut before the end.
    """
    now, progress = 0.0, ReadProgress.start(buffer, 0.0)
    while now < end:
        now += min(checks, progress.deadline - now)
        later = progress.update(buffer + int(now / pause) * step_bytes, now)
        if later is None:
            return now
        progress = later
    return None


@given(st.integers(1, BURST_BYTES), st.floats(1.001, 100.0), st.floats(0.5, 20.0))
def test_a_client_of_the_slowest_rate_or_a_higher_one_is_never_cut(
    step_bytes: int, factor: float, checks: float
) -> None:
    pause = step_bytes / BYTES_PER_SECOND / factor
    assert seconds_until_cut(step_bytes, pause, checks=checks, end=1_000) is None


@given(st.integers(BURST_BYTES, LONGEST_BYTES), st.floats(1.001, 100.0), st.floats(0.5, 20.0))
def test_a_client_whose_buffer_takes_large_steps_is_not_cut(
    step_bytes: int, factor: float, checks: float
) -> None:
    pause = step_bytes / BYTES_PER_SECOND / factor
    assert seconds_until_cut(step_bytes, pause, checks=checks, buffer=step_bytes, end=5_000) is None


@given(st.integers(1, BURST_BYTES), st.floats(0.01, 0.9), st.floats(0.5, 20.0), st.integers(0, LONGEST_BYTES))
def test_a_slower_client_is_cut_when_its_average_is_below_the_rate(
    step_bytes: int, factor: float, checks: float, buffer: int
) -> None:
    pause = step_bytes / BYTES_PER_SECOND / factor
    cut = seconds_until_cut(step_bytes, pause, checks=checks, buffer=buffer)
    paid = max(PERIOD_SECONDS, buffer / BYTES_PER_SECOND)
    assert cut is not None
    assert paid - 1e-6 <= cut <= paid / (1 - factor) + 1e-6


@given(st.integers(0, 100 * LONGEST_BYTES), st.floats(0.5, 20.0))
def test_a_client_that_has_stopped_to_read_is_cut_at_the_latest_after_ten_minutes(
    buffer: int, checks: float
) -> None:
    expected = min(max(PERIOD_SECONDS, buffer / BYTES_PER_SECOND), LONGEST_SECONDS)
    assert seconds_until_cut(0, 1.0, checks=checks, buffer=buffer) == pytest.approx(expected)


@given(st.lists(st.integers(0, 100 * LONGEST_BYTES), min_size=1), st.floats(0.0, 59.0))
def test_whatever_a_client_has_read_before_it_may_then_stop_for_ten_minutes_at_most(
    steps: list[int], pause: float
) -> None:
    now, acknowledged, progress = 0.0, 0, ReadProgress.start(0, 0.0)
    for step in steps:
        now, acknowledged = now + pause, acknowledged + step
        later = progress.update(acknowledged, now)
        if later is None:
            return
        progress = later
        assert progress.deadline <= now + LONGEST_SECONDS


# A connection over a socket, whose deadlines are on a clock of the test.


@mutable
class LargeResponse:
    """An application whose responses have 20 MB, and what connections ask of an `Application`."""

    fast_path: None = None
    http: HttpSettings = field(factory=HttpSettings)
    connections: ConnectionTable = field(factory=lambda: ConnectionTable(9))
    recorder: Recorder = field(factory=Recorder)
    security: RequestMiddleware = field(init=False)
    sent_pieces: int = 0
    may_respond: asyncio.Event = field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.may_respond.set()
        self.security = RequestMiddleware(cast("Any", self._respond), recorder=self.recorder)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.security(scope, receive, send)

    async def _respond(self, _scope: Any, _receive: Any, send: Any) -> None:
        await self.may_respond.wait()
        headers = [(b"content-length", b"20971520")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(640):
            await send({"type": "http.response.body", "body": bytes(32_768), "more_body": True})
            self.sent_pieces += 1
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@mutable
class Server:
    """A server on loopback, the clock of its deadlines, and its connections."""

    app: LargeResponse
    loop: FakeLoop
    port: int
    connections: list[HttpProtocol] = field(factory=list)

    async def request(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request; return when the server has sent what the kernel takes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**16)
        writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        async with asyncio.timeout(30):
            while not self.connections or not self.connections[-1].transport.get_write_buffer_size():  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        return reader, writer


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    app, loop, state = LargeResponse(), FakeLoop(), ServerState()
    state.default_headers = [DATE]
    config = Config(
        lambda: app,
        factory=True,
        interface="asgi3",
        http=HttpProtocol,
        ws="none",
        log_config=None,
        proxy_headers=False,
    )
    config.load()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        limit_unsent_bytes(listener)
        server = Server(app, loop, listener.getsockname()[1])

        def connect() -> HttpProtocol:
            server.connections.append(HttpProtocol(config, state, {}, cast("Any", loop)))
            return server.connections[-1]

        listening = await asyncio.get_running_loop().create_server(connect, sock=listener)
        try:
            yield server
        finally:
            listening.close()
            for connection in server.connections:
                connection.transport.abort()


async def until_complete(tasks: set[asyncio.Task[None]]) -> None:
    async with asyncio.timeout(30):
        while tasks:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.001)


@pytest.mark.anyio
async def test_a_response_that_is_not_read_is_cut_logged_as_cut_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "imagehost.access")
    async with serving() as server:
        _, writer = await server.request()
        [connection] = server.connections
        unsent = connection.transport.get_write_buffer_size()
        # The kernel and the process hold little, whatever the size of the response.
        assert unsent <= 32_768
        assert server.app.sent_pieces * 32_768 < 2**20
        server.loop.advance(PERIOD_SECONDS)
        assert not connection.transport.is_closing()
        # The kernel of the client has taken this much.
        server.loop.advance((acknowledged_bytes(connection.transport) or 0) / BYTES_PER_SECOND)
        await until_complete(connection.tasks)
        assert connection.transport.is_closing()
        writer.close()
    [line] = [record for record in caplog.records if record.name == "imagehost.access"]
    fields = cast("Any", line).fields
    assert (fields["status"], fields["cut"]) == (200, "slow")
    assert fields["sent_bytes"] == pytest.approx(server.app.sent_pieces * 32_768 - unsent, abs=32_768)
    assert cut_responses(server.app) == {"slow": 1.0}


@pytest.mark.anyio
async def test_a_client_that_takes_a_kilobyte_a_second_is_not_cut() -> None:
    async with serving() as server:
        reader, writer = await server.request()
        [connection] = server.connections
        for _ in range(40):
            # The step in which the kernel acknowledges, at least.
            await reader.readexactly(2**18)
            server.loop.advance(PERIOD_SECONDS - 1)
            assert not connection.transport.is_closing()
        writer.close()


@pytest.mark.anyio
async def test_a_response_whose_client_disconnects_is_logged_as_cut_and_no_more_is_read_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "imagehost.access")
    async with serving() as server:
        _, writer = await server.request()
        writer.transport.abort()
        await until_complete(server.connections[0].tasks)
    fields = cast("Any", caplog.records[-1]).fields
    assert (fields["status"], fields["cut"]) == (200, "disconnected")
    assert 0 < fields["sent_bytes"] < 2**20
    assert server.app.sent_pieces < 32
    assert cut_responses(server.app) == {"disconnected": 1.0}


@pytest.mark.anyio
async def test_a_response_whose_first_write_fails_is_logged_as_cut_and_no_more_is_read_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "imagehost.access")
    async with serving() as server:
        server.app.may_respond.clear()
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            while not server.connections or not server.connections[-1].tasks:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.001)
            # The connection is reset at once, and the application goes on before the server notices.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.app.may_respond.set()
        await until_complete(server.connections[0].tasks)
    [line] = [record for record in caplog.records if record.name == "imagehost.access"]
    fields = cast("Any", line).fields
    assert (fields["status"], fields["cut"], fields["sent_bytes"]) == (200, "disconnected", 0)
    assert server.app.sent_pieces == 0
    assert cut_responses(server.app) == {"disconnected": 1.0}


def cut_responses(app: LargeResponse) -> dict[str, float]:
    """Return the counted responses by reason."""
    return {sample.labels["reason"]: sample.value for sample in app.recorder.counted()[HTTP_CUT.name].samples}


def test_what_the_kernel_buffers_is_limited_for_each_connection_of_the_listener() -> None:
    if not hasattr(socket, "TCP_NOTSENT_LOWAT"):
        pytest.skip("NOT TESTED: this system has no TCP_NOTSENT_LOWAT")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        limit_unsent_bytes(listener)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT_BYTES
