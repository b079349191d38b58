"""Measure a cached variant over HTTP on one core, and nginx with the same bytes from a file.

    python -m bench.warm [IMAGE.jpg] [--seconds 5] [--rounds 3]

Needs wrk, nginx and taskset. Without an argument, an image is generated. The variant has about 45 KB; nginx
serves a file with the same bytes. Both servers have one process on the same core, and wrk has another core,
with 32 connections; neither writes an access log. A second server has no cache in memory, so that the file is
read from the page cache; the data are in the folder of temporary files, which should not be a tmpfs. A
protocol that sends the same response whatever it receives is the least that a server in Python costs. Rounds
alternate, and the median is printed; of CPU times the lowest. HEAD has CPU times only.

Then, with all cores: the latency of the cached variant on an idle server, and while more clients than the
rendering queue admits request uncached variants.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench.peers import (
    Load,
    MissingToolError,
    bare_protocol,
    bare_uvicorn,
    fetch,
    head_cost,
    imagehost,
    machine,
    nginx,
    pin_process,
    tool,
    upload,
    wrk,
)
from bench.render import as_jpeg, sample_image

TARGET_BYTES = 45_000
CONNECTIONS = 32
LATENCY_CONNECTIONS = 4
"""Few enough that wrk alone does not saturate the server."""
CLIENTS = 80
"""Clients that request uncached variants: more than the rendering queue (64) and the workers together."""
MEMORY_BYTES = 1_000
"""A cache in memory that has no variant: each response comes from the page cache."""
SERVER_CORE, WRK_CORE = 0, 1


def find_variant(origin: str, image: str) -> tuple[str, bytes]:
    """Return the path and the bytes of the variant whose size is nearest to `TARGET_BYTES`."""
    candidates = []
    for width in range(400, 1_300, 20):
        path = f"/img/{image}.webp?w={width}&q=80"
        status, _, body = fetch(origin + path)
        assert status == 200, body
        candidates.append((abs(len(body) - TARGET_BYTES), path, body))
        if len(body) > TARGET_BYTES:
            break
    _, path, body = min(candidates)
    return path, body


@contextmanager
def rendering_load(origin: str, image: str) -> Iterator[list[int]]:
    """Keep the rendering queue full until the block ends; yield the statuses of the responses."""
    numbers, statuses, stopped = count(), list[int](), threading.Event()

    def client() -> None:
        while not stopped.is_set():
            number = next(numbers)
            query = f"w={400 + number % 500}&h={400 + number // 500}"
            status, headers, _ = fetch(f"{origin}/img/{image}.avif?{query}")
            statuses.append(status)
            if status == 503:
                # Refused clients wait as the response says, so that they are no load themselves.
                stopped.wait(float(headers["Retry-After"]))

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def report(name: str, loads: list[Load], reference: list[Load] | None = None) -> None:
    """Print one line: the median, its spread, and the ratio to the reference."""
    median = Load.median(loads)
    spread = f"{min(load.rate for load in loads):,.0f}–{max(load.rate for load in loads):,.0f}"
    ratio = f", {median.rate / Load.median(reference).rate:.0%} of nginx" if reference else ""
    if median.cost:
        ratio += f"; {median.cost:.0f} µs of CPU time per response"
        ratio += (
            f" ({Load.median(reference).cost / median.cost:.0%} of nginx by CPU time)" if reference else ""
        )
    errors = f", {median.errors} ERRORS" if median.errors else ""
    print(
        f"  {name:30} {median.rate:9,.0f} /s ({spread}), p99 {median.p99:.2f} ms{ratio}{errors}", flush=True
    )


def throughput(directory: Path, image_data: bytes, seconds: int, rounds: int) -> None:
    """Print the responses per second on one core, of imagehost and nginx."""
    (directory / "disk").mkdir()
    with (
        imagehost(directory, IMAGEHOST_RENDERING_PROCESSES="1") as server,
        imagehost(
            directory / "disk",
            IMAGEHOST_RENDERING_PROCESSES="1",
            IMAGEHOST_DELIVERY_MEMORY_CACHE_BYTES=str(MEMORY_BYTES),
        ) as disk,
    ):
        image = upload(server, image_data)
        path, body = find_variant(server.origin, image)
        disk_path = path.replace(image, upload(disk, image_data))
        assert fetch(disk.origin + disk_path)[2] == body
        root = directory / "files"
        root.mkdir()
        (root / "variant.webp").write_bytes(body)
        for each in (server, disk):
            pin_process(each.process.pid, SERVER_CORE)
        print(f"\none core each, {CONNECTIONS} connections, {len(body):,} bytes ({path.partition('.')[2]})")
        file = root / "variant.webp"
        with (
            nginx(directory, root, SERVER_CORE) as static,
            bare_uvicorn(directory, file, SERVER_CORE) as bare,
            bare_protocol(directory, file, SERVER_CORE) as protocol,
            bare_protocol(directory, None, SERVER_CORE) as head_protocol,
        ):
            nginx_url, url = f"{static.origin}/{file.name}", server.origin + path
            tags = {url: f"If-None-Match: {fetch(url)[1]['ETag']}" for url in (nginx_url, url)}
            requests: dict[str, tuple[str, int, tuple[str, ...]]] = {
                "nginx": (nginx_url, static.pid, ()),
                "bare protocol": (protocol.origin, protocol.pid, ()),
                "bare uvicorn": (bare.origin, bare.pid, ()),
                "imagehost": (url, server.process.pid, ()),
                "imagehost from the page cache": (disk.origin + disk_path, disk.process.pid, ()),
                "nginx 304": (nginx_url, static.pid, (tags[nginx_url],)),
                "bare protocol 304": (head_protocol.origin, head_protocol.pid, ()),
                "imagehost 304": (url, server.process.pid, (tags[url],)),
            }
            heads = {
                "nginx": (nginx_url, static.pid),
                "bare protocol": (head_protocol.origin, head_protocol.pid),
                "imagehost": (url, server.process.pid),
                "imagehost from the page cache": (disk.origin + disk_path, disk.process.pid),
            }
            costs: dict[str, list[float]] = {name: [] for name in heads}
            loads: dict[str, list[Load]] = {name: [] for name in requests}
            for _ in range(rounds):
                for name, (target, pid, headers) in requests.items():
                    loads[name].append(wrk(target, seconds, CONNECTIONS, *headers, core=WRK_CORE, pid=pid))
                for name, (target, pid) in heads.items():
                    costs[name].append(head_cost(target, seconds, CONNECTIONS, WRK_CORE, pid))
    for name in requests:
        kind = " 304" if name.endswith("304") else ""
        report(name, loads[name], None if name.startswith("nginx") else loads[f"nginx{kind}"])
    for name, values in costs.items():
        ratio = min(costs["nginx"]) / min(values)
        print(f"  {f'{name} HEAD':35} {min(values):.0f} µs of CPU time per response ({ratio:.0%} of nginx)")


def latency(directory: Path, image_data: bytes, seconds: int, rounds: int) -> None:
    """Print the latency of a cached variant, idle and while the rendering queue is full."""
    with imagehost(directory) as server:
        image = upload(server, image_data)
        path, body = find_variant(server.origin, image)
        url = server.origin + path
        print(f"\nall {os.cpu_count()} cores, default settings, {len(body):,} bytes")
        for connections in (LATENCY_CONNECTIONS, CONNECTIONS):
            idle = [wrk(url, seconds, connections) for _ in range(rounds)]
            with rendering_load(server.origin, image) as statuses:
                busy = [wrk(url, seconds, connections) for _ in range(rounds)]
            rendered, refused = statuses.count(200), statuses.count(503)
            print(f"  {connections} connections; meanwhile {rendered} renders, {refused} refused with 503")
            report("idle", idle)
            report("queue full", busy)
            ratio = Load.median(busy).p99 / Load.median(idle).p99
            print(f"  p99 with a full queue: {ratio:.1f} × its idle value")


def main() -> None:
    """Measure throughput and latency."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("image", nargs="?", type=Path, help="a large JPEG")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    image_data = options.image.read_bytes() if options.image else as_jpeg(sample_image())
    print(machine())
    try:
        for name in ("wrk", "nginx", "taskset"):
            tool(name)
        for measure in (throughput, latency):
            with tempfile.TemporaryDirectory() as name:
                measure(Path(name), image_data, options.seconds, options.rounds)
    except MissingToolError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
