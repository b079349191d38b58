"""Measure what slow and stalled clients get, what they cost, and how probes are served meanwhile.

    python -m bench.slow_clients [rates] [readers] [probes] [uploads] [speed]

By default everything but `rates`, which takes the time of its slowest download. Rows go to one table, so that
two versions can be compared. `--flags` go to `imagehost serve`.

- `rates`: curl downloads a 20 MB original at several rates.
- `readers`: 1,000 clients request the original and read nothing; the memory of each, in the server's
  processes and in its sockets, and the 99th percentile of a hundred `/readyz` from elsewhere.
- `probes`: how many probes of an IP address are answered while it stalls on all its requests, or on all
  connections of the server.
- `uploads`: 256 uploads that stop midway; the memory of each, and what stays when they are gone.
- `speed`: the original at full speed, over one connection and over eight.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

from bench.idle import pss_bytes, role
from bench.peers import UNLIMITED, descendants, machine, upload
from PIL import Image

from imagehost_server.testing import RunningServer, running

MIB, KIB = 2**20, 2**10
SIDE = 2_600
"""Width and height of the original: a PNG of random pixels, 20.3 MB."""
READERS, UPLOADS, PROBES = 1_000, 256, 367
ADDRESSES = 8
"""IP addresses of the slow clients."""
RATES = (1.2, 2, 10, 60, 100, 150, 250)
"""In KiB per second; those of small files first, so that they take minutes."""
SMALL_RATE_BYTES = 400_000
TRIM_SECONDS = 65.0
"""After which a server process has returned free memory to the kernel."""


def original(path: Path) -> bytes:
    """Return a PNG of random pixels."""
    image = Image.frombytes("RGB", (SIDE, SIDE), Random(1).randbytes(3 * SIDE * SIDE))
    image.save(path, "PNG", compress_level=0)
    return path.read_bytes()


def connect(server: RunningServer, source: str = "127.0.0.1", timeout: float = 30.0) -> socket.socket:
    """Open a connection from an address of loopback."""
    return socket.create_connection(("127.0.0.1", server.port), timeout, source_address=(source, 0))


def address(number: int) -> str:
    """Return the address of a slow client."""
    return f"127.0.1.{1 + number % ADDRESSES}"


def server_memory(server: RunningServer) -> int:
    """Return the bytes of the server's HTTP processes, as proportional set size."""
    return sum(pss_bytes(pid) for pid in descendants(server.process.pid) if role(pid) == "server")


def socket_memory(server: RunningServer) -> int:
    """Return the bytes of the server's connections in the kernel: both queues and what is kept for them."""
    listing = subprocess.run(
        ["ss", "-tmnH", "state", "established", f"sport = :{server.port}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return sum(
        int(receive) + int(forward) + int(send)
        for receive, forward, send in re.findall(r"skmem:\(r(\d+),.*?,f(\d+),w(\d+),", listing.stdout)
    )


def get(path: str) -> bytes:
    """Return a request without more."""
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


def probe(server: RunningServer, path: str, source: str = "127.0.0.1") -> tuple[bool, float]:
    """Return whether a probe on a new connection is answered with 200, and the seconds that it took."""
    started = time.perf_counter()
    received = b""
    with suppress(OSError), connect(server, source, 10.0) as connection:
        connection.sendall(get(path).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        while chunk := connection.recv(65_536):
            received += chunk
    return received.startswith(b"HTTP/1.1 200 "), time.perf_counter() - started


def percentile(values: list[float], part: float = 0.99) -> float:
    """Return a percentile of values."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def row(title: str, *figures: str) -> None:
    """Print a row of the table."""
    print(f"| {title} | {' | '.join(figures)} |", flush=True)


@contextmanager
def stalled(server: RunningServer, path: str, count: int, source: Callable[[int], str]) -> Iterator[None]:
    """Hold connections that have requested a path and read nothing."""
    with ExitStack() as stack:
        for number in range(count):
            connection = stack.enter_context(connect(server, source(number)))
            connection.sendall(get(path))
            if number % 50 == 0:
                time.sleep(0.05)
        time.sleep(3)
        yield


def measure_readers(server: RunningServer, path: str, _token: str) -> None:
    """Print the memory of stalled readers, and the response times of probes beside them."""
    before = server_memory(server)
    quiet = [probe(server, "/readyz")[1] for _ in range(100)]
    with stalled(server, path, READERS, address):
        process, kernel = server_memory(server) - before, socket_memory(server)
        results = [probe(server, "/readyz") for _ in range(100)]
    row(
        f"{READERS} stalled readers of 20 MB",
        f"{process / MIB:.0f} MiB in processes, {kernel / MIB:.0f} MiB in sockets",
        f"{(process + kernel) / READERS / KIB:.0f} KiB each",
    )
    row(
        f"/readyz beside {READERS} stalled readers",
        f"{sum(good for good, _ in results)} of 100 answered",
        f"p99 {1e3 * percentile([seconds for _, seconds in results]):.1f} ms"
        f" (alone {1e3 * percentile(quiet):.1f} ms)",
    )


def measure_probes(server: RunningServer, path: str, _token: str) -> None:
    """Print how many probes are answered beside stalled readers of the same address."""
    for title, count, source in (
        ("256 stalled readers of the same address", 256, lambda _: "127.0.0.9"),
        ("600 stalled readers of the same address", 600, lambda _: "127.0.0.9"),
    ):
        with stalled(server, path, count, source):
            good = sum(
                probe(server, ("/healthz", "/readyz")[number % 2], "127.0.0.9")[0] for number in range(PROBES)
            )
        row(f"probes beside {title}", f"{good} of {PROBES} answered", "")


def measure_full_table(server: RunningServer, path: str, _token: str) -> None:
    """Print how many probes are answered while stalled readers hold all connections of the server."""
    with stalled(server, path, READERS, address):
        results = [probe(server, ("/healthz", "/readyz")[number % 2]) for number in range(PROBES)]
        others = [probe(server, "/v1/gallery") for _ in range(20)]
    row(
        "probes beside readers that hold all connections",
        f"{sum(good for good, _ in results)} of {PROBES} answered",
        f"{sum(good for good, _ in others)} of 20 other requests",
    )


def measure_uploads(server: RunningServer, _path: str, token: str) -> None:
    """Print the memory of uploads that stop midway, and what stays of it."""
    before = server_memory(server)
    head = (
        f"POST /v1/upload HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 20000000\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n'
    ).encode()
    data = os.urandom(900 * KIB)
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(server, address(number))) for number in range(UPLOADS)]
        for connection in connections:
            connection.sendall(head)
        for start in range(0, len(data), 30 * KIB):
            for connection in connections:
                connection.sendall(data[start : start + 30 * KIB])
        time.sleep(3)
        process, kernel = server_memory(server) - before, socket_memory(server)
    time.sleep(5)
    after = server_memory(server) - before
    time.sleep(TRIM_SECONDS)
    row(
        f"{UPLOADS} uploads that stop after 900 KiB",
        f"{process / MIB:.0f} MiB in processes, {kernel / MIB:.0f} MiB in sockets",
        f"{after / MIB:.0f} MiB stay after 5 s, {(server_memory(server) - before) / MIB:.0f} MiB after 70 s",
    )


def cpu_seconds(server: RunningServer) -> float:
    """Return the CPU time of the server's HTTP processes."""
    texts = (
        Path(f"/proc/{pid}/stat").read_text()
        for pid in descendants(server.process.pid)
        if role(pid) == "server"
    )
    ticks = sum(sum(map(int, text.rpartition(")")[2].split()[11:13])) for text in texts)
    return ticks / os.sysconf("SC_CLK_TCK")


def measure_speed(server: RunningServer, path: str, _token: str) -> None:
    """Print the throughput at full speed, and the CPU time of the server."""

    def download(times: int) -> None:
        buffer = bytearray(MIB)
        for _ in range(times):
            with connect(server) as connection:
                connection.sendall(get(path).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                while connection.recv_into(buffer):
                    pass

    size = (server.data.parent / "original.png").stat().st_size
    download(3)
    for connections, times in ((1, 30), (8, 8)):
        threads = [threading.Thread(target=download, args=(times,)) for _ in range(connections)]
        started, cpu = time.perf_counter(), cpu_seconds(server)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds, cpu = time.perf_counter() - started, cpu_seconds(server) - cpu
        total = connections * times * size / MIB
        row(
            f"20 MB at full speed, {connections} connections",
            f"{total / seconds:.0f} MiB/s",
            f"{1e6 * cpu / total:.0f} µs of CPU a MiB",
        )


def measure_rates(server: RunningServer, path: str, _token: str) -> None:
    """Print the results of curl at several rates."""
    if shutil.which("curl") is None:
        print("curl is missing: no rates")
        return
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{size_download} bytes in %{time_total} s"]
    processes = []
    for rate in RATES:
        part = ["-r", f"0-{SMALL_RATE_BYTES - 1}"] if rate * KIB * 600 < 20e6 else []
        # At most three of the four speeds: a slow reader with a small receive buffer takes small steps.
        arguments = ["--limit-rate", str(int(rate * KIB)), *part, f"{server.origin}{path}"]
        processes.append(
            (rate, part, subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True))
        )
    for rate, part, process in processes:
        output, _ = process.communicate()
        what = f"the first {SMALL_RATE_BYTES // 1000} KB" if part else "20 MB"
        row(f"{what} at {rate} KiB/s", "finished" if process.returncode == 0 else "cut", output)


MEASUREMENTS: dict[str, tuple[tuple[Callable[[RunningServer, str, str], None], dict[str, str]], ...]] = {
    "rates": ((measure_rates, {}),),
    "readers": ((measure_readers, {}),),
    "probes": ((measure_probes, {}), (measure_full_table, {"IMAGEHOST_HTTP_MAX_CONNECTIONS": "500"})),
    "uploads": ((measure_uploads, {}),),
    "speed": ((measure_speed, {}),),
}


def main() -> None:
    """Measure what is asked for, each on a server of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", nargs="*", help=" ".join(MEASUREMENTS))
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (8_192 if hard < 0 else min(8_192, hard), hard))
    print(machine())
    for name in options.what or [name for name in MEASUREMENTS if name != "rates"]:
        for measure, variables in MEASUREMENTS[name]:
            with tempfile.TemporaryDirectory() as directory:
                data = original(Path(directory) / "original.png")
                with running(Path(directory) / "data", variables=UNLIMITED | variables) as server:
                    image_id = upload(server, data, convertToWebP="false")
                    time.sleep(5)
                    measure(server, f"/img/{image_id}", server.token)


if __name__ == "__main__":
    main()
