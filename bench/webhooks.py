"""How fast due webhook deliveries are drained against a receiver on loopback that answers at once.

    python bench/webhooks.py [--deliveries 10000] [--senders 1]

The receiver has a process of its own; senders run in one process each beside it. A destination has a few
attempts under way at a time, so the same number of deliveries is drained for one destination, for ten and
for a hundred. Beside each rate stands what the same number of bare POSTs costs, by the same function
and with the same number under way, but without an outbox: the ratio carries over to other machines.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from imagehost_core import ImageHost, Settings
from imagehost_core.services.webhooks import MAX_IN_FLIGHT_PER_ENDPOINT
from imagehost_core.settings import WebhookSettings
from imagehost_core.webhooks import parse_endpoint_url
from imagehost_server.background import WebhookSender, post

SETTINGS = Settings(webhooks=WebhookSettings(allow_loopback=True))
ANSWER = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
BODY = b"x" * 400
"""About as long as the event of an album."""
SENDER = """
import asyncio, sys
from bench.webhooks import SETTINGS
from imagehost_core import ImageHost
from imagehost_server.background import WebhookSender
async def drain():
    with ImageHost.open(sys.argv[1], settings=SETTINGS) as host:
        sender = WebhookSender(host)
        sys.stdin.readline()
        print(await sender.drain())
print("ready", flush=True)
asyncio.run(drain())
"""


class Receiver(asyncio.Protocol):
    """Answers each request when its body is complete."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._read = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer, if this is the end of the body."""
        self._read += data
        head, _, body = self._read.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if length and len(body) >= int(length):
            self._transport.write(ANSWER)
            self._transport.close()


async def receive(told: Connection) -> None:
    """Listen on a free port, and tell it."""
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0, backlog=1_000)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def receiver(told: Connection) -> None:
    """Receive until the process is ended."""
    with suppress(KeyboardInterrupt):
        asyncio.run(receive(told))


def fill(folder: Path, url: str, destinations: int, deliveries: int) -> None:
    """Make so many deliveries that are due, by changes that are made as users make them."""
    with ImageHost.open(folder, settings=SETTINGS) as host:
        for _ in range(destinations):
            host.webhooks.create(owner="admin", url=url, events=["album.created"])
        for number in range(deliveries // destinations):
            host.albums.create(owner="admin", name=f"Album {number}")


def drain(folder: Path, senders: int) -> float:
    """Drain an outbox, and return how many seconds that took."""
    if senders == 1:
        with ImageHost.open(folder, settings=SETTINGS) as host:
            begun = time.perf_counter()
            asyncio.run(_drain(host))
            return time.perf_counter() - begun
    command = [sys.executable, "-c", SENDER, str(folder)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(senders)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    begun = time.perf_counter()
    for process in processes:
        process.communicate("go\n")
    return time.perf_counter() - begun


async def _drain(host: ImageHost) -> None:
    await WebhookSender(host).drain()


async def bare(url: str, count: int, under_way: int) -> float:
    """Send so many POSTs without an outbox, and return how many seconds that took."""
    destination, left = parse_endpoint_url(url, allow_loopback=True), iter(range(count))

    async def work() -> None:
        for _ in left:
            await post(destination, {"webhook-id": "x"}, BODY, timeout=15, allow_loopback=True)

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(under_way)))
    return time.perf_counter() - begun


def main() -> None:
    """Print one line for each number of destinations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--deliveries", type=int, default=10_000)
    parser.add_argument("--senders", type=int, default=1)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=receiver, args=(theirs,), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{ours.recv()}/hook"
    concurrency = SETTINGS.webhooks.concurrency
    for destinations in (1, 10, 100):
        with tempfile.TemporaryDirectory() as name:
            fill(Path(name), url, destinations, options.deliveries)
            seconds = drain(Path(name), options.senders)
        under_way = min(MAX_IN_FLIGHT_PER_ENDPOINT * destinations, concurrency)
        alone = asyncio.run(bare(url, options.deliveries, under_way))
        rate, bare_rate = options.deliveries / seconds, options.deliveries / alone
        print(
            f"{destinations:4} destinations: {options.deliveries:,} in {seconds:6.2f} s, {rate:6,.0f}/s; "
            f"bare POSTs {bare_rate:6,.0f}/s: {rate / bare_rate:.2f} of it",
            flush=True,
        )
    process.terminate()


if __name__ == "__main__":
    main()
