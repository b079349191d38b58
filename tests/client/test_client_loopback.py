"""The client over real sockets, against faulty servers."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import pickle
import random
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.conftest import (
    Behaviour,
    Caller,
    FaultyServer,
    Request,
    drop_during_request,
    drop_during_response,
    drop_immediately,
    drop_without_response,
    http,
    read_request,
    respond_normally,
    respond_with,
    stall,
    without_delays,
)

from imagehost_client import (
    APIConnectionError,
    APITimeoutError,
    AsyncClient,
    Client,
    ImageHostError,
    NotFoundError,
    PayloadTooLargeError,
    ServerError,
    SourceChangedError,
    UnavailableError,
)
from imagehost_client._drivers import TransferRate
from imagehost_client._exchange import BodyError
from imagehost_client.testing import FakeImageHost, make_png

TOKEN = "ihk_0123456789abcdefghijklmnopqrstuvwxyz"
ALBUM = {
    "id": 1,
    "name": "A",
    "description": "",
    "is_public": True,
    "image_count": 0,
    "public_image_count": 0,
    "cover_image_id": None,
    "cover_url": None,
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
}


class UploadStore:
    """The files of a host by idempotency key: a repeated key stores nothing."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def __call__(self, request: Request) -> bytes:
        if request.method == "POST" and request.path == "/v1/upload":
            boundary = request.headers["content-type"].partition("boundary=")[2].encode()
            content = request.body.rpartition(b"\r\n\r\n")[2].removesuffix(b"\r\n--" + boundary + b"--\r\n")
            self.files[request.headers["idempotency-key"]] = content
            return http(200, json.dumps({"success": True, "data": record(content)}).encode())
        return http(200, json.dumps({"success": True, "data": ALBUM}).encode())


def record(content: bytes) -> dict[str, Any]:
    return {
        "id": hashlib.sha256(content).hexdigest()[:16],
        "album_id": None,
        "filename": "image",
        "original_filename": "image",
        "description": "",
        "is_public": True,
        "format": "png",
        "mime_type": "image/png",
        "size": len(content),
        "width": 1,
        "height": 1,
        "is_animated": False,
        "frames": 1,
        "has_alpha": False,
        "sha256": hashlib.sha256(content).hexdigest(),
        "placeholder": "",
        "url": "https://h/img/a.png",
        "thumb_url": "",
        "links": {"url": "", "html": "", "markdown": "", "bbcode": ""},
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    }


def caller(kind: str, url: str, token: str = TOKEN) -> Caller:
    return Caller(
        lambda: Client(url, token),
        (lambda: AsyncClient(url, token)) if kind == "async" else None,
    )


both = pytest.mark.parametrize("kind", ["sync", "async"])

FAULTS: dict[str, Behaviour] = {
    "connection dropped": drop_immediately,
    "response lost": drop_without_response,
    "request truncated": drop_during_request,
    "response truncated": drop_during_response,
    "busy": respond_with(http(503, b"<html>busy</html>", Retry_After="0")),
    "rate limited": respond_with(http(429, Retry_After="0")),
    "bad gateway": respond_with(http(502, b"<html>")),
    "not HTTP": respond_with(b"\x00\xffnonsense\r\n\r\n"),
    "broken compression": respond_with(http(200, b"no gzip", Content_Encoding="gzip")),
}


@both
@pytest.mark.parametrize("fault", FAULTS)
def test_an_upload_succeeds_despite_faults_and_is_stored_once(kind: str, fault: str) -> None:
    store = UploadStore()
    content = random.Random(1).randbytes(300_000)
    with FaultyServer(store) as server:
        server.plan.extend([FAULTS[fault]] * 2)
        image = caller(kind, server.url)(
            lambda client: client.upload(content, checksum=True, convert_to_webp=False)
        )
    assert list(store.files.values()) == [content]
    assert image.meta.attempts == 3
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {TOKEN}"}
    assert "transfer-encoding" not in server.requests[-1].headers


@both
def test_batch_uploads_with_random_faults_are_each_stored_once(kind: str) -> None:
    rng = random.Random(7)
    store = UploadStore()
    contents = [rng.randbytes(rng.randrange(1, 5_000)) for _ in range(120)]
    faults = [*FAULTS.values(), *[respond_normally] * 9]
    with FaultyServer(store) as server:
        server.plan.extend(rng.choice(faults) for _ in range(200))

        def upload(client: Any) -> Any:
            return without_delays(client, retries=30).upload_many(contents, parallel=8, files_per_request=1)

        results = caller(kind, server.url)(upload)
    assert [result.error for result in results] == [None] * len(contents)
    assert sorted(store.files.values()) == sorted(contents)
    assert [result.image.sha256 for result in results] == [
        hashlib.sha256(text).hexdigest() for text in contents
    ]


@both
def test_a_server_that_never_responds_is_a_timeout(kind: str) -> None:
    with FaultyServer(UploadStore()) as server:
        server.plan.extend([stall] * 2)
        with pytest.raises(APITimeoutError) as caught:
            caller(kind, server.url)(
                lambda client: without_delays(client, retries=1, timeout=0.1).albums.get(1),
            )
    assert "attempts: 2" in caught.value.details


@both
def test_an_unreachable_host_is_a_connection_error(kind: str) -> None:
    with FaultyServer(UploadStore()) as server:
        url = server.url
    with pytest.raises(APIConnectionError, match="ConnectError"):
        caller(kind, url)(lambda client: client.albums.get(1))


@both
def test_a_call_that_is_not_idempotent_is_not_retried_after_a_lost_response(kind: str) -> None:
    with FaultyServer(UploadStore()) as server:
        server.plan.extend([drop_without_response])
        with pytest.raises(APIConnectionError):
            caller(kind, server.url)(lambda client: client.keys.create("k"))
    assert len(server.requests) == 1


@both
def test_redirects_are_not_followed(kind: str) -> None:
    with FaultyServer(UploadStore()) as other, FaultyServer(UploadStore()) as server:
        server.plan.append(respond_with(http(307, Location=f"{other.url}/albums/1")))
        with pytest.raises(ServerError, match="base_url"):
            caller(kind, server.url)(lambda client: client.albums.get(1))
    assert other.requests == []


@both
def test_an_html_page_of_a_proxy_is_an_error_with_an_excerpt(kind: str) -> None:
    with FaultyServer(UploadStore()) as server:
        server.plan.append(respond_with(http(200, b"<h1>Captive portal</h1>", Content_Type="text/html")))
        server.plan.append(respond_with(http(413, b"<h1>Too large</h1>")))
        with pytest.raises(ServerError, match="Captive portal"):
            caller(kind, server.url)(lambda client: client.albums.get(1))
        with pytest.raises(PayloadTooLargeError, match="Too large"):
            caller(kind, server.url)(lambda client: client.upload(b"x"))


@both
def test_retries_are_limited(kind: str) -> None:
    with FaultyServer(UploadStore()) as server:
        server.plan.extend([respond_with(http(503))] * 4)
        with pytest.raises(UnavailableError):
            caller(kind, server.url)(lambda client: client.albums.get(1))
        assert not server.plan


@both
def test_a_file_that_shrinks_during_the_upload_aborts_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(bytes(2_000_000))
    store = UploadStore()

    def shrink(sent: int, total: int) -> None:
        with path.open("r+b") as stream:
            stream.truncate(1_000_000)

    with FaultyServer(store) as server, pytest.raises(SourceChangedError):
        caller(kind, server.url)(lambda client: client.upload(path, progress=shrink))
    assert store.files == {}


@both
def test_an_exception_in_the_progress_callback_aborts_the_upload(kind: str) -> None:
    def stop(sent: int, total: int) -> None:
        if sent:
            raise KeyboardInterrupt

    store = UploadStore()
    with FaultyServer(store) as server, pytest.raises(KeyboardInterrupt):
        caller(kind, server.url)(lambda client: client.upload(bytes(2_000_000), progress=stop))
    assert store.files == {}


@both
def test_no_traceback_of_an_aborted_upload_contains_the_token(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(bytes(600_000))

    def fail(sent: int, total: int) -> None:
        if sent:
            raise LookupError

    def shrink(sent: int, total: int) -> None:
        path.write_bytes(b"")

    def traceback_of(progress: Any, expected: type[Exception]) -> str:
        with pytest.raises(expected) as caught:
            caller(kind, server.url)(lambda client: client.upload(path, progress=progress))
        return "".join(
            traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
        )

    with FaultyServer(UploadStore()) as server:
        assert TOKEN not in traceback_of(fail, LookupError)
        assert TOKEN not in traceback_of(shrink, SourceChangedError)


def test_a_client_is_thread_safe() -> None:
    store = UploadStore()
    with FaultyServer(store) as server, without_delays(Client(server.url, TOKEN)) as client:
        contents = [f"file {number}".encode() for number in range(40)]
        threads = [threading.Thread(target=client.upload, args=(content,)) for content in contents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(store.files.values()) == sorted(contents)


def test_the_event_loop_is_not_blocked_by_a_large_upload(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(bytes(20_000_000))
    iterations = 0

    async def count() -> None:
        nonlocal iterations
        while True:
            iterations += 1
            await anyio.lowlevel.checkpoint()

    async def upload(url: str) -> None:
        async with AsyncClient(url, TOKEN) as client, anyio.create_task_group() as group:
            group.start_soon(count)
            await client.upload(path)
            group.cancel_scope.cancel()

    with FaultyServer(UploadStore()) as server:
        anyio.run(upload, server.url)
    assert iterations > 80  # at least one iteration for each read of 256 KiB: 20 MB are 77 reads


def test_a_deadline_ends_retries() -> None:
    with FaultyServer(UploadStore()) as server, Client(server.url, TOKEN) as client:
        server.plan.extend([respond_with(http(503, Retry_After="1"))] * 3)
        with pytest.raises(ImageHostError):
            client.with_options(deadline=0.5).albums.get(1)
        assert len(server.plan) == 2


def respond_slowly(connection: socket.socket, server: FaultyServer) -> None:
    """Send the response byte by byte, each within the timeout."""
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not server.stopped():
        connection.sendall(b" ")
        time.sleep(0.02)


def read_slowly(connection: socket.socket, server: FaultyServer) -> None:
    """Read the request in small parts, each within the timeout."""
    while not server.stopped() and connection.recv(1 << 14):
        time.sleep(0.02)


@both
@pytest.mark.parametrize("slow", [respond_slowly, read_slowly])
def test_a_deadline_ends_a_slow_attempt(kind: str, slow: Behaviour) -> None:
    def call(client: Any) -> Any:
        bounded = client.with_options(deadline=0.3)
        return bounded.upload(bytes(50_000_000)) if slow is read_slowly else bounded.albums.get(1)

    with FaultyServer(UploadStore()) as server:
        server.plan.extend([slow] * 9)
        with pytest.raises(APITimeoutError, match=r"deadline|WriteTimeout"):
            caller(kind, server.url)(call)
        assert len(server.plan) == 8


def respond_slowly_with_an_image(connection: socket.socket, server: FaultyServer) -> None:
    """Send an image byte by byte, each within the timeout."""
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 100000\r\n\r\n")
    while not server.stopped():
        connection.sendall(b" ")
        time.sleep(0.02)


@both
@pytest.mark.parametrize(
    ("slow", "call"),
    [
        (respond_slowly, lambda client: client.albums.get(1)),
        (respond_slowly_with_an_image, lambda client: client.render("a")),
        (respond_slowly_with_an_image, lambda client: client.images.download("a", io.BytesIO())),
        (read_slowly, lambda client: client.upload(bytes(50_000_000))),
    ],
    ids=["JSON", "render", "download", "upload"],
)
def test_a_body_that_is_transferred_too_slowly_ends_the_attempt(
    kind: str, slow: Behaviour, call: Callable[[Any], Any]
) -> None:
    def hurried(client: Any) -> Any:
        """Call with a clock of which a second lasts a millisecond."""
        client._driver.monotonic = lambda: 1_000 * time.monotonic()
        return call(client.with_options(max_retries=0, deadline=None))

    with FaultyServer(UploadStore()) as server:
        server.plan.append(slow)
        with pytest.raises(APITimeoutError, match="less than 1,024 bytes per second for 60 seconds"):
            caller(kind, server.url)(hurried)


def test_the_default_deadline_ends_a_response_that_is_not_that_slow() -> None:
    def respond(connection: socket.socket, server: FaultyServer) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        while not server.stopped():
            connection.sendall(bytes(100_000))

    # A second between two readings, in which more than 1,024 bytes come, however busy the machine is.
    clock = count(start=1_000.0)
    with FaultyServer(UploadStore()) as server, Client(server.url, TOKEN) as client:
        client._driver.monotonic = client.environment.monotonic = clock.__next__
        server.plan.append(respond)
        expected = r"before the deadline; timeout: 60 seconds; deadline: \S+ seconds; attempts: 1$"
        with pytest.raises(APITimeoutError, match=expected):
            client.albums.get(1)


@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 90)), max_size=50))
def test_a_rate_is_measured_over_a_minute_of_waiting(parts: list[tuple[int, int]]) -> None:
    now, size, seconds = 0, 0, 0
    rate = TransferRate(lambda: now)
    for part_size, duration in parts:
        now += 1_000  # the program does something else
        rate.restart()
        now += duration
        size, seconds = size + part_size, seconds + duration
        if seconds >= 60 and size < 1_024 * seconds:
            with pytest.raises(BodyError):
                rate.count(part_size)
            return
        rate.count(part_size)
        if seconds >= 60:
            size, seconds = 0, 0


def test_the_log_has_attempts_and_retry_decisions_and_no_tokens(caplog: pytest.LogCaptureFixture) -> None:
    with FaultyServer(UploadStore()) as server, without_delays(Client(server.url, TOKEN)) as client:
        fault = respond_with(http(503, Set_Cookie="secret=1", X_Request_Id="r5"))
        server.plan.extend([drop_immediately, fault])
        with caplog.at_level(logging.DEBUG, "imagehost_client"):
            client.albums.get(1)
            server.plan.extend([respond_with(http(404))])
            with pytest.raises(ServerError):
                client.albums.get(1)
    log = [entry.getMessage() for entry in caplog.records if entry.name == "imagehost_client"]
    call = "method=GET path=/albums/1"
    assert [line.partition(" error=")[0].partition(" headers=")[0] for line in log] == [
        f"request failed: {call} attempt=1",
        f"retrying: {call} attempt=1 delay=0.00s reason=outcome unknown",
        f"response received: {call} attempt=2 status=503",
        f"retrying: {call} attempt=2 delay=0.00s reason=status 503",
        f"response received: {call} attempt=3 status=200",
        f"response received: {call} attempt=1 status=404",
        f"not retrying: {call} attempt=1 delay=none reason=status 404 is not retryable",
    ]
    assert "r5" in log[2]
    assert "secret" not in caplog.text
    assert TOKEN not in caplog.text


UPLOAD = """
import re, sys
from pathlib import Path
from imagehost_client import AsyncClient, Client
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
def sync(url, source):
    with Client(url, "t") as client:
        client.upload(b"warm up")
        before = peak()
        client.upload(source)
    return peak() - before
async def asynchronous(url, source):
    async with AsyncClient(url, "t") as client:
        await client.upload(b"warm up")
        before = peak()
        await client.upload(source)
    return peak() - before
import anyio
url, kind, path = sys.argv[1:4]
print(sync(url, path) if kind == "sync" else anyio.run(asynchronous, url, path))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="requires /proc/self/status")
@both
def test_uploading_50_megabytes_uses_less_than_10_megabytes_of_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    store = UploadStore()
    with FaultyServer(store) as server:
        process = subprocess.run(
            [sys.executable, "-c", UPLOAD, server.url, kind, str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
    assert int(process.stdout) * 1024 < 10_000_000
    assert sorted(len(content) for content in store.files.values()) == [7, 50_000_000]


def test_the_async_client_runs_on_trio(served: FakeImageHost) -> None:
    async def use() -> list[int]:
        async with AsyncClient(served.base_url, served.accounts["admin"]) as client:
            served.drop()
            without_delays(client)
            results = await client.upload_many([make_png(width, 1) for width in range(1, 6)], parallel=3)
            assert [result.unwrap().width for result in results] == [1, 2, 3, 4, 5]
            with pytest.raises(NotFoundError):
                await client.with_options(deadline=30).render("missing")
            return sorted([image.width async for image in client.images.list(per_page=2)])

    assert anyio.run(use, backend="trio") == [1, 2, 3, 4, 5]


@both
def test_the_host_in_memory_works_behind_a_real_http_server(kind: str, served: FakeImageHost) -> None:
    call = caller(kind, served.base_url, served.accounts["admin"])
    image = call(lambda client: client.upload(make_png(4, 3)))
    assert (image.width, image.height) == (4, 3)
    assert call(lambda client: client.images.delete(image)).deleted


def test_an_error_of_time_has_the_seconds_of_each_limit() -> None:
    with FaultyServer(UploadStore()) as server:
        server.plan.append(stall)
        client = Client(server.url, TOKEN, timeout=0.25, deadline=9, max_retries=0)
        with client, pytest.raises(APITimeoutError, match=r"timeout: 0\.25 seconds; deadline: 9 seconds"):
            client.account()


def test_the_error_of_https_to_a_host_that_speaks_http_says_so() -> None:
    def respond(connection: socket.socket, _server: FaultyServer) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with FaultyServer(UploadStore()) as server:
        server.plan.append(respond)
        client = Client(server.url.replace("http:", "https:"), TOKEN, max_retries=0)
        with client, pytest.raises(APIConnectionError, match="the host speaks HTTP there, not HTTPS"):
            client.account()


def test_the_error_of_a_client_that_is_pickled_says_what_to_do() -> None:
    client = Client("https://images.example", TOKEN)
    with client, pytest.raises(TypeError, match="create a client in each process"):
        pickle.dumps(client)
