"""Whether the server or its workers grow, over ten thousand mixed renders.

    python -m bench.memory [--renders 10000]

What is remembered on purpose is bounded, so it is filled first: variants in memory (set to 16 MiB here, to
be full soon) and 10,000 addresses, by asking for one variant under that many names. Then four clients ask
for variants of random sizes, fits, formats and qualities of pictures of several kinds, each once; a tenth
of the requests are wrong, another tenth repeat what was asked before, with its entity tag. What counts is
how much larger the server's process is at the end than after the first tenth, and the most that any worker
ever held, beside the bound that they have.
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

from bench.peers import descendants, fetch, machine, ours, upload
from bench.render import as_jpeg, made_picture
from PIL import Image

from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image
from imagehost_core.workers.executor import MAX_WORKER_BYTES

MIB = 2**20
CLIENTS = 4
NAMES = 11_000
"""More addresses than are remembered."""
STEPS = 10


def pictures() -> Iterator[tuple[str, bytes]]:
    """Yield pictures of several kinds: large, with transparency, animated, small."""
    photo = made_picture()
    yield "photo", as_jpeg(photo)
    glass = photo.resize((1_200, 900)).convert("RGBA")
    glass.putalpha(Image.linear_gradient("L").resize(glass.size))
    yield "glass", saved("PNG", glass)
    turns = [photo.resize((240, 180)).rotate(30 * turn) for turn in range(6)]
    yield "animation", saved("GIF", *turns)
    yield "small", make_image(320, 240)


def saved(kind: str, *frames: Image.Image) -> bytes:
    """Return a picture, moving where there are several frames."""
    buffer = BytesIO()
    more = {"save_all": True, "append_images": frames[1:], "duration": 80} if len(frames) > 1 else {}
    frames[0].save(buffer, kind, **more)
    return buffer.getvalue()


def held(pid: int, field: str = "VmRSS") -> int:
    """Return a figure of /proc/<pid>/status, in bytes; 0 where the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), 0)


def processes(pid: int) -> tuple[list[int], list[int]]:
    """Return the processes that answer requests, and those that work on pixels."""
    serving, workers = list[int](), list[int]()
    for process in descendants(pid):
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        if b"multiprocessing.resource_tracker" not in command:
            (serving if b"multiprocessing.spawn" in command else workers).append(process)
    assert serving
    return serving, workers


def ask(origin: str, images: list[str], random: Random, tags: dict[str, str]) -> int:
    """Make one request of the mixture; return its status."""
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
    """Ask, and print what the processes hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--renders", type=int, default=10_000)
    options = parser.parse_args()
    print(machine())
    memory = str(16 * MIB)
    with (
        tempfile.TemporaryDirectory() as name,
        ours(Path(name), IMAGEHOST_DELIVERY_MEMORY_CACHE_BYTES=memory) as server,
    ):
        images = [upload(server, data, convertToWebP="false") for _, data in pictures()]
        for number in range(NAMES):
            assert fetch(f"{server.origin}/img/{images[-1]}.webp?w=64&n={number}")[0] == 200
        measure(server.origin, server.process.pid, images, options.renders)


def measure(origin: str, pid: int, images: list[str], renders: int) -> None:
    """Ask for so many renders; print memory after each tenth of them."""
    statuses: dict[int, int] = {}
    tags: dict[str, str] = {}
    lock, left, most = threading.Lock(), [renders], [0]

    def client(seed: int) -> None:
        random = Random(seed)
        while True:
            with lock:
                if not left[0]:
                    return
                left[0] -= 1
            status = ask(origin, images, random, tags)
            with lock:
                statuses[status] = statuses.get(status, 0) + 1

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    server_held, done = [], 0
    while any(thread.is_alive() for thread in threads):
        # The pool replaces workers: look often enough to see each near its end.
        serving, workers = processes(pid)
        most[0] = max(most[0], *(held(worker, "VmHWM") for worker in workers), 0)
        if (renders - left[0]) * STEPS >= (done + 1) * renders:
            done += 1
            server_held.append(sum(map(held, serving)))
            print(f"  after {renders * done // STEPS:6,}: server {server_held[-1] / MIB:.1f} MiB", flush=True)
        time.sleep(0.1)
    seconds = time.monotonic() - began
    answers = ", ".join(f"{count:,} × {status}" for status, count in sorted(statuses.items()))
    print(f"{renders:,} requests in {seconds:.0f} s: {answers}")
    growth = (server_held[-1] - server_held[0]) / MIB
    print(f"the server's process: {growth:+.1f} MiB from the first tenth to the last")
    print(f"the most that a worker held: {most[0] / MIB:.0f} MiB")
    replaced, limit = MAX_WORKER_BYTES // MIB, RenderingSettings().memory_limit_bytes // MIB
    print(
        f"a worker that held more than {replaced:,} MiB is replaced; its address space ends at {limit:,} MiB"
    )


if __name__ == "__main__":
    main()
