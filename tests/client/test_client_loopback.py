"""The client over real sockets, against servers that drop, stall, and talk nonsense."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import socket
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from attrs import evolve
from tests.client.conftest import (
    Behaviour,
    Caller,
    Request,
    Unruly,
    answer_rightly,
    drop_after_reading,
    drop_at_once,
    drop_within_answer,
    drop_within_body,
    http,
    read_request,
    say,
    stall,
    swift,
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
from imagehost_client.testing import FakeImageHost, make_png

TOKEN = "ihk_0123456789abcdefghijklmnopqrstuvwxyz"
ALBUM = {
    "id": 1,
    "name": "A",
    "description": "",
    "is_public": True,
    "image_count": 0,
    "cover_image_id": None,
    "cover_url": None,
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
}


class Shelf:
    """What a host has stored, by idempotency key: the same key again stores nothing."""

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


def caller(kind: str, url: str, **options: Any) -> Caller:
    return Caller(
        lambda: Client(url, TOKEN, **options),
        (lambda: AsyncClient(url, TOKEN, **options)) if kind == "async" else None,
    )


both = pytest.mark.parametrize("kind", ["sync", "async"])

MISHAPS: dict[str, Behaviour] = {
    "no answer": drop_at_once,
    "an answer lost": drop_after_reading,
    "a body cut": drop_within_body,
    "an answer cut": drop_within_answer,
    "busy": say(http(503, b"<html>busy</html>", Retry_After="0")),
    "refused by rate": say(http(429, Retry_After="0")),
    "a bad gateway": say(http(502, b"<html>")),
    "nonsense": say(b"\x00\xffnonsense\r\n\r\n"),
    "broken compression": say(http(200, b"no gzip", Content_Encoding="gzip")),
}


@both
@pytest.mark.parametrize("mishap", MISHAPS)
def test_an_upload_goes_through_in_spite_of_a_mishap_and_is_stored_once(kind: str, mishap: str) -> None:
    shelf = Shelf()
    content = random.Random(1).randbytes(300_000)
    with Unruly(shelf) as server:
        server.plan.extend([MISHAPS[mishap]] * 2)
        image = caller(kind, server.url)(
            lambda client: client.upload(content, checksum=True, convert_to_webp=False)
        )
    assert list(shelf.files.values()) == [content]
    assert image.meta.attempts == 3
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {TOKEN}"}
    assert "transfer-encoding" not in server.requests[-1].headers


@both
def test_many_uploads_through_a_server_that_fails_at_random_are_each_stored_once(kind: str) -> None:
    chance = random.Random(7)
    shelf = Shelf()
    contents = [chance.randbytes(chance.randrange(1, 5_000)) for _ in range(120)]
    mishaps = [*MISHAPS.values(), *[answer_rightly] * 9]
    with Unruly(shelf) as server:
        server.plan.extend(chance.choice(mishaps) for _ in range(200))

        def upload(client: Any) -> Any:
            return swift(client, retries=30).upload_many(contents, parallel=8)

        results = caller(kind, server.url)(upload)
    assert [result.error for result in results] == [None] * len(contents)
    assert sorted(shelf.files.values()) == sorted(contents)
    assert [result.image.sha256 for result in results] == [
        hashlib.sha256(text).hexdigest() for text in contents
    ]


@both
def test_a_server_that_never_answers_is_timed_out(kind: str) -> None:
    with Unruly(Shelf()) as server:
        server.plan.extend([stall] * 2)
        with pytest.raises(APITimeoutError) as caught:
            caller(kind, server.url)(
                lambda client: swift(client, retries=1, timeout=0.1).albums.get(1),
            )
    assert "attempts: 2" in caught.value.details


@both
def test_a_host_that_is_not_there_is_a_failed_connection(kind: str) -> None:
    with Unruly(Shelf()) as server:
        url = server.url
    with pytest.raises(APIConnectionError, match="ConnectError"):
        caller(kind, url)(lambda client: client.albums.get(1))


@both
def test_what_must_not_happen_twice_is_not_sent_again_after_a_lost_answer(kind: str) -> None:
    with Unruly(Shelf()) as server:
        server.plan.extend([drop_after_reading])
        with pytest.raises(APIConnectionError):
            caller(kind, server.url)(lambda client: client.keys.create("k"))
    assert len(server.requests) == 1


@both
def test_a_redirect_is_never_followed_with_the_token(kind: str) -> None:
    with Unruly(Shelf()) as other, Unruly(Shelf()) as server:
        server.plan.append(say(http(307, Location=f"{other.url}/albums/1")))
        with pytest.raises(ServerError, match="base_url"):
            caller(kind, server.url)(lambda client: client.albums.get(1))
    assert other.requests == []


@both
def test_a_proxy_page_is_an_error_with_an_excerpt(kind: str) -> None:
    with Unruly(Shelf()) as server:
        server.plan.append(say(http(200, b"<h1>Captive portal</h1>", Content_Type="text/html")))
        server.plan.append(say(http(413, b"<h1>Too large</h1>")))
        with pytest.raises(ServerError, match="Captive portal"):
            caller(kind, server.url)(lambda client: client.albums.get(1))
        with pytest.raises(PayloadTooLargeError, match="Too large"):
            caller(kind, server.url)(lambda client: client.upload(b"x"))


@both
def test_retries_end(kind: str) -> None:
    with Unruly(Shelf()) as server:
        server.plan.extend([say(http(503))] * 4)
        with pytest.raises(UnavailableError):
            caller(kind, server.url)(lambda client: client.albums.get(1))
        assert not server.plan


@both
def test_a_file_that_shrinks_while_it_is_sent_breaks_the_upload_off(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(bytes(2_000_000))
    shelf = Shelf()

    def shrink(sent: int, total: int) -> None:
        with path.open("r+b") as stream:
            stream.truncate(1_000_000)

    with Unruly(shelf) as server, pytest.raises(SourceChangedError):
        caller(kind, server.url)(lambda client: client.upload(path, progress=shrink))
    assert shelf.files == {}


@both
def test_whoever_is_told_of_progress_can_stop_an_upload(kind: str) -> None:
    def stop(sent: int, total: int) -> None:
        if sent:
            raise KeyboardInterrupt

    shelf = Shelf()
    with Unruly(shelf) as server, pytest.raises(KeyboardInterrupt):
        caller(kind, server.url)(lambda client: client.upload(bytes(2_000_000), progress=stop))
    assert shelf.files == {}


@both
def test_no_traceback_of_an_upload_that_is_broken_off_shows_the_token(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(bytes(600_000))

    def fail(sent: int, total: int) -> None:
        if sent:
            raise LookupError

    def shrink(sent: int, total: int) -> None:
        path.write_bytes(b"")

    def shown(progress: Any, expected: type[Exception]) -> str:
        with pytest.raises(expected) as caught:
            caller(kind, server.url)(lambda client: client.upload(path, progress=progress))
        return "".join(
            traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
        )

    with Unruly(Shelf()) as server:
        assert TOKEN not in shown(fail, LookupError)
        assert TOKEN not in shown(shrink, SourceChangedError)


def test_one_client_may_be_used_by_many_threads() -> None:
    shelf = Shelf()
    with Unruly(shelf) as server, swift(Client(server.url, TOKEN)) as client:
        contents = [f"file {number}".encode() for number in range(40)]
        threads = [threading.Thread(target=client.upload, args=(content,)) for content in contents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(shelf.files.values()) == sorted(contents)


def test_an_event_loop_goes_on_while_a_large_file_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(bytes(20_000_000))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async def upload(url: str) -> None:
        async with AsyncClient(url, TOKEN) as client, anyio.create_task_group() as group:
            group.start_soon(count)
            await client.upload(path)
            group.cancel_scope.cancel()

    with Unruly(Shelf()) as server:
        anyio.run(upload, server.url)
    assert turns > 80  # one read of 256 KiB a turn at the least: 20 MB are 77 reads


def test_a_deadline_ends_a_call_that_is_tried_again_and_again() -> None:
    with Unruly(Shelf()) as server, Client(server.url, TOKEN) as client:
        server.plan.extend([say(http(503, Retry_After="1"))] * 3)
        with pytest.raises(ImageHostError):
            client.with_options(deadline=0.5).albums.get(1)
        assert len(server.plan) == 2


def drip(connection: socket.socket, server: Unruly) -> None:
    """Answer byte by byte, each long before the time-out."""
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not server.stopped():
        connection.sendall(b" ")
        time.sleep(0.02)


def sip(connection: socket.socket, server: Unruly) -> None:
    """Read a request little by little, each long before the time-out."""
    while not server.stopped() and connection.recv(1 << 14):
        time.sleep(0.02)


@both
@pytest.mark.parametrize("slow", [drip, sip])
def test_a_deadline_ends_a_call_that_goes_on_slowly(kind: str, slow: Behaviour) -> None:
    def call(client: Any) -> Any:
        bounded = client.with_options(deadline=0.3)
        return bounded.upload(bytes(50_000_000)) if slow is sip else bounded.albums.get(1)

    with Unruly(Shelf()) as server:
        server.plan.extend([slow] * 9)
        with pytest.raises(APITimeoutError, match=r"deadline|WriteTimeout"):
            caller(kind, server.url)(call)
        assert len(server.plan) == 8


def test_the_log_tells_of_tries_and_never_of_tokens(caplog: pytest.LogCaptureFixture) -> None:
    with Unruly(Shelf()) as server, swift(Client(server.url, TOKEN)) as client:
        server.plan.extend([drop_at_once, say(http(503, Set_Cookie="secret=1", X_Request_Id="r5"))])
        with caplog.at_level(logging.DEBUG, "imagehost_client"):
            client.albums.get(1)
    text = "\n".join(entry.getMessage() for entry in caplog.records if entry.name == "imagehost_client")
    assert text.count("path=/albums/1") == 5
    assert "r5" in text
    assert "attempt=3" in text
    assert "secret" not in text
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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process's own memory")
@both
def test_a_file_of_50_megabytes_grows_the_process_by_less_than_10(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    shelf = Shelf()
    with Unruly(shelf) as server:
        done = subprocess.run(
            [sys.executable, "-c", UPLOAD, server.url, kind, str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
    assert int(done.stdout) * 1024 < 10_000_000
    assert sorted(len(content) for content in shelf.files.values()) == [7, 50_000_000]


def test_the_async_client_runs_on_trio_too(served: FakeImageHost) -> None:
    async def use() -> list[int]:
        async with AsyncClient(served.base_url, served.accounts["admin"]) as client:
            served.drop()
            swift(client)
            results = await client.upload_many([make_png(width, 1) for width in range(1, 6)], parallel=3)
            assert [result.unwrap().width for result in results] == [1, 2, 3, 4, 5]
            with pytest.raises(NotFoundError):
                await client.with_options(deadline=30).images.render("missing")
            return sorted([image.width async for image in client.images.list(per_page=2)])

    assert anyio.run(use, backend="trio") == [1, 2, 3, 4, 5]


@both
def test_the_double_is_the_same_behind_a_real_server(kind: str, served: FakeImageHost) -> None:
    call = caller(kind, served.base_url)
    token = served.accounts["admin"]

    def signed(make: Any) -> Any:
        return lambda client: make(evolve_token(client, token))

    image = call(signed(lambda client: client.upload(make_png(4, 3))))
    assert (image.width, image.height) == (4, 3)
    assert call(signed(lambda client: client.images.delete(image))).deleted


def evolve_token(client: Any, token: str) -> Any:
    from imagehost_client._redact import Secret

    client.config = evolve(client.config, token=Secret(token))
    client._driver.token = Secret(token)
    return client
