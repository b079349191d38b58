"""Measure whether the server or its workers grow over ten thousand mixed renders.

    python -m bench.memory [--renders 10000]

Bounded caches are filled first: the memory cache of variants (16 MiB here), and the cache of resolved URLs,
by requests for one variant under many URLs. Then four clients request variants of random sizes, fits, formats
and qualities of several kinds of images; a tenth of the requests are invalid, and another tenth are
conditional requests for earlier variants. The output has the growth of the server's process from the first
tenth of the requests to the last, and the peak memory of any worker beside its limit.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from random import Random

from bench.idle import role
from bench.peers import descendants, fetch, imagehost, machine, upload
from bench.render import as_jpeg, sample_image
from PIL import Image

from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image
from imagehost_core.workers.executor import MAX_WORKER_BYTES

MIB = 2**20
CLIENTS = 4
URLS = 11_000
"""More URLs than the cache of resolved URLs holds."""
STEPS = 10


def sample_uploads() -> Iterator[tuple[str, bytes]]:
    """Yield images of several kinds: large, with alpha, animated, small."""
    photo = sample_image()
    yield "photo", as_jpeg(photo)
    translucent = photo.resize((1_200, 900)).convert("RGBA")
    translucent.putalpha(Image.linear_gradient("L").resize(translucent.size))
    yield "translucent", encode("PNG", translucent)
    frames = [photo.resize((240, 180)).rotate(30 * step) for step in range(6)]
    yield "animation", encode("GIF", *frames)
    yield "small", make_image(320, 240)


def encode(fmt: str, *frames: Image.Image) -> bytes:
    """Return an image file, animated if there are several frames."""
    buffer = BytesIO()
    options = {"save_all": True, "append_images": frames[1:], "duration": 80} if len(frames) > 1 else {}
    frames[0].save(buffer, fmt, **options)
    return buffer.getvalue()


def memory_bytes(pid: int, field: str = "VmRSS") -> int:
    """Return a field of /proc/<pid>/status, in bytes; 0 if the process has exited."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), 0)


def processes(pid: int) -> tuple[list[int], list[int]]:
    """Return the HTTP processes and the image worker processes."""
    servers, workers = list[int](), list[int]()
    for process in descendants(pid):
        name = role(process)
        if name in ("server", "image worker"):
            (servers if name == "server" else workers).append(process)
    assert servers
    return servers, workers


def send_request(origin: str, images: list[str], random: Random, tags: dict[str, str]) -> int:
    """Send one random request; return the status of the response."""
    if tags and random.random() < 0.1:
        path = random.choice(sorted(tags))
        return fetch(origin + path, **{"If-None-Match": tags[path]})[0]
    width = "0300" if random.random() < 0.1 else str(random.randint(16, 800))
    fit = random.choice(("cover", "contain", "fill", "inside", "outside"))
    fmt = random.choice(("jpg", "webp", "avif", "png", "gif"))
    query = f"w={width}&h={random.randint(16, 600)}&fit={fit}&q={random.randint(30, 95)}"
    path = f"/img/{random.choice(images)}.{fmt}?{query}"
    status, headers, _ = fetch(origin + path)
    if status == 200 and random.random() < 0.05:
        tags[path] = headers["ETag"]
    return status


def main() -> None:
    """Send requests, and print the memory of the processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--renders", type=int, default=10_000)
    options = parser.parse_args()
    print(machine())
    cache_bytes = str(16 * MIB)
    with (
        tempfile.TemporaryDirectory() as name,
        imagehost(Path(name), IMAGEHOST_DELIVERY_MEMORY_CACHE_BYTES=cache_bytes) as server,
    ):
        images = [upload(server, data, convertToWebP="false") for _, data in sample_uploads()]
        for number in range(URLS):
            assert fetch(f"{server.origin}/img/{images[-1]}.webp?w=64&n={number}")[0] == 200
        measure(server.origin, server.process.pid, images, options.renders)


def measure(origin: str, pid: int, images: list[str], renders: int) -> None:
    """Send a number of requests; print the memory after each tenth of them."""
    statuses: dict[int, int] = {}
    tags: dict[str, str] = {}
    lock, remaining, peak = threading.Lock(), [renders], [0]

    def client(seed: int) -> None:
        random = Random(seed)
        while True:
            with lock:
                if not remaining[0]:
                    return
                remaining[0] -= 1
            status = send_request(origin, images, random, tags)
            with lock:
                statuses[status] = statuses.get(status, 0) + 1

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    server_memory, steps = [], 0
    while any(thread.is_alive() for thread in threads):
        # The pool replaces workers, so the peak of each is read often.
        servers, workers = processes(pid)
        peak[0] = max(peak[0], *(memory_bytes(worker, "VmHWM") for worker in workers), 0)
        if (renders - remaining[0]) * STEPS >= (steps + 1) * renders:
            steps += 1
            server_memory.append(sum(map(memory_bytes, servers)))
            print(
                f"  after {renders * steps // STEPS:6,}: server {server_memory[-1] / MIB:.1f} MiB", flush=True
            )
        time.sleep(0.1)
    seconds = time.monotonic() - start
    responses = ", ".join(f"{count:,} × {status}" for status, count in sorted(statuses.items()))
    print(f"{renders:,} requests in {seconds:.0f} s: {responses}")
    growth = (server_memory[-1] - server_memory[0]) / MIB
    print(f"growth of the server from the first tenth to the last: {growth:+.1f} MiB")
    print(f"peak memory of a worker: {peak[0] / MIB:.0f} MiB")
    retired, limit = MAX_WORKER_BYTES // MIB, RenderingSettings().memory_limit_bytes // MIB
    print(f"workers are replaced above {retired:,} MiB; the limit of their address space is {limit:,} MiB")


if __name__ == "__main__":
    main()
