"""A warm variant over HTTP on one core, beside nginx serving the same bytes from a file.

    python -m bench.warm [PICTURE.jpg] [--seconds 5] [--rounds 3]

Needs wrk and nginx. Without a picture one is made. The variant is one of about 45 KB; nginx serves a file
with the same bytes. Both servers have one process on the same core, and wrk has another, with 32
connections; neither writes an access log. Rounds alternate, and the median counts.

Then the whole machine is ours: the latency of the warm variant with nothing else to do, and while more
clients than our queue takes ask for variants that nobody has made.
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

from bench.peers import Load, MissingError, bare_uvicorn, bind, fetch, machine, nginx, ours, tool, upload, wrk
from bench.render import as_jpeg, made_picture

BYTES = 45_000
CONNECTIONS = 32
CALM_CONNECTIONS = 4
"""For latency: few enough that the server is not saturated by wrk alone."""
CLIENTS = 80
"""Who asks for what nobody has made: more than the queue (64) and the workers together."""
SERVER_CORE, WRK_CORE = 0, 1


def find_variant(origin: str, image: str) -> tuple[str, bytes]:
    """Return the path and the bytes of the variant whose length is nearest to what is wanted."""
    found = []
    for width in range(400, 1_300, 20):
        path = f"/img/{image}.webp?w={width}&q=80"
        status, _, body = fetch(origin + path)
        assert status == 200, body
        found.append((abs(len(body) - BYTES), path, body))
        if len(body) > BYTES:
            break
    _, path, body = min(found)
    return path, body


@contextmanager
def misses(origin: str, image: str) -> Iterator[list[int]]:
    """Keep the queue of renders full until the block ends; yield the statuses of what was answered."""
    numbers, answers, ended = count(), list[int](), threading.Event()

    def ask() -> None:
        while not ended.is_set():
            number = next(numbers)
            query = f"w={400 + number % 500}&h={400 + number // 500}"
            status, headers, _ = fetch(f"{origin}/img/{image}.avif?{query}")
            answers.append(status)
            if status == 503:
                # As the answer says, so that those who are refused are no load of their own.
                ended.wait(float(headers["Retry-After"]))

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def show(name: str, loads: list[Load], beside: list[Load] | None = None) -> None:
    """Print one line: the median, its spread, and the ratio."""
    middle = Load.median(loads)
    spread = f"{min(load.rate for load in loads):,.0f}–{max(load.rate for load in loads):,.0f}"
    ratio = f", {middle.rate / Load.median(beside).rate:.0%} of nginx" if beside else ""
    if middle.cost:
        ratio += f"; {middle.cost:.0f} µs of processor each"
        ratio += f" ({Load.median(beside).cost / middle.cost:.0%} of nginx by that)" if beside else ""
    faults = f", {middle.faults} FAULTS" if middle.faults else ""
    print(
        f"  {name:12} {middle.rate:9,.0f} /s ({spread}), p99 {middle.p99:.2f} ms{ratio}{faults}", flush=True
    )


def throughput(folder: Path, picture: bytes, seconds: int, rounds: int) -> None:
    """Print how many a second, on one core, beside nginx."""
    with ours(folder, IMAGEHOST_RENDERING_PROCESSES="1") as server:
        image = upload(server, picture)
        path, body = find_variant(server.origin, image)
        root = folder / "files"
        root.mkdir()
        (root / "variant.webp").write_bytes(body)
        bind(server.process.pid, SERVER_CORE)
        print(f"\none core each, {CONNECTIONS} connections, {len(body):,} bytes ({path.partition('.')[2]})")
        file = root / "variant.webp"
        with nginx(folder, root, SERVER_CORE) as static, bare_uvicorn(folder, file, SERVER_CORE) as bare:
            theirs, mine = f"{static.origin}/{file.name}", server.origin + path
            tags = {url: f"If-None-Match: {fetch(url)[1]['ETag']}" for url in (theirs, mine)}
            asks: dict[str, tuple[str, int, tuple[str, ...]]] = {
                "nginx": (theirs, static.pid, ()),
                "bare uvicorn": (bare.origin, bare.pid, ()),
                "ours": (mine, server.process.pid, ()),
                "nginx 304": (theirs, static.pid, (tags[theirs],)),
                "ours 304": (mine, server.process.pid, (tags[mine],)),
            }
            loads: dict[str, list[Load]] = {name: [] for name in asks}
            for _ in range(rounds):
                for name, (url, pid, headers) in asks.items():
                    loads[name].append(wrk(url, seconds, CONNECTIONS, *headers, core=WRK_CORE, pid=pid))
    for name in asks:
        kind = " 304" if name.endswith("304") else ""
        show(name, loads[name], None if name.startswith("nginx") else loads[f"nginx{kind}"])


def latency(folder: Path, picture: bytes, seconds: int, rounds: int) -> None:
    """Print the latency of a warm variant, idle and while the queue of renders is full."""
    with ours(folder) as server:
        image = upload(server, picture)
        path, body = find_variant(server.origin, image)
        url = server.origin + path
        print(f"\nall {os.cpu_count()} cores, our settings, {len(body):,} bytes")
        for connections in (CALM_CONNECTIONS, CONNECTIONS):
            idle = [wrk(url, seconds, connections) for _ in range(rounds)]
            with misses(server.origin, image) as answers:
                busy = [wrk(url, seconds, connections) for _ in range(rounds)]
            made, refused = answers.count(200), answers.count(503)
            print(f"  {connections} connections; meanwhile {made} renders, {refused} refused with 503")
            show("idle", idle)
            show("queue full", busy)
            ratio = Load.median(busy).p99 / Load.median(idle).p99
            print(f"  p99 with a full queue: {ratio:.1f} × its idle value")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("picture", nargs="?", type=Path, help="a large JPEG")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    picture = options.picture.read_bytes() if options.picture else as_jpeg(made_picture())
    print(machine())
    try:
        for name in ("wrk", "nginx", "taskset"):
            tool(name)
        for measure in (throughput, latency):
            with tempfile.TemporaryDirectory() as name:
                measure(Path(name), picture, options.seconds, options.rounds)
    except MissingError as missing:
        raise SystemExit(str(missing)) from None


if __name__ == "__main__":
    main()
