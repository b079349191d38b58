"""Uploads through a faulty network: each file is stored exactly once.

A proxy between the client and the real server applies a random fault to each request.
`NETWORK_FAULT_UPLOADS` sets the number of files; 60 by default.
"""

from __future__ import annotations

import hashlib
import os
import random
import socket
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import cast

import httpx2
import pytest
from tests.client.conftest import (
    Behaviour,
    FaultyServer,
    Request,
    drop_during_request,
    drop_immediately,
    http,
    read_request,
    respond_with,
    stall,
    without_delays,
)
from tests.contract.conftest import Account, Awaited, Backend
from tests.waiting import PATIENCE

from imagehost_client import AsyncClient, Client
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

UPLOADS = int(os.environ.get("NETWORK_FAULT_UPLOADS", "60"))
ROUNDS = 40
"""The maximum number of runs; later runs skip the files that the journal has as finished."""
TIMEOUT = 3.0
"""The network timeout of the client, in seconds."""

Damage = Callable[[bytes], bytes]
"""A function that damages the server's response."""


def forward(port: int, request: Request) -> bytes:
    """Send a request to the server, and return its raw response."""
    headers = {**request.headers, "host": f"127.0.0.1:{port}", "connection": "close"}
    lines = [
        f"{request.method} {request.path} HTTP/1.1",
        *(f"{key}: {text}" for key, text in headers.items()),
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as upstream:
        upstream.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body)
        return b"".join(iter(partial(upstream.recv, 1 << 16), b""))


def relay(port: int, damage: Damage) -> Behaviour:
    """Return a behaviour that forwards the request and damages the response."""

    def behave(connection: socket.socket, proxy: FaultyServer) -> None:
        connection.sendall(damage(forward(port, read_request(connection))))

    return behave


def behaviours(port: int) -> dict[str, tuple[int, Behaviour]]:
    """Return the possible faults by name, each with its probability in percent."""
    page = http(200, b"<html>Sign in to the network</html>", Content_Type="text/html")
    wrong = http(200, b'{"success": true, "data": {"id": 7}}', Content_Type="application/json")
    return {
        "nothing": (46, relay(port, bytes)),
        "dropped before it was read": (7, drop_immediately),
        "dropped within the body": (7, drop_during_request),
        "done, and the response lost": (8, relay(port, lambda _: b"")),
        "done, and the response cut short": (6, relay(port, lambda response: response[:-20])),
        "done, and the response replaced": (3, relay(port, lambda _: page)),
        "stalled": (1, stall),
        "429": (6, respond_with(http(429, Retry_After="0"))),
        "503": (6, respond_with(http(503))),
        "502 of a proxy": (4, respond_with(http(502, b"<html>Bad gateway</html>"))),
        "a page of a proxy": (2, respond_with(page)),
        "a record that is none": (2, respond_with(wrong)),
        "bytes that are no HTTP": (2, respond_with(b"\x16\x03\x01\x02\x00 garbage \xff\r\n\r\n")),
    }


def counted(name: str, behave: Behaviour, counts: Counter[str]) -> Behaviour:
    """Return a behaviour that counts its calls."""

    def behaviour(connection: socket.socket, proxy: FaultyServer) -> None:
        counts[name] += 1
        behave(connection, proxy)

    return behaviour


@pytest.fixture
def account(server_backend: Backend) -> Account:
    """A new account."""
    return server_backend.create_account()


@pytest.fixture(params=["sync", "async"])
async def connect(
    request: pytest.FixtureRequest, account: Account
) -> AsyncIterator[Callable[[str], AsyncClient]]:
    """A factory of clients that retry without delays."""
    async with AsyncExitStack() as closing:

        def make(base_url: str) -> AsyncClient:
            if request.param == "async":
                network = httpx2.AsyncHTTPTransport(verify=False)
                created = AsyncClient(base_url, account.token, timeout=TIMEOUT, transport=network)
                closing.push_async_callback(created.close)
                return without_delays(created, retries=5)
            plain = httpx2.HTTPTransport(verify=False)
            sync = Client(base_url, account.token, timeout=TIMEOUT, transport=plain)
            closing.callback(sync.close)
            return cast("AsyncClient", Awaited(without_delays(sync, retries=5)))

        yield make


@pytest.mark.slow
async def test_every_file_is_stored_once_through_a_faulty_network(
    server_backend: Backend, connect: Callable[[str], AsyncClient], tmp_path: Path
) -> None:
    directory = tmp_path / "photos"
    directory.mkdir()
    sent: dict[str, str] = {}
    for number in range(UPLOADS):
        content = make_png(number % 97 + 1, number // 97 + 1)
        (directory / f"{number:05}.png").write_bytes(content)
        sent[f"{number:05}.png"] = hashlib.sha256(content).hexdigest()

    faults = behaviours(server_backend.server.port)
    names = [name for name, (share, _) in faults.items() for _ in range(share)]
    rng, counts = random.Random(6), Counter[str]()
    order = [name for _ in range(1 + UPLOADS // 20) for name in rng.sample(names, len(names))]
    plan = deque(counted(name, faults[name][1], counts) for name in order)
    with FaultyServer(lambda request: forward(server_backend.server.port, request), plan) as proxy:
        client = connect(proxy.url)
        for _ in range(ROUNDS):
            results = await client.upload_many(
                directory, parallel=4, journal=tmp_path / "journal", convert_to_webp=False, checksum=True
            )
            if all(result.image for result in results):
                break
    images = [result.unwrap() for result in results]
    assert {image.original_filename: image.sha256 for image in images} == sent

    direct = connect(server_backend.base_url)
    stored = [image async for image in direct.images.list(per_page=100)]
    assert Counter(image.original_filename for image in stored) == Counter(sent.keys())
    assert {image.id for image in stored} == {image.id for image in images}
    usage = (await direct.account()).usage
    assert (usage.images, usage.bytes) == (UPLOADS, sum(image.size for image in images))
    assert counts.keys() == faults.keys(), "not every fault was used"
