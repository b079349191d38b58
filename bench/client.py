"""What the client costs beside bare httpx2: time a call, memory for a large file, time to import.

One server answers both, in turns, so that whatever else the machine does falls on both alike. `wall` is how
long a call takes, `cpu` what it takes of the caller's own processor; both are medians, and the ratio is the
client's to httpx2's. The large file is a PNG of 50 MB, sent by a fresh process each, whose peak is read from
Linux. Import times are the best of several processes, less an empty one's. The goals: a file that is sent
grows the process by less than 10 MB; the import takes at most 100 ms.

    python bench/client.py [--calls 1000] [--uploads 200]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
from attrs import frozen

from imagehost_client import AsyncClient, Client
from imagehost_client.testing import make_png
from imagehost_server.testing import RunningServer, running

WINDOWS = ("API_PER_MINUTE", "API_PER_HOUR", "API_PER_DAY", "UPLOADS_PER_MINUTE")
SETTINGS = {f"IMAGEHOST_LIMITS_{name}": "0" for name in WINDOWS} | {
    "IMAGEHOST_LOG_ACCESS": "false",
    "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false",
}
WARM_UP = 50
PROCESSES = 15
SIDE = 4_080

SEND = """
import re, sys
from pathlib import Path
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
{prepare}
send(sys.argv[3])
before = peak()
send(sys.argv[4])
print(peak() - before)
"""
WITH_CLIENT = """
from imagehost_client import Client
client = Client(sys.argv[1], sys.argv[2], timeout=120)
def send(path):
    client.upload(path, convert_to_webp=False)
"""
WITH_HTTPX = """
import httpx2
client = httpx2.Client(base_url=sys.argv[1], headers={"Authorization": f"Bearer {sys.argv[2]}"}, timeout=120)
def send(path):
    with open(path, "rb") as file:
        client.post("/upload", files={"image": file}, data={"convertToWebP": "false"}).raise_for_status()
"""

IMPORTS = (
    "import httpx2",
    "import imagehost_client",
    "from imagehost_client import AsyncClient, Client, Image, ImageHostError",
)


@frozen
class Cost:
    """What one call took, in microseconds."""

    wall: float
    cpu: float


def timed(call: Callable[[], object]) -> Cost:
    """Return what a call takes."""
    began, busy = time.perf_counter(), time.thread_time()
    call()
    return Cost(1e6 * (time.perf_counter() - began), 1e6 * (time.thread_time() - busy))


async def timed_async(call: Callable[[], Awaitable[object]]) -> Cost:
    """Return what a call takes on an event loop that has nothing else to do."""
    began, busy = time.perf_counter(), time.thread_time()
    await call()
    return Cost(1e6 * (time.perf_counter() - began), 1e6 * (time.thread_time() - busy))


def show(name: str, pairs: list[tuple[Cost, Cost]]) -> None:
    """Print a row: the client beside httpx2."""
    client, bare = zip(*pairs[WARM_UP:], strict=True)
    row = [name]
    for kind in ("wall", "cpu"):
        ours, theirs = (statistics.median(getattr(cost, kind) for cost in costs) for costs in (client, bare))
        row.append(f"{kind} {ours:.0f} beside {theirs:.0f} µs ({ours / theirs:.2f}x)")
    print(": ".join([row[0], ", ".join(row[1:])]), flush=True)


def calls(server: RunningServer, count: int, uploads: int) -> None:
    """Compare the same calls, one after the other, in threads' way."""
    headers = {"Authorization": f"Bearer {server.token}"}
    picture = make_png(64, 64)
    with (
        Client(server.base_url, server.token) as client,
        httpx2.Client(base_url=server.base_url, headers=headers) as bare,
    ):
        address = f"/images/{client.upload(picture).id}"
        number = address.rpartition("/")[2]

        def get() -> object:
            return bare.get(address).raise_for_status().json()["data"]

        def post() -> object:
            form = {"convertToWebP": "false"}
            return bare.post("/upload", files={"image": picture}, data=form).raise_for_status().json()["data"]

        show(
            "get, sync",
            [(timed(lambda: client.images.get(number)), timed(get)) for _ in range(count + WARM_UP)],
        )
        show(
            "upload, sync",
            [
                (timed(lambda: client.upload(picture, convert_to_webp=False)), timed(post))
                for _ in range(uploads + WARM_UP)
            ],
        )


async def calls_async(server: RunningServer, count: int) -> None:
    """Compare the same calls on an event loop."""
    headers = {"Authorization": f"Bearer {server.token}"}
    async with (
        AsyncClient(server.base_url, server.token) as client,
        httpx2.AsyncClient(base_url=server.base_url, headers=headers) as bare,
    ):
        number = (await client.upload(make_png(64, 64))).id

        async def get() -> object:
            return (await bare.get(f"/images/{number}")).raise_for_status().json()["data"]

        show(
            "get, async",
            [
                (await timed_async(lambda: client.images.get(number)), await timed_async(get))
                for _ in range(count + WARM_UP)
            ],
        )


def large_png(path: Path) -> None:
    """Write a PNG of 50 MB: noise, which nothing makes smaller."""
    deflate = zlib.compressobj(0)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    with path.open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)))
        for _ in range(SIDE):
            file.write(chunk(b"IDAT", deflate.compress(b"\0" + os.urandom(3 * SIDE)) or b""))
        file.write(chunk(b"IDAT", deflate.flush()) + chunk(b"IEND", b""))


def memory(server: RunningServer, folder: Path) -> None:
    """Compare how much a process grows that sends a large file."""
    small, large = folder / "small.png", folder / "large.png"
    small.write_bytes(make_png())
    large_png(large)
    grown = {}
    for name, prepare in (("the client", WITH_CLIENT), ("httpx2", WITH_HTTPX)):
        words = (server.base_url, server.token, str(small), str(large))
        done = subprocess.run(
            [sys.executable, "-c", SEND.format(prepare=prepare), *words],
            capture_output=True,
            text=True,
            check=True,
        )
        grown[name] = int(done.stdout) * 1024 / 1e6
    size = large.stat().st_size / 1e6
    print(f"a file of {size:.1f} MB: the client grows by {grown['the client']:.1f} MB,", end=" ")
    print(f"httpx2 by {grown['httpx2']:.1f} MB", flush=True)


def imports() -> None:
    """Compare how long imports take."""
    best = dict.fromkeys(("pass", *IMPORTS), float("inf"))
    for _ in range(PROCESSES):
        for code in best:
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            best[code] = min(best[code], time.perf_counter() - began)
    for code in IMPORTS:
        print(f"{code}: {1e3 * (best[code] - best['pass']):.0f} ms", flush=True)


def main() -> None:
    """Start a server, and print what is measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--uploads", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running(Path(name, "data"), variables=SETTINGS) as server:
        calls(server, options.calls, options.uploads)
        asyncio.run(calls_async(server, options.calls))
        memory(server, Path(name))
    imports()


if __name__ == "__main__":
    main()
