"""Measure the throughput of the webhook sender, against a receiver on loopback that responds at once.

    python bench/webhooks.py [--deliveries 10000] [--senders 1]

The receiver and each sender run in a process of their own. The number of attempts in flight per endpoint is
limited, so the same number of deliveries is sent to one endpoint, to ten and to a hundred. Each rate is
compared with that of the same number of bare POST requests, by the same function and with the same
concurrency, but without an outbox: the ratio carries over to other machines.
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
from imagehost_core.endpoints import parse_endpoint_url, require_ip_address
from imagehost_core.settings import WebhookSettings
from imagehost_core.webhooks import MAX_IN_FLIGHT_PER_WEBHOOK
from imagehost_server.background import WebhookSender
from imagehost_server.http.outgoing import Outgoing

SETTINGS = Settings(base_url="https://img.example/v1", webhooks=WebhookSettings(allow_loopback=True))
RESPONSE = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
BODY = b"x" * 400
"""About the size of an album event."""
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
    """Responds to each request once its body is complete."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start reading."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._read = transport, b""

    def data_received(self, data: bytes) -> None:
        """Respond if the body is complete."""
        self._read += data
        head, _, body = self._read.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if length and len(body) >= int(length):
            self._transport.write(RESPONSE)
            self._transport.close()


async def receive(port: Connection) -> None:
    """Listen on an unused port, and send its number over the pipe."""
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0, backlog=1_000)
    port.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def run_receiver(port: Connection) -> None:
    """Run the receiver until the process is terminated."""
    with suppress(KeyboardInterrupt):
        asyncio.run(receive(port))


def create_deliveries(directory: Path, url: str, endpoints: int, deliveries: int) -> None:
    """Create due deliveries by creating albums."""
    with ImageHost.open(directory, settings=SETTINGS) as host:
        for _ in range(endpoints):
            host.webhooks.create(owner="admin", url=url, events=["album.created"])
        for number in range(deliveries // endpoints):
            host.albums.create(owner="admin", name=f"Album {number}")


def drain(directory: Path, senders: int) -> float:
    """Send all due deliveries; return the time in seconds."""
    if senders == 1:
        with ImageHost.open(directory, settings=SETTINGS) as host:
            start = time.perf_counter()
            asyncio.run(_drain(host))
            return time.perf_counter() - start
    command = [sys.executable, "-c", SENDER, str(directory)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(senders)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    start = time.perf_counter()
    for process in processes:
        process.communicate("go\n")
    return time.perf_counter() - start


async def _drain(host: ImageHost) -> None:
    await WebhookSender(host).drain()


async def post_without_outbox(url: str, count: int, in_flight: int) -> float:
    """Send POST requests without an outbox; return the time in seconds."""
    endpoint, remaining = parse_endpoint_url(url, allow_loopback=True), iter(range(count))

    outgoing = Outgoing(require_ip_address)

    async def work() -> None:
        for _ in remaining:
            await outgoing.request("POST", endpoint, {"webhook-id": "x"}, BODY, timeout=15)

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    return time.perf_counter() - start


def main() -> None:
    """Print one line for each number of endpoints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--deliveries", type=int, default=10_000)
    parser.add_argument("--senders", type=int, default=1)
    options = parser.parse_args()
    parent_end, child_end = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=run_receiver, args=(child_end,), daemon=True
    )
    process.start()
    url = f"http://127.0.0.1:{parent_end.recv()}/hook"
    concurrency = SETTINGS.webhooks.concurrency
    for endpoints in (1, 10, 100):
        with tempfile.TemporaryDirectory() as name:
            create_deliveries(Path(name), url, endpoints, options.deliveries)
            seconds = drain(Path(name), options.senders)
        in_flight = min(MAX_IN_FLIGHT_PER_WEBHOOK * endpoints, concurrency)
        bare_seconds = asyncio.run(post_without_outbox(url, options.deliveries, in_flight))
        rate, bare_rate = options.deliveries / seconds, options.deliveries / bare_seconds
        print(
            f"{endpoints:4} endpoints: {options.deliveries:,} in {seconds:6.2f} s, {rate:6,.0f}/s; "
            f"bare POST requests {bare_rate:6,.0f}/s: ratio {rate / bare_rate:.2f}",
            flush=True,
        )
    process.terminate()


if __name__ == "__main__":
    main()
