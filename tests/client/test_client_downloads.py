"""Downloads continue after failures of the connection, are checked, and leave complete files or none."""

from __future__ import annotations

import io
import os
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve
from tests.client.conftest import Behaviour, Caller, FaultyServer, http, read_request, without_delays

from imagehost_client import (
    APIConnectionError,
    APITimeoutError,
    AsyncClient,
    ChecksumError,
    Client,
    ConfigurationError,
    DownloadedImage,
    Image,
    NotFoundError,
    ServerError,
)
from imagehost_client.testing import FakeImageHost, make_png

TOKEN = "ihk_0123456789abcdefghijklmnopqrstuvwxyz"
IMAGE = "0aZ0aZ0aZ0aZ0aZ0"
CONTENT = bytes(range(256)) * 1_000
HALF = len(CONTENT) // 2


def part_of_content(
    count: int, etag: str | None = '"e"', *, ranges: bool = True, stop: bool = True
) -> Behaviour:
    """Return a behaviour that sends `count` bytes of what is requested, and breaks the connection.

    Args:
        count: The number of bytes.
        etag: The entity tag.
        ranges: Whether the `Range` of a request is respected.
        stop: Whether the connection is closed after these bytes; otherwise nothing more is sent.
    """

    def behave(connection: socket.socket, server: FaultyServer) -> None:
        request = read_request(connection)
        with server.lock:
            server.requests.append(request)
        start = int(request.headers.get("range", "bytes=0-")[6:-1]) if ranges else 0
        headers = {"Content_Type": "image/png"} | ({"ETag": etag} if etag else {})
        if start:
            headers["Content_Range"] = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
        head, _, _ = http(206 if start else 200, CONTENT[start:], **headers).partition(b"\r\n\r\n")
        connection.sendall(head + b"\r\n\r\n" + CONTENT[start : start + count])
        while not stop and not server.stopped():
            threading.Event().wait(0.01)

    return behave


WHOLE = part_of_content(len(CONTENT))


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    """A server with a plan of faults."""
    with FaultyServer(lambda _: http(404)) as faulty:
        yield faulty


Download = Callable[..., DownloadedImage]


@pytest.fixture(params=["sync", "async"])
def download(request: pytest.FixtureRequest, server: FaultyServer, tmp_path: Path) -> Download:
    """A function that downloads an image of the server into `x.png` with each client."""

    def run(image: Any = IMAGE, target: Any = None, options: Any = None, **arguments: Any) -> DownloadedImage:
        def make(client: Any) -> Any:
            client = client.with_options(**options) if options else client
            return client.images.download(image, target or tmp_path / "x.png", **arguments)

        asynchronous = partial(AsyncClient, server.url, TOKEN) if request.param == "async" else None
        result: DownloadedImage = Caller(lambda: Client(server.url, TOKEN), asynchronous)(make)
        return result

    return run


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def ranges_of(server: FaultyServer) -> list[str | None]:
    return [request.headers.get("range") for request in server.requests]


def test_a_download_continues_where_the_connection_broke(
    download: Download, server: FaultyServer, tmp_path: Path
) -> None:
    server.plan.extend([part_of_content(HALF), part_of_content(0), part_of_content(99), WHOLE])
    seen: list[tuple[int, int]] = []
    result = download(progress=lambda received, total: seen.append((received, total)))
    assert (tmp_path / "x.png").read_bytes() == CONTENT
    assert (result.path, result.size, result.media_type) == (tmp_path / "x.png", len(CONTENT), "image/png")
    assert ranges_of(server) == [None, f"bytes={HALF}-", f"bytes={HALF}-", f"bytes={HALF + 99}-"]
    assert [request.headers.get("if-range") for request in server.requests] == [None, '"e"', '"e"', '"e"']
    assert {request.headers["accept-encoding"] for request in server.requests} == {"identity"}
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == ((0, len(CONTENT)), (len(CONTENT), len(CONTENT)))
    assert names(tmp_path) == ["x.png"]
    assert result.to_dict()["path"] == str(tmp_path / "x.png")


def test_bytes_that_a_host_without_ranges_repeats_are_not_written_twice(
    download: Download, server: FaultyServer, tmp_path: Path
) -> None:
    server.plan.extend([part_of_content(HALF), part_of_content(len(CONTENT), ranges=False)])
    download()
    assert (tmp_path / "x.png").read_bytes() == CONTENT


FAILURES: dict[str, tuple[list[Behaviour], type[Exception]]] = {
    "no progress": ([part_of_content(HALF), *[part_of_content(0)] * 3], APIConnectionError),
    "no entity tag": ([part_of_content(HALF, None)], APIConnectionError),
    "weak entity tag": ([part_of_content(HALF, 'W/"e"')], APIConnectionError),
    "other bytes": ([part_of_content(HALF), part_of_content(9, '"f"', ranges=False)], ServerError),
    "not found": ([], NotFoundError),
    "deleted": ([part_of_content(HALF)], NotFoundError),
    "a page": ([lambda connection, _: connection.sendall(page(read_request(connection)))], ServerError),
}


def page(_: object) -> bytes:
    return http(200, b"<p>Sign in</p>", Content_Type="text/html")


NOT_FOUND = b'{"success": false, "error": {"code": "NOT_FOUND", "message": "m", "details": "d"}}'


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_download_leaves_the_old_file_and_no_other(
    name: str, download: Download, server: FaultyServer, tmp_path: Path
) -> None:
    server.respond = lambda _: http(404, NOT_FOUND, Content_Type="application/json")
    server.plan.extend(FAILURES[name][0])
    (tmp_path / "x.png").write_bytes(b"old")
    with pytest.raises(FAILURES[name][1]) as caught:
        download(options={"max_retries": 2})
    assert type(caught.value) is FAILURES[name][1]
    assert (names(tmp_path), (tmp_path / "x.png").read_bytes()) == (["x.png"], b"old")
    assert len(server.requests) < 5


def test_the_error_of_a_broken_download_has_the_bytes_received(
    download: Download, server: FaultyServer
) -> None:
    server.plan.append(part_of_content(HALF))
    with pytest.raises(APIConnectionError, match=f"expected {len(CONTENT)} bytes .* after {HALF} bytes"):
        download(options={"max_retries": 0})


def test_an_exception_of_the_caller_leaves_no_file(
    download: Download, server: FaultyServer, tmp_path: Path
) -> None:
    def interrupt(received: int, _: int) -> None:
        if received:
            raise KeyboardInterrupt

    server.plan.append(WHOLE)
    with pytest.raises(KeyboardInterrupt):
        download(progress=interrupt)
    assert names(tmp_path) == []


def test_a_deadline_ends_a_download_that_stalls(
    download: Download, server: FaultyServer, tmp_path: Path
) -> None:
    server.plan.extend([part_of_content(HALF, stop=False), part_of_content(0, stop=False)])
    with pytest.raises(APITimeoutError):
        download(options={"deadline": 0.3})
    assert names(tmp_path) == []


@pytest.fixture
def stored(host: FakeImageHost, client: Client) -> Image:
    """An image of the host."""
    return client.upload(make_png(7, 5), convert_to_webp=False)


def test_bytes_with_another_checksum_than_the_record_raise(
    call: Caller, host: FakeImageHost, stored: Image, tmp_path: Path
) -> None:
    wrong = evolve(stored, sha256="0" * 64)
    with pytest.raises(ChecksumError, match="expected SHA-256 0000"):
        call(lambda client: client.images.download(wrong, tmp_path / "x.png"))
    assert names(tmp_path) == []
    # A record says nothing about a variant, and an id says nothing at all.
    assert call(lambda client: client.images.download(wrong, tmp_path, w=3)).size != stored.size
    result = call(lambda client: client.images.download(stored.id, tmp_path))
    assert (result.path, result.sha256) == (tmp_path / f"{stored.id}.png", stored.sha256)


def test_bytes_that_the_host_has_rendered_in_place_of_the_stored_ones_are_accepted(
    download: Download, server: FaultyServer, stored: Image
) -> None:
    server.plan.extend([part_of_content(len(CONTENT), '"0123-4567"'), WHOLE])
    assert download(stored).size == len(CONTENT)
    with pytest.raises(ChecksumError):
        download(stored)


def test_a_download_of_an_image_that_has_not_changed_writes_nothing(
    call: Caller, host: FakeImageHost, stored: Image, tmp_path: Path
) -> None:
    path = tmp_path / "x.png"
    etag = call(lambda client: client.images.download(stored, path)).etag
    path.write_bytes(b"edited")
    result = call(lambda client: client.images.download(stored, path, if_none_match=etag))
    assert (result.not_modified, result.size, path.read_bytes()) == (True, 0, b"edited")
    result = call(lambda client: client.images.download(stored, path, if_none_match='"other"'))
    assert (result.not_modified, path.read_bytes()) == (False, host.content(stored.id))


def test_targets_are_open_files_links_and_devices(
    call: Caller, host: FakeImageHost, stored: Image, tmp_path: Path
) -> None:
    content = host.content(stored.id)
    buffer = io.BytesIO()
    assert call(lambda client: client.images.download(stored, buffer)).path is None
    assert (buffer.getvalue(), buffer.closed) == (content, False)

    target, link = tmp_path / "target.png", tmp_path / "link.png"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    call(lambda client: client.images.download(stored, str(link)))
    assert (link.is_symlink(), target.read_bytes(), target.stat().st_mode & 0o777) == (True, content, 0o640)

    call(lambda client: client.images.download(stored, os.devnull))
    assert not Path(os.devnull).is_file()
    for missing in (tmp_path / "none" / "x.png", f"{tmp_path}/none/"):
        with pytest.raises(OSError, match="none"):
            call(partial(save_to, stored, missing))
    assert names(tmp_path) == ["link.png", "target.png"]


def save_to(image: Image, target: Any, client: Any) -> Any:
    return client.images.download(image, target)


def test_a_stream_has_the_headers_and_the_bytes_of_an_image(
    host: FakeImageHost, client: Client, stored: Image
) -> None:
    with client.images.stream(stored) as stream:
        assert (stream.media_type, stream.size, stream.not_modified) == ("image/png", stored.size, False)
        assert b"".join(stream) == host.content(stored.id)
        assert repr(stream).endswith(f"{stored.size} of {stored.size} bytes>")
        assert list(stream) == []  # once
    with client.images.stream(stored, if_none_match=stream.etag) as unchanged:
        assert (unchanged.not_modified, list(unchanged)) == (True, [])
    with pytest.raises(RuntimeError, match="in a with statement"):
        list(client.images.stream(stored))
    with pytest.raises(NotFoundError), client.images.stream("x" * 16):
        raise AssertionError
    with pytest.raises(ConfigurationError):
        client.with_options(extra_headers={"Range": "bytes=3-"})


def test_an_async_stream_has_the_headers_and_the_bytes_of_an_image(
    host: FakeImageHost, stored: Image
) -> None:
    async def check() -> None:
        async with host.async_client() as client:
            async with client.images.stream(stored) as stream:
                assert stream.head.media_type == "image/png"
                assert b"".join([chunk async for chunk in stream]) == host.content(stored.id)
            with pytest.raises(NotFoundError):
                async with client.images.stream("x" * 16):
                    raise AssertionError

    anyio.run(check)


def test_a_stream_that_is_not_read_to_its_end_frees_its_connection(server: FaultyServer) -> None:
    server.plan.extend([WHOLE] * 3)
    with without_delays(Client(server.url, TOKEN)) as client:
        for _ in range(3):
            with client.images.stream(IMAGE) as stream:
                next(iter(stream))
        assert client._driver.http._transport._pool.connections == []  # type: ignore[attr-defined]

    async def check() -> None:
        server.plan.extend([WHOLE] * 3)
        async with AsyncClient(server.url, TOKEN) as client:
            for _ in range(3):
                async with client.images.stream(IMAGE) as stream:
                    await anext(aiter(stream))
            assert client._driver.http._transport._pool.connections == []  # type: ignore[attr-defined]

    anyio.run(check)


SIZE = 48 << 20


def test_a_download_needs_little_memory(download: Download, server: FaultyServer) -> None:
    def send(connection: socket.socket, faulty: FaultyServer) -> None:
        read_request(connection)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: {SIZE}\r\n\r\n"
        connection.sendall(head.encode())
        block = bytes(1 << 20)
        for _ in range(SIZE >> 20):
            connection.sendall(block)

    server.plan.append(send)
    tracemalloc.start()
    try:
        assert download(target=os.devnull).size == SIZE
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
