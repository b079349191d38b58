"""Interruption of batch uploads: Ctrl-C ends them at once, and what was stored is reported."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from tests.client.conftest import (
    Behaviour,
    FaultyServer,
    http,
    read_request,
    respond_normally,
    respond_with,
    stall,
    without_delays,
)
from tests.client.test_client_loopback import TOKEN, UploadStore, record
from tests.waiting import PATIENCE, wait_until

from imagehost_client import AsyncClient, Client, UploadInterrupted, UploadResult
from imagehost_client.testing import FakeImageHost, make_png

FILES, STORED = 8, 2

SYNC = """
import sys
from imagehost_client import Client, UploadInterrupted
with Client(sys.argv[1], "t") as client:
    try:
        client.upload_many(sys.argv[2:], on_result=lambda result: print(result.image.id, flush=True))
    except UploadInterrupted as error:
        print(sum(result.image is not None for result in error.results), "of", error.total)
        raise SystemExit(130) from None
"""
ITERATION = """
import sys
from imagehost_client import Client, UploadInterrupted
with Client(sys.argv[1], "t") as client, client.upload_iter(sys.argv[2:]) as results:
    try:
        for result in results:
            print(result.image.id, flush=True)
    except KeyboardInterrupt:
        print(len(results.results), "of", results.total)
        raise SystemExit(130) from None
"""
ASYNC = """
import asyncio, sys
from imagehost_client import AsyncClient
async def main():
    async with AsyncClient(sys.argv[1], "t") as client, client.upload_iter(sys.argv[2:]) as results:
        try:
            async for result in results:
                print(result.image.id, flush=True)
        except asyncio.CancelledError:
            print(len(results.results), "of", results.total)
            raise
try:
    asyncio.run(main())
except KeyboardInterrupt:
    raise SystemExit(130) from None
"""
COMMAND = """
import sys
from imagehost_client.cli import main
sys.exit(main(["--base-url", sys.argv[1], "upload", "--journal", sys.argv[2] + ".journal", *sys.argv[2:]]))
"""
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
FAULTS: dict[str, Behaviour] = {
    "no response": stall,
    "retry in a minute": respond_with(http(503, Retry_After="60")),
}


@contextmanager
def running(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    state = str(Path(arguments[1]).parent / "state")
    process = subprocess.Popen(
        [sys.executable, "-c", f"{START}\n{program}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"IMAGEHOST_TOKEN": TOKEN, "XDG_STATE_HOME": state},
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("program", [SYNC, ITERATION, ASYNC], ids=["sync", "iteration", "async"])
def test_ctrl_c_ends_a_batch_at_once_and_reports_what_was_stored(
    program: str, fault: str, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(FILES)]
    for number, path in enumerate(paths):
        path.write_bytes(make_png(number + 1, 1))
    with FaultyServer(UploadStore()) as server:
        server.plan.extend([respond_normally] * STORED + [FAULTS[fault]] * 100)
        with running(program, server.url, *map(str, paths)) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(STORED)]
            wait_for_requests(server, STORED + 4)
            process.send_signal(signal.SIGINT)
            rest, messages = process.communicate(timeout=PATIENCE)
    notice = "waiting 60 s for the host (status 503)\n" if fault == "retry in a minute" else ""
    assert (process.returncode, messages) == (130, notice)
    assert all(lines)
    assert rest == f"{STORED} of {FILES}\n"


def wait_for_requests(server: FaultyServer, count: int) -> None:
    wait_until(lambda: 100 + STORED - len(server.plan) >= count)


def test_ctrl_c_ends_the_command_line_with_the_urls_of_stored_files_and_status_130(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(FILES)]
    for number, path in enumerate(paths):
        path.write_bytes(make_png(number + 1, 1))
    with serve_until(tmp_path, paths) as (server, process):
        wait_for_requests(server, STORED + 4)
        process.send_signal(signal.SIGINT)
        lines, messages = process.communicate(timeout=PATIENCE)
    assert (process.returncode, lines) == (130, "https://h/img/a.png\n" * STORED)
    assert messages == (
        f"imagehost-client: interrupted: {STORED} of {FILES} files stored; "
        "the host may still store 4 in progress\n"
    )


@contextmanager
def serve_until(tmp_path: Path, paths: list[Path]) -> Iterator[tuple[FaultyServer, subprocess.Popen[str]]]:
    program = COMMAND.replace('"--journal", sys.argv[2] + ".journal", ', "")
    with FaultyServer(UploadStore()) as server:
        server.plan.extend([respond_normally] * STORED + [stall] * 100)
        with running(program, server.url, *map(str, paths)) as process:
            yield server, process


def test_a_command_that_was_interrupted_continues_when_it_is_repeated(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(FILES)]
    for number, path in enumerate(paths):
        path.write_bytes(make_png(number + 1, 1))
    program = COMMAND.replace('"--journal", sys.argv[2] + ".journal", ', '"--files-per-request=1", ')
    with FaultyServer(UploadStore()) as server:
        server.plan.extend([respond_normally] * STORED + [store_and_stall] * 100)
        with running(program, server.url, *map(str, paths)) as process:
            wait_for_requests(server, STORED + 4)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
        assert isinstance(server.respond, UploadStore)
        assert STORED < len(server.respond.files) <= STORED + 4
        (journal,) = (tmp_path / "state").rglob("uploads/*")
        server.plan.clear()
        server.plan.append(images_of(server.respond))
        with running(program, server.url, *map(str, paths)) as process:
            lines, _ = process.communicate(timeout=PATIENCE)
        assert (process.returncode, len(lines.splitlines())) == (0, FILES)
        assert len(server.respond.files) == FILES
        assert not journal.exists()


def images_of(store: UploadStore) -> Behaviour:
    """Return a behaviour that responds with the list of the images."""
    images = [record(content) for content in store.files.values()]
    pages = {"page": 1, "per_page": 100, "total": len(images), "total_pages": 1, "next_cursor": None}
    data = {"success": True, "data": {"images": images, "pagination": pages}}
    return respond_with(http(200, json.dumps(data).encode()))


def store_and_stall(connection: socket.socket, server: FaultyServer) -> None:
    """Store the file, and never respond."""
    request = read_request(connection)
    with server.lock:
        server.respond(request)
    while not server.stopped():
        time.sleep(0.01)


def test_cancelled_uploads_do_not_wait_for_their_retries() -> None:
    with FaultyServer(UploadStore()) as server, Client(server.url, TOKEN) as client:
        server.plan.extend([respond_normally] + [FAULTS["retry in a minute"]] * 100)
        with client.upload_iter([make_png()] * FILES) as results:
            next(results)
            threads = [
                thread for thread in threading.enumerate() if thread.name.startswith("imagehost-upload")
            ]
        assert threads
        for thread in threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads)


def test_the_end_of_an_iteration_cancels_the_other_uploads(host: FakeImageHost) -> None:
    with without_delays(host.client()) as client:
        for _ in client.upload_iter([make_png()] * 50, parallel=1, files_per_request=1):
            break
    assert len(host.requests) < 50


def test_an_interruption_in_a_callback_reports_what_was_stored(host: FakeImageHost) -> None:
    def interrupt(result: UploadResult) -> None:
        raise KeyboardInterrupt

    with without_delays(host.client()) as client, pytest.raises(UploadInterrupted) as caught:
        client.upload_many([make_png()] * 50, parallel=1, on_result=interrupt)
    assert 1 <= len(caught.value.results) < 50
    assert caught.value.total == 50
    assert str(caught.value).startswith(f"{len(caught.value.results)} of 50 files stored")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancellation_ends_a_batch_on_a_mute_server(backend: str) -> None:
    async def upload(url: str) -> tuple[int, bool]:
        async with AsyncClient(url, TOKEN) as client:
            stored = 0
            with anyio.move_on_after(PATIENCE) as scope:
                async with client.upload_iter([make_png()] * FILES) as results:
                    async for _ in results:
                        stored += 1
                        if stored == STORED:
                            scope.cancel()
            return stored, scope.cancelled_caught

    with FaultyServer(UploadStore()) as server:
        server.plan.extend([respond_normally] * STORED + [stall] * 100)
        assert anyio.run(upload, server.url, backend=backend) == (STORED, True)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_exception_in_an_async_iteration_is_raised_as_it_is(backend: str, host: FakeImageHost) -> None:
    async def upload() -> None:
        async with host.async_client() as client, client.upload_iter([make_png()] * 9) as results:
            async for _ in results:
                raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        anyio.run(upload, backend=backend)


def test_an_async_iteration_without_its_block_is_an_error(host: FakeImageHost) -> None:
    async def upload() -> None:
        async with host.async_client() as client:
            async for _ in client.upload_iter([make_png()]):
                pass

    with pytest.raises(RuntimeError, match="async with"):
        anyio.run(upload)


def test_results_come_as_files_are_finished(tmp_path: Path) -> None:
    """The second file is answered only after the first result was received."""
    with FaultyServer(UploadStore()) as server, Client(server.url, TOKEN) as client:
        server.plan.extend([stall, respond_normally])
        results = client.upload_iter([b"first", b"second"], parallel=2)
        first = next(results)
        assert first.image is not None
        assert results.results == [first]
        assert results.total == 2
        results.close()
