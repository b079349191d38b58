"""A TCP proxy whose network can be slow, or cut: nothing is forwarded then, and nothing is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from attrs import define, field
from tests.stream_server import run_stream_server


@define
class TcpProxy:
    """A running proxy.

    Attributes:
        port: Its port on loopback.
        delay: Seconds for which everything that is sent to the server is held back.
        server_port: The port of the server, to which new connections are forwarded.
    """

    port: int = 0
    server_port: int = 0
    delay: float = 0.0
    _is_connected: asyncio.Event = field(factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None

    def cut(self) -> None:
        """Stop forwarding; connections stay open."""
        self._call(self._is_connected.clear)

    def restore(self) -> None:
        """Forward again, also what was sent meanwhile."""
        self._call(self._is_connected.set)

    def _call(self, function: Callable[[], object]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_server: bool
    ) -> None:
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(65_536):
                if to_server and self.delay:
                    await asyncio.sleep(self.delay)
                await self._is_connected.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@contextmanager
def run_tcp_proxy(port: int) -> Iterator[TcpProxy]:
    """Run a proxy to a port of loopback for a block, in a thread of its own."""
    proxy = TcpProxy(server_port=port)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proxy._is_connected.wait()
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", proxy.server_port)
        with closing(server_writer):
            await asyncio.gather(
                proxy._forward(reader, server_writer, to_server=True),
                proxy._forward(server_reader, writer, to_server=False),
            )

    with run_stream_server(handle) as server:
        proxy.port, proxy._loop = server.port, server.loop
        proxy.restore()
        try:
            yield proxy
        finally:
            proxy.restore()
