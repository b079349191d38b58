"""Fill the caches of all processes of a server, so that its memory can be measured after that.

A process keeps up to 10,000 image records, as many resolved URLs with up to four beginnings of responses
each, and 2,000 records of the API. At the rate of ordinary requests it takes hours until it has so many, and
memory that grows until then is no leak.
"""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from http.client import HTTPConnection
from io import BytesIO
from itertools import count
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

from attrs import frozen
from PIL import Image
from tests.faults.conftest import client_of
from tests.faults.process_usage import pids_of, read_usage
from tests.waiting import PATIENCE

from imagehost_core.services.delivery import IMAGE_CACHE_SIZE, RESOLUTION_CACHE_SIZE
from imagehost_core.services.images import RECORDS_IN_MEMORY
from imagehost_core.testing import make_image
from imagehost_server.routes.images import RECORDS_IN_MEMORY as PUBLIC_RECORDS_IN_MEMORY
from imagehost_server.testing import RunningServer

IMAGES = 110 * max(IMAGE_CACHE_SIZE, RESOLUTION_CACHE_SIZE) // 100
"""One URL of each is requested."""
RECORDS = 110 * max(RECORDS_IN_MEMORY, PUBLIC_RECORDS_IN_MEMORY) // 100
PAGE_IMAGES = 100
NOISE_SIDE, VARIANTS_PER_NOISE = 150, 100
"""Pixels of images whose variants have 6 KB, and the number of variants of each. Those of ordinary traffic
would replace the small ones in memory for an hour: malloc has theirs, and Python's allocator
the small ones."""
THREADS = 4
MAX_FILES, MAX_BULK = 20, 100
CONNECT_SECONDS = 60.0


def fill_caches(server: RunningServer, token: str, memory_cache_bytes: int) -> None:
    """Upload images, request each of them and records of some from each process, and delete the images.

    Args:
        server: The server.
        token: A token of an account without webhooks, whose deliveries would go on for minutes.
        memory_cache_bytes: The limit of the variant cache in memory.
    """

    authorization = {"Authorization": f"Bearer {token}"}
    of_thread = threading.local()
    opened = ExitStack()

    def connections() -> list[HTTPConnection]:
        if not hasattr(of_thread, "connections"):
            of_thread.connections = connect_to_each_process(server)
            for connection in of_thread.connections:
                opened.callback(connection.close)
        return list(of_thread.connections)

    def upload(start: int) -> list[str]:
        numbers = range(start, min(start + MAX_FILES, IMAGES))
        contents = ((f"{number}.png", make_image(24, 16, seed=number)) for number in numbers)
        files = [("files[]", content) for content in contents]
        data = {"description": f"caches {start}", "convertToWebP": "false"}
        response = client.post("/v1/upload", files=files, data=data).raise_for_status()
        return [record["id"] for record in response.json()["data"]["images"]]

    def request_image(image_id: str) -> None:
        for connection in connections():
            get = partial(_get, connection, f"/img/{image_id}?w=10&h=10&fit=cover&fm=webp")
            # From the second request on, the record is in memory and the URL is kept. Requests with a token
            # do not take the fast path, which has beginnings of responses of its own.
            get({})
            tag = get({}).entity_tag
            get(authorization)
            get({"If-None-Match": tag}, 304)
            get(authorization | {"If-None-Match": tag}, 304)

    def request_variants(seed: int) -> int:
        files = {"image": ("noise.png", make_noise(seed))}
        response = client.post("/v1/upload", files=files, data={"convertToWebP": "false"}).raise_for_status()
        image_ids.append(response.json()["data"]["id"])
        received = 0
        for width in range(NOISE_SIDE - VARIANTS_PER_NOISE, NOISE_SIDE):
            for connection in connections():
                path = f"/img/{image_ids[-1]}?w={width}&h=100&fit=fill&fm=webp"
                received += _get(connection, path, {}).size
        return received // len(connections())

    def request_api(path: str) -> None:
        for connection in connections():
            _get(connection, f"/v1/{path}", authorization)

    with opened, client_of(server, token) as client, ThreadPoolExecutor(THREADS) as threads:
        uploads = threads.map(upload, range(0, IMAGES, MAX_FILES))
        image_ids = [image_id for ids in uploads for image_id in ids]
        assert len(image_ids) == IMAGES
        list(threads.map(request_image, image_ids))
        list(threads.map(request_api, (f"images/{image_id}" for image_id in image_ids[-RECORDS:])))
        pages = range(1, 1 + RECORDS // PAGE_IMAGES)
        list(threads.map(request_api, (f"gallery?per_page={PAGE_IMAGES}&page={page}" for page in pages)))
        received = 0
        for seed in count():
            received += request_variants(seed)
            if received > memory_cache_bytes:
                break
        for start in range(0, len(image_ids), MAX_BULK):
            body = {"image_ids": image_ids[start : start + MAX_BULK]}
            client.post("/v1/images/delete", json=body).raise_for_status()


def make_noise(seed: int) -> bytes:
    """Return a PNG of random pixels."""
    pixels = random.Random(seed).randbytes(3 * NOISE_SIDE**2)
    file = BytesIO()
    Image.frombytes("RGB", (NOISE_SIDE, NOISE_SIDE), pixels).save(file, "PNG")
    return file.getvalue()


def connect_to_each_process(server: RunningServer) -> list[HTTPConnection]:
    """Return a connection to each server process; the kernel chooses the process of a new one."""
    pids = set(pids_of(read_usage(server.process.pid), "server process"))
    connections = dict[int, HTTPConnection]()
    deadline = monotonic() + CONNECT_SECONDS
    while connections.keys() != pids:
        assert monotonic() < deadline, f"expected connections to {pids} but received {connections.keys()}"
        connection = HTTPConnection(urlsplit(server.origin).netloc, timeout=PATIENCE)
        # It is accepted when there is a response.
        _get(connection, "/healthz", {})
        pid = _process_of(connection, pids)
        if pid is None or connections.setdefault(pid, connection) is not connection:
            connection.close()
    return list(connections.values())


def _process_of(connection: HTTPConnection, pids: set[int]) -> int | None:
    """Return the process that has the other end of a connection of this machine: proc_pid_net(5)."""
    own, other = (name[1] for name in (connection.sock.getsockname(), connection.sock.getpeername()))
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    fields = (line.split() for line in lines)
    ends = (f":{other:04X}", f":{own:04X}")
    sockets = [f"socket:[{each[9]}]" for each in fields if (each[1][-5:], each[2][-5:]) == ends]
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                if str(descriptor.readlink()) in sockets:
                    return pid
    return None


@frozen
class _Response:
    entity_tag: str
    size: int


def _get(connection: HTTPConnection, path: str, headers: dict[str, str], status: int = 200) -> _Response:
    """Request a path."""
    connection.request("GET", path, headers=headers)
    with closing(connection.getresponse()) as response:
        body = response.read()
        assert response.status == status, (path, response.status)
        return _Response(response.headers["etag"] or "", len(body))
