"""Measure the overhead of the client compared with bare httpx2: time, memory and import time.

    python bench/client.py [--calls 1000] [--uploads 200] [--peers PYTHON]

Both send requests to the same server in turn, so that other load of the machine affects both alike. `wall` is
the time of a call and `cpu` its CPU time in the calling process; both are medians, and the ratio is the
client's to httpx2's. The large file is a PNG of 50 MB, uploaded by a new process each, whose peak memory is
read from Linux. Import times are the best of several processes, less that of an empty program; so is the CPU
time of a process until its first response, beside stripe and boto3 if `--peers` is an interpreter that has
these three. The double is `FakeImageHost`: the time until it is ready, and that of 100 uploads.
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
import textwrap
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

UPLOAD_SCRIPT = """
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
    """The time of one call, in microseconds."""

    wall: float
    cpu: float


def timed(call: Callable[[], object]) -> Cost:
    """Return the cost of a call."""
    wall, cpu = time.perf_counter(), time.thread_time()
    call()
    return Cost(1e6 * (time.perf_counter() - wall), 1e6 * (time.thread_time() - cpu))


async def timed_async(call: Callable[[], Awaitable[object]]) -> Cost:
    """Return the cost of a call on an otherwise idle event loop."""
    wall, cpu = time.perf_counter(), time.thread_time()
    await call()
    return Cost(1e6 * (time.perf_counter() - wall), 1e6 * (time.thread_time() - cpu))


def report(name: str, pairs: list[tuple[Cost, Cost]]) -> None:
    """Print the medians of the client and of httpx2."""
    client, bare = zip(*pairs[WARM_UP:], strict=True)
    row = [name]
    for kind in ("wall", "cpu"):
        client_median, bare_median = (
            statistics.median(getattr(cost, kind) for cost in costs) for costs in (client, bare)
        )
        row.append(
            f"{kind} {client_median:.0f} µs, httpx2 {bare_median:.0f} µs ({client_median / bare_median:.2f}x)"
        )
    print(": ".join([row[0], ", ".join(row[1:])]), flush=True)


def calls(server: RunningServer, count: int, uploads: int) -> None:
    """Compare synchronous calls."""
    headers = {"Authorization": f"Bearer {server.token}"}
    image = make_png(64, 64)
    with (
        Client(server.base_url, server.token) as client,
        httpx2.Client(base_url=server.base_url, headers=headers) as bare,
    ):
        path = f"/images/{client.upload(image).id}"
        image_id = path.rpartition("/")[2]

        def get() -> object:
            return bare.get(path).raise_for_status().json()["data"]

        def post() -> object:
            form = {"convertToWebP": "false"}
            return bare.post("/upload", files={"image": image}, data=form).raise_for_status().json()["data"]

        report(
            "get, sync",
            [(timed(lambda: client.images.get(image_id)), timed(get)) for _ in range(count + WARM_UP)],
        )
        report(
            "upload, sync",
            [
                (timed(lambda: client.upload(image, convert_to_webp=False)), timed(post))
                for _ in range(uploads + WARM_UP)
            ],
        )


async def calls_async(server: RunningServer, count: int) -> None:
    """Compare asynchronous calls."""
    headers = {"Authorization": f"Bearer {server.token}"}
    async with (
        AsyncClient(server.base_url, server.token) as client,
        httpx2.AsyncClient(base_url=server.base_url, headers=headers) as bare,
    ):
        image_id = (await client.upload(make_png(64, 64))).id

        async def get() -> object:
            return (await bare.get(f"/images/{image_id}")).raise_for_status().json()["data"]

        report(
            "get, async",
            [
                (await timed_async(lambda: client.images.get(image_id)), await timed_async(get))
                for _ in range(count + WARM_UP)
            ],
        )


def large_png(path: Path) -> None:
    """Write a PNG of 50 MB of incompressible noise."""
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
    """Compare the memory growth of a process that uploads a large file."""
    small, large = folder / "small.png", folder / "large.png"
    small.write_bytes(make_png())
    large_png(large)
    growth = {}
    for name, prepare in (("the client", WITH_CLIENT), ("httpx2", WITH_HTTPX)):
        arguments = (server.base_url, server.token, str(small), str(large))
        process = subprocess.run(
            [sys.executable, "-c", UPLOAD_SCRIPT.format(prepare=prepare), *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        growth[name] = int(process.stdout) * 1024 / 1e6
    size = large.stat().st_size / 1e6
    print(f"a file of {size:.1f} MB: the client grows by {growth['the client']:.1f} MB,", end=" ")
    print(f"httpx2 by {growth['httpx2']:.1f} MB", flush=True)


def imports() -> None:
    """Compare import times."""
    best = dict.fromkeys(("pass", *IMPORTS), float("inf"))
    for _ in range(PROCESSES):
        for code in best:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            best[code] = min(best[code], time.perf_counter() - start)
    for code in IMPORTS:
        print(f"{code}: {1e3 * (best[code] - best['pass']):.0f} ms", flush=True)


FIRST_RESPONSES = {
    "httpx2": "import httpx2; httpx2.Client().get(sys.argv[1] + '/gallery')",
    "imagehost_client": "from imagehost_client import Client; Client(sys.argv[1], '').gallery().first_page()",
}
FIRST_RESPONSES_OF_PEERS = {
    "stripe": (
        "import stripe\nstripe.StripeClient('k', base_addresses={'api': sys.argv[1]}).v1.customers.list()"
    ),
    "boto3": (
        "import boto3\nboto3.client('s3', endpoint_url=sys.argv[1], region_name='r', aws_access_key_id='k', "
        "aws_secret_access_key='s').list_buckets()"
    ),
}
FIRST_RESPONSE = """
import sys, time, contextlib
with contextlib.suppress(Exception):
{code}
print(time.process_time())
"""


DOUBLE = """
import time
from imagehost_client.testing import FakeImageHost, make_png
FakeImageHost()  # imports what a host needs
began = time.perf_counter()
client = FakeImageHost().client()
ready = time.perf_counter()
client.upload(make_png())
first = time.perf_counter()
for number in range(100):
    client.upload(make_png(number + 1, 1))
seconds = time.perf_counter() - first
print(f"FakeImageHost: ready in {ready - began:.2f} s, 100 uploads in {seconds:.1f} s", flush=True)
"""


def first_responses(server: RunningServer, peers: str | None) -> None:
    """Print the CPU time of processes until their first response."""
    programs = {"": "pass", **FIRST_RESPONSES, **(FIRST_RESPONSES_OF_PEERS if peers else {})}
    best = dict.fromkeys(programs, float("inf"))
    for _ in range(PROCESSES):
        for name, code in programs.items():
            text = FIRST_RESPONSE.format(code=textwrap.indent(code, "    "))
            command = [peers or sys.executable, "-c", text, server.base_url]
            process = subprocess.run(command, capture_output=True, text=True, check=True)
            best[name] = min(best[name], float(process.stdout))
    for name in list(programs)[1:]:
        print(f"first response, {name}: {1e3 * (best[name] - best['']):.0f} ms of CPU time", flush=True)


def main() -> None:
    """Start a server and run all comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--uploads", type=int, default=200)
    parser.add_argument("--peers", metavar="PYTHON", help="one with imagehost-client, stripe and boto3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running(Path(name, "data"), variables=SETTINGS) as server:
        calls(server, options.calls, options.uploads)
        asyncio.run(calls_async(server, options.calls))
        memory(server, Path(name))
        first_responses(server, options.peers)
    subprocess.run([sys.executable, "-c", DOUBLE], check=True)
    imports()


if __name__ == "__main__":
    main()
