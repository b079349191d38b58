"""A TCP server on loopback, in an event loop and a thread of its own, for the proxies of the tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from attrs import define, field

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@define
class StreamServer:
    """A running server.

    Attributes:
        port: Its port on loopback.
        loop: Its event loop.
    """

    port: int
    loop: asyncio.AbstractEventLoop
    _stopped: asyncio.Event = field(factory=asyncio.Event)

    def stop(self) -> None:
        """End all connections and the event loop."""
        self.loop.call_soon_threadsafe(self._stopped.set)


@contextmanager
def run_stream_server(handler: Handler) -> Iterator[StreamServer]:
    """Run a server for a block.

    Args:
        handler: Handles one connection, which is closed when it returns; no failure of the connection is
            reported.
    """
    running: list[StreamServer] = []
    started = threading.Event()
    # An event loop has weak references: the task of a client that has gone, which waits for another server,
    # would be collected as garbage.
    tasks: set[asyncio.Task[None] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await handler(reader, writer)
            writer.close()
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            tasks.discard(asyncio.current_task())

    async def main() -> None:
        listener = await asyncio.start_server(handle, "127.0.0.1", 0)
        running.append(StreamServer(listener.sockets[0].getsockname()[1], asyncio.get_running_loop()))
        started.set()
        await running[0]._stopped.wait()
        # Closed at last: asyncio would leave open the socket of a connection that is accepted just now.
        running[0].loop.remove_reader(listener.sockets[0].fileno())
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others & tasks:
                task.cancel()
            await asyncio.sleep(0)
        listener.close()
        # The next iteration closes the transports.
        await asyncio.sleep(0)

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield running[0]
    finally:
        running[0].stop()
        thread.join(10)
