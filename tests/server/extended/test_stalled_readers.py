"""Clients that request a large response and read none of it, over sockets: the memory of the server."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from random import Random

import httpx2
import pytest
from attrs import frozen
from PIL import Image as PILImage
from tests.faults.process_usage import read_usage
from tests.faults.test_silent_connections import more_files
from tests.server.conftest import NO_LIMITS
from tests.server.test_response_bodies import LARGE, READ_PATHS, concrete
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.settings import RenderingSettings
from imagehost_core.storage.cache.variant_cache import LARGE_VARIANT_BYTES
from imagehost_core.testing import make_image
from imagehost_server.auth.cookies import SESSION_COOKIE
from imagehost_server.http.response_body import WHOLE_BYTES
from imagehost_server.settings import ServerSettings
from imagehost_server.testing import RunningServer, running

READERS = 200
READER_BYTES = 150_000
"""What a reader may occupy: 1,000 of them 150 MB."""
SETTLED_SECONDS = 30.0
VARIANTS = "variants"
"""The kind of variants that the memory cache can hold, another one for each reader."""
LSKY = "/api/v1/images"
KINDS = [path for path in READ_PATHS if path == LSKY or not path.startswith("/api/")] + [VARIANTS]
"""What readers request: all that responds to GET, and one of what is extended for Lsky Pro clients."""
MUST_BE_LARGE = {"/img/{image_id}", "/feed.xml", "/v1/images", LSKY, "/a/{album_id:str}/images.zip", VARIANTS}
VARIABLES = {
    **NO_LIMITS,
    "IMAGEHOST_LIMITS_PAGES_PER_MINUTE": "0",
    "IMAGEHOST_HTTP_MAX_CONNECTIONS_PER_CLIENT": "0",
    "IMAGEHOST_HTTP_MAX_CONCURRENT_REQUESTS_PER_CLIENT": "0",
    # What the caches hold does not depend on the readers.
    "IMAGEHOST_DELIVERY_MEMORY_CACHE_BYTES": "1000000",
}


@frozen
class Host:
    """A server with large lists and a large image."""

    server: RunningServer
    values: dict[str, str]
    cookie: str

    def urls(self, kind: str) -> list[str]:
        """Return what each reader requests."""
        if kind == VARIANTS:
            image = self.values["image_id"]
            return [f"/img/{image}?w={width}&h=240&fit=fill&fm=png" for width in range(350 - READERS, 350)]
        return [concrete(kind, self.values)] * READERS

    def size(self, kind: str) -> int:
        """Return the size of the largest response, which is cached then if it can be."""
        with httpx2.Client(
            base_url=self.server.origin, timeout=PATIENCE, headers={"Cookie": self.cookie}
        ) as client:
            return max(len(client.get(url).content) for url in set(self.urls(kind)))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    noise = BytesIO()
    PILImage.frombytes("RGB", (1_200, 900), Random(0).randbytes(3 * 1_200 * 900)).save(noise, "PNG")
    data = tmp_path_factory.mktemp("stalled") / "data"
    with more_files(READERS + 500), running(data, variables=VARIABLES) as server:
        settings = ServerSettings(base_url=server.base_url, rendering=RenderingSettings(processes=1))
        with ImageHost.open(server.data, settings=settings) as opened:
            album = opened.albums.create("Harbour", owner="admin", description=LARGE)
            for number in range(40):
                image = make_image(2, 2, seed=number)
                opened.upload(image, owner="admin", album_id=album.id, description=LARGE)
            large = opened.upload(noise.getvalue(), owner="admin", album_id=album.id, convert_to_webp=False)
            share = opened.albums.create_share(album, owner="admin")
            session = opened.sessions.create(opened.accounts.get("admin")).token
        values = {
            "image_id": large.id, "album_id": str(album.id), "account_id": "1", "token": str(share.token)
        }  # fmt: skip
        yield Host(server, values, f"{SESSION_COOKIE}={session}")


def memory(server: RunningServer) -> int:
    """Return the bytes of memory of the server's processes that serve requests."""
    return sum(each.memory for each in read_usage(server.process.pid) if each.role == "server process")


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_reads_nothing_occupies_150_kb_whatever_it_has_requested(host: Host, kind: str) -> None:
    size = host.size(kind)
    if size <= WHOLE_BYTES:
        assert kind not in MUST_BE_LARGE
        return
    assert kind != VARIANTS or size < LARGE_VARIANT_BYTES
    before = memory(host.server)
    with ExitStack() as stack:
        for url in host.urls(kind):
            reader = stack.enter_context(socket.socket())
            reader.settimeout(PATIENCE)
            # The least that the system gives.
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            reader.connect(("127.0.0.1", host.server.port))
            reader.sendall(f"GET {url} HTTP/1.1\r\nHost: a\r\nCookie: {host.cookie}\r\n\r\n".encode())
            assert reader.recv(12) == b"HTTP/1.1 200"
        deadline = time.monotonic() + SETTLED_SECONDS
        while (used := memory(host.server) - before) > READERS * READER_BYTES:
            assert time.monotonic() < deadline, f"{used // READERS} bytes for each reader"
            time.sleep(0.1)
