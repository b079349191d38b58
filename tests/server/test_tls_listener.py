"""TLS handshakes in progress count for the limits of connections, on each event loop."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, cast

import pytest
import uvloop
from attrs import frozen
from tests.certificates import Certificate, create_certificate
from tests.waiting import PATIENCE, until

from imagehost_server.middleware.connections import EXTRA_CONNECTIONS, ConnectionTable, OpenConnection
from imagehost_server.serve.tls import TlsListener, create_context

"""Timeout of what should happen at once."""

Run = Callable[[Coroutine[Any, Any, None]], None]


class Echo(asyncio.Protocol):
    """Sends what it receives, and takes its place in the table over."""

    def __init__(self, place: OpenConnection) -> None:
        self._place = place

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._place.set_evict(self._evict)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._place.remove()

    def _evict(self) -> bool:
        self._transport.abort()
        return True


@frozen
class Server:
    """A listener on loopback."""

    listener: TlsListener
    port: int
    table: ConnectionTable
    certificate: Certificate
    stack: AsyncExitStack

    async def connect(self, *, tls: bool = False, sent: bytes = b"") -> asyncio.StreamReader:
        """Open a connection, with or without a handshake."""
        context = ssl.create_default_context(cafile=str(self.certificate.cert)) if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        self.stack.callback(writer.close)
        writer.write(sent)
        return reader

    async def connect_silently(self, count: int) -> list[asyncio.StreamReader]:
        """Open connections without a handshake, each when the one before counts."""
        readers = list[asyncio.StreamReader]()
        for _ in range(count):
            accepted = len(self.table)
            readers.append(await self.connect())
            await until(lambda before=accepted: len(self.table) > before)  # type: ignore[misc]
        return readers


LIMIT = 3


@asynccontextmanager
async def serving(
    certificate: Certificate, table: ConnectionTable, handshake_seconds: float = 600
) -> AsyncIterator[Server]:
    context = create_context(str(certificate.cert), str(certificate.key))
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener = TlsListener(listening, context, table, Echo, handshake_seconds)
        stack.callback(listener.close)
        yield Server(listener, listening.getsockname()[1], table, certificate, stack)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the server closes a connection; return whether it did."""
    try:
        return await asyncio.wait_for(reader.read(1), PATIENCE) == b""
    except ConnectionError:
        return True


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return create_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.SelectorEventLoop], ids=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    def run_in_loop(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(coroutine)

    return run_in_loop


def test_a_connection_counts_once_before_and_after_its_handshake(run: Run, certificate: Certificate) -> None:
    counts = list[int]()

    async def check() -> None:
        async with serving(certificate, ConnectionTable(9, on_change=counts.append)) as server:
            reader = await server.connect(tls=True, sent=b"hello")
            assert await asyncio.wait_for(reader.readexactly(5), PATIENCE) == b"hello"
            assert counts == [1]
        await until(lambda: counts == [1, 0])

    run(check())


def test_the_oldest_handshakes_of_a_client_are_closed_for_its_new_connections(
    run: Run, certificate: Certificate
) -> None:
    async def check() -> None:
        async with serving(certificate, ConnectionTable(100, LIMIT)) as server:
            silent = await server.connect_silently(LIMIT)
            reader = await server.connect(tls=True, sent=b"hello")
            assert await is_closed(silent[0])
            assert await asyncio.wait_for(reader.readexactly(5), PATIENCE) == b"hello"
            assert len(server.table) == LIMIT
            assert not silent[1].at_eof()
            await server.connect()
            assert await is_closed(silent[1])
            assert len(server.table) == LIMIT

    run(check())


def test_a_handshake_that_takes_too_long_is_closed(run: Run, certificate: Certificate) -> None:
    async def check() -> None:
        async with serving(certificate, ConnectionTable(9), handshake_seconds=0.2) as server:
            assert await is_closed(await server.connect())
            # The head of a TLS record, whose rest never comes.
            assert await is_closed(await server.connect(sent=b"\x16\x03\x01\x02\x00\x01"))
            await until(lambda: len(server.table) == 0)

    run(check())


def test_a_client_that_speaks_no_tls_does_not_count_any_more(run: Run, certificate: Certificate) -> None:
    async def check() -> None:
        async with serving(certificate, ConnectionTable(9)) as server:
            reader = await server.connect(sent=b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert not (await asyncio.wait_for(reader.read(), PATIENCE)).startswith(b"HTTP")
            await until(lambda: len(server.table) == 0)

    run(check())


def test_the_oldest_of_far_too_many_connections_is_closed_for_a_new_handshake(
    run: Run, certificate: Certificate
) -> None:
    async def check() -> None:
        table, closed = ConnectionTable(1), list[int]()
        for number in range(1 + EXTRA_CONNECTIONS):

            def evict(number: int = number) -> bool:
                closed.append(number)
                return True

            table.add(f"192.0.2.{number % 256}", evict).set_busy()
        async with serving(certificate, table) as server:
            await server.connect()
            await until(lambda: bool(closed))
        assert closed == [1]

    run(check())


def test_closing_a_listener_closes_the_connections_with_a_handshake(
    run: Run, certificate: Certificate
) -> None:
    async def check() -> None:
        async with serving(certificate, ConnectionTable(9)) as server:
            [reader] = await server.connect_silently(1)
            server.listener.close()
            assert await is_closed(reader)
            await until(lambda: len(server.table) == 0)

    run(check())


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
        with suppress(OSError):
            while True:
                stack.callback(os.close, os.dup(0))
        yield


def test_connections_are_accepted_again_when_there_are_open_files_again(
    run: Run, certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        async with serving(certificate, ConnectionTable(9)) as server:
            with socket.socket() as client:
                with no_more_files():
                    # The system completes the connection, without a descriptor in the server.
                    client.connect(("127.0.0.1", server.port))
                    await until(lambda: "cannot accept a connection" in caplog.text)
                await until(lambda: len(server.table) == 1)
            await until(lambda: len(server.table) == 0)

    run(check())
