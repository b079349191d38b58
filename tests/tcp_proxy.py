"""A TCP proxy whose network can be slow, or cut: nothing is forwarded then, and nothing is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from attrs import define, field


@define
class TcpProxy:
    """A running proxy.

    Attributes:
        port: Its port on loopback.
        delay: Seconds for which everything that is sent to the server is held back.
    """

    port: int = 0
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
    proxy, started = TcpProxy(), threading.Event()
    stop: list[Callable[[], object]] = []
    tasks: set[asyncio.Task[None] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The event loop has weak references to tasks only.
        tasks.add(task := asyncio.current_task())
        with suppress(OSError, asyncio.CancelledError), closing(writer):
            await proxy._is_connected.wait()
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
            with closing(server_writer):
                await asyncio.gather(
                    proxy._forward(reader, server_writer, to_server=True),
                    proxy._forward(server_reader, writer, to_server=False),
                )
        tasks.discard(task)

    async def main() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(stopped.set))
        proxy._loop = loop
        proxy._is_connected.set()
        listener = await asyncio.start_server(handle, "127.0.0.1", 0)
        proxy.port = listener.sockets[0].getsockname()[1]
        started.set()
        await stopped.wait()
        listener.close()
        # A connection may be accepted just now; the next iteration of the loop closes the transports.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        await asyncio.sleep(0)

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield proxy
    finally:
        proxy.restore()
        stop[0]()
        thread.join(10)
