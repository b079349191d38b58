"""Measure requests for variants beside more large renderings than the server can do.

    python -m bench.queue [--seconds 8] [--loads 16 64 160 240] [--clients 64] [--connections 32]
                          [--files 200]

Thumbnails: the latency of uncached thumbnails while a number of clients request different large AVIFs of the
same image, each one after the other.

Huge AVIFs: clients that each request an AVIF of 40 million pixels and another quality at the same time. A
response is a 200 within the deadline (20 s), or a 503 at once. Then a rejected request is repeated after its
`Retry-After`, alone, which must be admitted.

Light work beside uploads: small uploads of one account, and small variants, one after the other, without and
beside another account's photographs of 12 megapixels on a number of connections.

Upload attack: one account uploads GIFs of 35 bytes whose screen has 81 million pixels, in requests of 20
files and in requests of one file. Meanwhile another account uploads photographs of 0.7 megapixels.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

from attrs import frozen
from bench.peers import fetch, imagehost, machine, upload
from bench.render import as_jpeg, sample_image

from imagehost_server.testing import RunningServer

WIDTHS = count(2_000)
"""Each rendering has another width, so that none is cached."""
REJECTED_PAUSE = 0.2
"""Seconds that a client waits after a 503."""

ATTACK_GIF = b"GIF89a\x28\x23\x28\x23\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;"
"""A GIF of 35 bytes and 9,000 × 9,000 pixels."""
FILES_PER_REQUEST = 20
"""The most files that a request can have."""
ATTACK_START_SECONDS = 2.0
"""Seconds after which all requests of the attack have arrived."""
OTHER_UPLOADS = 6
"""Uploads of the other account, one after the other, without and beside the attack."""


LIGHT_REQUESTS = 40
"""Small uploads, and small variants, without and beside the photographs."""
PHOTOGRAPHS_START_SECONDS = 5.0
"""Seconds after which all connections have sent a photograph."""


@frozen
class Response:
    """A response.

    Attributes:
        status: The HTTP status.
        seconds: The time until the whole body was received.
        retry_after: The header's value, in seconds; 0 without it.
    """

    status: int
    seconds: float
    retry_after: int

    @classmethod
    def of(cls, url: str) -> Response:
        """Return the response to a GET request."""
        begin = time.perf_counter()
        status, headers, _ = fetch(url)
        return cls(status, time.perf_counter() - begin, int(headers.get("Retry-After", "0")))


def quantiles(seconds: Sequence[float]) -> str:
    """Return the median, the 99th percentile and the maximum as text, in milliseconds."""
    if len(seconds) < 2:
        return " ".join(f"{value * 1e3:.0f} ms" for value in seconds) or "none"
    p99 = statistics.quantiles(seconds, n=100, method="inclusive")[98]
    return f"p50 {statistics.median(seconds) * 1e3:.0f}, p99 {p99 * 1e3:.0f}, max {max(seconds) * 1e3:.0f} ms"


def thumbnails(origin: str, image: str, clients: int, seconds: float) -> None:
    """Print the latency of thumbnails beside a number of clients that request large AVIFs."""
    heavy, ended, lock = Counter[int](), threading.Event(), threading.Lock()

    def request_large() -> None:
        while not ended.is_set():
            with lock:
                width = next(WIDTHS)
            response = Response.of(f"{origin}/img/{image}.avif?w={width % 1_500 + 2_400}&h={width}&fit=fill")
            heavy[response.status] += 1
            if response.status != 200:
                ended.wait(REJECTED_PAUSE)

    threads = [threading.Thread(target=request_large, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(2.0 if clients else 0.0)
    responses, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        with lock:
            width = next(WIDTHS)
        responses.append(Response.of(f"{origin}/img/{image}.webp?w={width % 200 + 100}&h={width % 211 + 90}"))
    ended.set()
    for thread in threads:
        thread.join()
    statuses = dict(Counter(response.status for response in responses))
    times = quantiles([response.seconds for response in responses])
    print(f"{clients:4} clients  thumbnails {times}  {statuses}  large AVIFs {dict(heavy)}", flush=True)


def huge_avifs(origin: str, image: str, clients: int) -> None:
    """Print the responses to simultaneous requests for huge AVIFs, and whether `Retry-After` is true."""
    responses: dict[str, Response] = {}
    urls = [f"{origin}/img/{image}.avif?w=7990&q={20 + turn % 80}" for turn in range(clients)]
    repeated = threading.Event()

    def request(url: str) -> None:
        responses[url] = first = Response.of(url)
        if first.status == 503 and not repeated.is_set():
            repeated.set()
            time.sleep(first.retry_after)
            again = Response.of(url)
            print(
                f"  repeated after Retry-After {first.retry_after}: {again.status} in {again.seconds:.1f} s"
            )

    threads = [threading.Thread(target=request, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for status in sorted({response.status for response in responses.values()}):
        chosen = [response for response in responses.values() if response.status == status]
        times = sorted(response.seconds for response in chosen)
        waits = sorted(response.retry_after for response in chosen)
        print(
            f"{clients:4} clients  {len(chosen):3} × {status}  {quantiles(times)}  "
            f"Retry-After {waits[0]} to {waits[-1]}",
            flush=True,
        )


def create_token(server: RunningServer, user: str) -> str:
    """Create an account; return a token of it."""
    program = [sys.executable, "-m", "imagehost_server"]
    data = ["--data", str(server.data)]
    subprocess.run([*program, "users", "create", user, *data], check=True, capture_output=True)
    keys = [*program, "keys", "create", "--user", user, *data]
    return subprocess.run(keys, check=True, capture_output=True, text=True).stdout.strip()


def upload_files(
    server: RunningServer, token: str, files: Sequence[bytes]
) -> tuple[int, Counter[str], float]:
    """Upload files in one request; return the status, the outcome of each file, and the time in seconds."""
    boundary, names = uuid4().hex, 'name="files[]"; filename="image"'
    head = f"--{boundary}\r\nContent-Disposition: form-data; {names}\r\n\r\n".encode()
    body = b"".join(head + data + b"\r\n" for data in files) + f"--{boundary}--\r\n".encode()
    content_type = f"multipart/form-data; boundary={boundary}"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
    begin = time.perf_counter()
    try:
        with urlopen(Request(f"{server.base_url}/upload", body, headers), timeout=600) as response:
            data = json.load(response)["data"]
            status = response.status
            outcomes = Counter(error["code"] for error in data["errors"]) + Counter(
                stored=len(data["images"])
            )
    except HTTPError as error:
        status, outcomes = error.code, Counter({f"{error.code}": len(files)})
    return status, outcomes, time.perf_counter() - begin


def upload_attack(server: RunningServer, files: int, files_per_request: int) -> None:
    """Print the latency of an account's uploads, without and beside an attack by another account."""
    attacker, other = (create_token(server, f"{name}{files_per_request}") for name in ("attacker", "other"))
    photograph = as_jpeg(sample_image().resize((1_024, 683)))

    def upload_others() -> str:
        responses = [upload_files(server, other, [photograph]) for _ in range(OTHER_UPLOADS)]
        statuses = dict(Counter(status for status, _, _ in responses))
        return f"{quantiles([seconds for _, _, seconds in responses])} {statuses}"

    upload_others()
    print(f"uploads beside nothing: {upload_others()}", flush=True)
    _, _, seconds = upload_files(server, attacker, [ATTACK_GIF])
    print(f"  a file of the attack alone: {seconds:.2f} s")
    outcomes = Counter[str]()

    def attack() -> None:
        outcomes.update(upload_files(server, attacker, [ATTACK_GIF] * files_per_request)[1])

    threads = [threading.Thread(target=attack) for _ in range(files // files_per_request)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(ATTACK_START_SECONDS)
    print(
        f"  beside {len(threads)} requests of {files_per_request} such files: {upload_others()}", flush=True
    )
    for thread in threads:
        thread.join()
    print(f"  the attack took {time.perf_counter() - begin:.0f} s: {dict(outcomes)}", flush=True)


def light_beside_photographs(server: RunningServer, connections: int) -> None:
    """Print the latency of light work, without and beside another account's photographs of 12 megapixels."""
    photographer, other = (create_token(server, name) for name in ("photographer", "other"))
    photograph = as_jpeg(sample_image().resize((4_000, 3_000)))
    small = as_jpeg(sample_image().resize((640, 480)))
    image = upload(server, photograph)
    statuses, ended = Counter[int](), threading.Event()

    def light() -> None:
        uploads = [upload_files(server, other, [small]) for _ in range(LIGHT_REQUESTS)]
        print(f"  uploads {quantiles([seconds for _, _, seconds in uploads])}", end="  ")
        print(dict(Counter(status for status, _, _ in uploads)), flush=True)
        widths = [next(WIDTHS) % 1_000 for _ in range(LIGHT_REQUESTS)]
        urls = [
            f"{server.origin}/img/{image}.webp?w={width % 300 + 60}&h={width % 311 + 1}" for width in widths
        ]
        variants = [Response.of(url) for url in urls]
        print(f"  variants {quantiles([response.seconds for response in variants])}", end="  ")
        print(dict(Counter(response.status for response in variants)), flush=True)

    def send_photographs() -> None:
        while not ended.is_set():
            status, _, _ = upload_files(server, photographer, [photograph])
            statuses[status] += 1
            if status != 200:
                ended.wait(REJECTED_PAUSE)

    upload_files(server, other, [small] * 4)
    print("light work beside nothing", flush=True)
    light()
    threads = [threading.Thread(target=send_photographs) for _ in range(connections)]
    for thread in threads:
        thread.start()
    time.sleep(PHOTOGRAPHS_START_SECONDS)
    begin, before = time.perf_counter(), statuses.copy()
    print(f"light work beside {connections} connections with photographs", flush=True)
    light()
    seconds, done = time.perf_counter() - begin, statuses - before
    ended.set()
    for thread in threads:
        thread.join()
    print(f"  photographs {done[200] / seconds:.2f} /s  {dict(statuses)}", flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="duration of each load")
    parser.add_argument("--loads", type=int, nargs="*", default=[0, 16, 64, 160, 240])
    parser.add_argument("--clients", type=int, default=64, help="clients that request huge AVIFs")
    parser.add_argument("--connections", type=int, default=32, help="connections that send photographs")
    parser.add_argument("--files", type=int, default=200, help="files of the upload attack")
    options = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        if options.loads:
            with imagehost(Path(directory, "thumbnails")) as server:
                image = upload(server, as_jpeg(sample_image().resize((4_000, 3_000))))
                for clients in options.loads:
                    thumbnails(server.origin, image, clients, options.seconds)
        if options.clients:
            # The upload is not measured, and takes more than its time limit on a busy machine.
            with imagehost(
                Path(directory, "huge"), IMAGEHOST_RENDERING_INGEST_TIMEOUT_SECONDS="600"
            ) as server:
                image = upload(server, as_jpeg(sample_image().resize((8_000, 5_000))))
                for _ in range(2):
                    huge_avifs(server.origin, image, options.clients)
        if options.connections:
            with imagehost(Path(directory, "light")) as server:
                light_beside_photographs(server, options.connections)
        if options.files:
            with imagehost(Path(directory, "uploads")) as server:
                for files_per_request in (FILES_PER_REQUEST, 1):
                    upload_attack(server, options.files, files_per_request)


if __name__ == "__main__":
    main()
