"""Measure the CPU time of requests to the JSON API in one process, beside a bare Litestar handler.

    python -m bench.request_cpu [--series 300] [--requests 30] [--images 1000]

The bare handler sends the same bytes. Both applications run on the event loop of this process, behind the
HTTP protocols that serve them, with a transport that discards what they write. So the time has everything but
the system calls of connections, and no other process takes part in it. imagehost has a token, rate limit
windows that are counted but not exhausted, and the access log, which goes to /dev/null. Series of imagehost
and of the bare handler alternate. The output has the lowest series of each, which other load of the machine
changes least, and the medians. `bench.api` measures rates, with the system calls of both servers.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging.config
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from statistics import median
from typing import Any

import uvloop
from bench.api import SETTINGS, insert_copies
from bench.peers import machine
from litestar import Litestar, Response, get
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from imagehost_core import ImageHost
from imagehost_core.models import Scope
from imagehost_server.app import create_app
from imagehost_server.logging_config import logging_config, prepare_process
from imagehost_server.serve.protocol import HttpProtocol
from imagehost_server.serve.server import DatedServerState
from imagehost_server.settings import load

CONNECTION = {"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 80)}


class DiscardingTransport(asyncio.Transport):
    """A transport that keeps the last response and resolves a future when one is written."""

    def __init__(self) -> None:
        super().__init__(CONNECTION)
        self.response = b""
        self.written: asyncio.Future[None] | None = None

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Keep a part of a response."""
        self.writelines((data,))

    def writelines(self, parts: Any) -> None:
        """Keep a response, or a part of it."""
        self.response = b"".join(parts)
        if self.written is not None and not self.written.done() and b"}" in self.response[-1:]:
            self.written.set_result(None)

    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return False

    def close(self) -> None:
        """Fail: no request here ends the connection."""
        raise AssertionError(f"expected an open connection but received {self.response[:500]!r}")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing."""

    def get_write_buffer_size(self) -> int:
        """Return that nothing waits."""
        return 0

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""


class Connection:
    """A connection of a protocol to `DiscardingTransport`."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._transport = DiscardingTransport()
        protocol.connection_made(self._transport)

    async def request(self, data: bytes) -> bytes:
        """Return the response to a request."""
        self._transport.written = asyncio.get_running_loop().create_future()
        self._protocol.data_received(data)
        await self._transport.written
        return self._transport.response

    async def measure(self, data: bytes, count: int) -> float:
        """Return the CPU time of a request, in microseconds: the mean of `count`."""
        begin = time.process_time()
        for _ in range(count):
            await self.request(data)
        return (time.process_time() - begin) / count * 1e6


def bare_connection(body: bytes) -> Connection:
    """Return a connection to a Litestar application with one route, which sends `body`."""

    @get("/")
    async def handler() -> Response[bytes]:
        return Response(body, media_type="application/json")

    app = Litestar([handler], openapi_config=None, logging_config=None)
    config = Config(
        app, ws="none", access_log=False, server_header=False, proxy_headers=False, log_config=None
    )
    config.load()
    return Connection(HttpToolsProtocol(config, DatedServerState(), {}))


def head(path: str, *headers: str) -> bytes:
    """Return the head of a GET request, with the headers that wrk sends."""
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: 127.0.0.1:8000", *headers, "", "")).encode()


async def measure(data: Path, options: argparse.Namespace, report: Callable[[str], object]) -> None:
    """Report a line for each request."""
    settings, _ = load(data, {}, {**os.environ, **SETTINGS})
    host = ImageHost.open(data, settings=settings)
    image_id = insert_copies(data, options.images)
    token = host.keys.create(owner="admin", scopes=list(Scope)).token
    config = Config(
        lambda: create_app(host, settings),
        factory=True,
        ws="none",
        http=HttpProtocol,
        interface="asgi3",
        proxy_headers=False,
        access_log=False,
        server_header=False,
        log_config=None,
    )
    config.load()
    own = Connection(HttpProtocol(config, DatedServerState(), {}))
    requests = {
        "by id": f"/v1/images/{image_id}",
        "list of 20": "/v1/images",
        "gallery": "/v1/gallery",
        "account": "/v1/account",
    }
    for name, path in requests.items():
        request = head(path, f"Authorization: Bearer {token}")
        status, _, body = (await own.request(request)).partition(b"\r\n\r\n")
        assert b" 200 " in status[:20], status
        bare = bare_connection(body)
        await own.measure(request, options.requests)
        await bare.measure(head("/"), options.requests)
        # As the server does when it has started.
        gc.collect()
        gc.freeze()
        ours, theirs = [], []
        for _ in range(options.series):
            ours.append(await own.measure(request, options.requests))
            theirs.append(await bare.measure(head("/"), options.requests))
        (cost, reference), (usual, usual_reference) = map(min, (ours, theirs)), map(median, (ours, theirs))
        report(
            f"  {name:10} {len(body):6,} bytes: {cost:6.1f} µs, bare {reference:5.1f}"
            f" ({reference / cost:.1%}); medians {usual:6.1f} µs, {usual_reference:5.1f}"
            f" ({usual_reference / usual:.1%})"
        )
    host.close()


def main() -> None:
    """Measure all requests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--series", type=int, default=300)
    parser.add_argument("--requests", type=int, default=30, help="of each series")
    parser.add_argument("--images", type=int, default=1_000)
    options = parser.parse_args()
    print(machine())
    output = sys.stdout
    with tempfile.TemporaryDirectory() as name, Path(os.devnull).open("w") as log, redirect_stderr(log):
        logging.config.dictConfig(logging_config("info"))
        prepare_process()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(
                measure(Path(name, "data"), options, lambda line: print(line, file=output, flush=True))
            )


if __name__ == "__main__":
    main()
