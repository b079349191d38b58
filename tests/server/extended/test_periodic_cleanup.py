"""Periodic cleanup: files of failed deletions and crashed uploads are removed while the server runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.live_files import iter_files
from tests.waiting import until, wait_until

from imagehost_core import ImageHost, InternalError
from imagehost_core.ids import new_image_id
from imagehost_core.testing import make_image
from imagehost_server.app import create_app
from imagehost_server.background.periodic import periodic_cleanup
from imagehost_server.settings import ServerSettings
from imagehost_server.testing import running

PNG = make_image(40, 30)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def host(data: Path) -> Iterator[ImageHost]:
    with ImageHost.open(data) as opened:
        yield opened


@pytest.fixture
def repair(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make the deletion of masters fail with an I/O error; return a function that repairs it."""
    unlink, broken = os.unlink, [True]

    def failing_unlink(path: str | Path, *, dir_fd: int | None = None) -> None:
        if broken and str(path).endswith("master"):
            raise OSError(5, "Input/output error", str(path))
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", failing_unlink)
    return broken.clear


def masters(data: Path) -> list[str]:
    return [str(path.relative_to(data)) for path in iter_files(data) if path.name == "master"]


async def delete(host: ImageHost, image_id: str) -> tuple[int, dict[str, Any]]:
    """Send a DELETE request to the ASGI application; return status and JSON."""
    token = host.keys.create(owner="admin").token
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    path = f"/v1/images/{image_id}"
    scope: Any = {
        "type": "http",
        "http_version": "1.1",
        "method": "DELETE",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())],
        "client": ("127.0.0.1", 9),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    await create_app(host, ServerSettings())(scope, receive, send)
    return sent[0]["status"], msgspec.json.decode(sent[1]["body"])


@pytest.mark.anyio
async def test_a_failed_deletion_is_finished_by_a_later_run(
    host: ImageHost, data: Path, repair: Callable[[], None]
) -> None:
    image = host.upload(PNG, owner="admin")
    async with periodic_cleanup(host, interval=0.02):
        with pytest.raises(InternalError, match="Input/output error"):
            host.images.delete(image.id)
        await anyio.sleep(0.1)
        assert len(masters(data)) == 1
        repair()
        await until(lambda: not masters(data))


@pytest.mark.anyio
async def test_a_failed_deletion_is_500_and_can_be_repeated(
    host: ImageHost, data: Path, repair: Callable[[], None]
) -> None:
    image = host.upload(PNG, owner="admin")
    status, response = await delete(host, image.id)
    assert (status, response["error"]["code"]) == (500, "INTERNAL_ERROR")
    assert len(masters(data)) == 1
    repair()
    assert await delete(host, image.id) == (
        200,
        {"success": True, "data": {"id": image.id, "deleted": True}},
    )
    assert masters(data) == []
    assert (await delete(host, image.id))[0] == 404


@pytest.mark.anyio
async def test_a_failed_run_is_followed_by_the_next(
    host: ImageHost, data: Path, repair: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    image = host.upload(PNG, owner="admin")
    with pytest.raises(InternalError, match="Input/output error"):
        host.images.delete(image.id)
    repair()
    moved = data / "moved"
    (data / "locks").rename(moved)
    async with periodic_cleanup(host, interval=0.02):
        await until(lambda: "cleanup failed" in caplog.text)
        moved.rename(data / "locks")
        await until(lambda: not masters(data))


def test_a_restarted_server_removes_files_of_a_killed_upload(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as server:
        server.kill()
    leftover = data / "images" / "ab" / f"ab{new_image_id()[2:]}"
    leftover.mkdir(parents=True)
    (leftover / "master").write_bytes(PNG)
    with running(data):
        wait_until(lambda: not leftover.exists())
