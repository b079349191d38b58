"""Upload many files through a faulty network with a client that is killed, and count what is stored.

    python -m bench.storm [--files 2000] [--kills 20] [--seed 1]

The command line uploads a directory with a journal to a server behind a proxy. The proxy drops connections
before and after the server has processed a request, truncates responses, stalls, and responds with 429 and
503. The client is killed by SIGKILL at random times and started again, until it has uploaded all files. Each
must then be stored exactly once.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from attrs import define, field
from bench.peers import UNLIMITED

from imagehost_client import Client
from imagehost_client.testing import make_png
from imagehost_server.testing import running

FAULTS = ("drop", "lose the response", "truncate the response", "stall", "stall after", "429", "503")
CLIENT_TIMEOUT = 5
"""The client's network timeout, in seconds; a stall lasts longer."""
LIMITS = {"IMAGEHOST_LIMITS_UPLOADS_PER_MINUTE": "600"}
"""A limit below the number of files, so that requests have several files and then one."""


@define
class FaultyProxy:
    """A proxy that forwards one request of each connection to a server, or fails.

    Attributes:
        target: The URL of the server.
        share: The share of requests that fail, 0–1.
        faults: The number of faults by kind.
        requests: The number of uploads that the server has received.
    """

    target: str
    share: float
    rng: random.Random
    faults: Counter[str] = field(factory=Counter)
    requests: int = 0
    url: str = ""

    @contextmanager
    def run(self) -> Iterator[None]:
        """Accept connections until the block ends."""
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
            stopped = threading.Event()
            thread = threading.Thread(target=self._accept, args=(listener, stopped), daemon=True)
            thread.start()
            yield
            stopped.set()

    def _accept(self, listener: socket.socket, stopped: threading.Event) -> None:
        while not stopped.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(60)
            fails = self.rng.random() < self.share
            fault = self.rng.choice(FAULTS) if fails else ""
            request = _read_request(connection)
            if fault:
                self.faults[fault] += 1
            if fault == "drop":
                return
            if fault == "stall":
                time.sleep(CLIENT_TIMEOUT + 2)
                return
            if fault in {"429", "503"}:
                connection.sendall(
                    f"HTTP/1.1 {fault} X\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
                    "Connection: close\r\n\r\n".encode()
                )
                return
            response = self._forward(request)
            if fault == "stall after":
                time.sleep(CLIENT_TIMEOUT + 2)
            elif fault == "truncate the response":
                connection.sendall(response[: len(response) // 2])
            elif fault != "lose the response":
                connection.sendall(response)

    def _forward(self, request: bytes) -> bytes:
        parts = urlsplit(self.target)
        self.requests += request.startswith(b"POST /v1/upload")
        with socket.create_connection((str(parts.hostname), parts.port or 80), timeout=120) as server:
            head, _, body = request.partition(b"\r\n\r\n")
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
            server.sendall(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body)
            chunks = []
            while chunk := server.recv(1 << 16):
                chunks.append(chunk)
        return b"".join(chunks)


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _receive(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    chunks = [body]
    left = length - len(body)
    while left > 0:
        chunks.append(_receive(connection))
        left -= len(chunks[-1])
    return head + b"\r\n\r\n" + b"".join(chunks)


def _receive(connection: socket.socket) -> bytes:
    chunk = connection.recv(1 << 16)
    if not chunk:
        raise ConnectionError("the client closed the connection")
    return chunk


def storm(
    server_url: str, token: str, directory: Path, *, files: int, kills: int, share: float, seed: int
) -> tuple[FaultyProxy, int]:
    """Upload new files through a faulty proxy, with kills of the client.

    Args:
        server_url: The base URL of the API.
        token: The API token.
        directory: A directory for the files.
        files: The number of files.
        kills: The number of times that the client is killed.
        share: The share of requests that fail, 0–1.
        seed: The seed of the faults and the times of kills.

    Returns:
        The proxy, with its counts, and the number of runs of the client.
    """
    rng = random.Random(seed)
    photos = directory / "photos"
    photos.mkdir()
    for number in range(files):
        colour = number % 256, number // 256 % 256, rng.randrange(256)
        (photos / f"{number:05}.png").write_bytes(make_png(8, 8, colour))
    proxy, runs = FaultyProxy(server_url, share, rng), 0
    with proxy.run():
        command = [sys.executable, "-c", "from imagehost_client.cli import main; raise SystemExit(main())"]
        command += ["--base-url", proxy.url, "--timeout", str(CLIENT_TIMEOUT), "--retries", "8"]
        command += ["upload", str(photos), "--journal", str(directory / "journal"), "--parallel", "8"]
        status = 1
        while status != 0:
            runs += 1
            process = subprocess.Popen(
                command,
                env=os.environ | {"IMAGEHOST_TOKEN": token},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if runs <= kills:
                _kill_after_some_results(process, rng, max(files // (2 * kills), 1))
            output = process.communicate()[0]
            status = process.returncode
            if status == 1 and runs > kills + 10:
                raise RuntimeError(f"expected all files to be uploaded but received {output[-2000:]}")
    return proxy, runs


def _kill_after_some_results(process: subprocess.Popen[str], rng: random.Random, most: int) -> None:
    """Kill a client after a random number of its results, at a random moment."""
    assert process.stdout is not None
    for _ in range(rng.randrange(most)):
        if not process.stdout.readline():
            return
    time.sleep(rng.random())
    process.kill()


def stored(server_url: str, token: str) -> Counter[str]:
    """Return how often each file is stored, by name."""
    with Client(server_url, token) as client:
        return Counter(image.original_filename for image in client.images.list(per_page=100))


def main() -> int:
    """Run the storm against a server, print what is stored, and return 0 if each file is stored once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as name,
        running(Path(name) / "data", variables=UNLIMITED | LIMITS) as server,
    ):
        proxy, runs = storm(
            server.base_url,
            server.token,
            Path(name),
            files=arguments.files,
            kills=arguments.kills,
            share=arguments.share,
            seed=arguments.seed,
        )
        counts = stored(server.base_url, server.token)
    faults = ", ".join(f"{count} × {fault}" for fault, count in sorted(proxy.faults.items()))
    print(f"{runs} runs of the client, {proxy.requests} upload requests received; faults: {faults}")
    print(f"{len(counts)} of {arguments.files} files stored, {counts.total() - len(counts)} duplicates")
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if len(counts) == counts.total() == arguments.files else 1


if __name__ == "__main__":
    raise SystemExit(main())
