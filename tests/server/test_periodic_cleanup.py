"""While a server runs, what a failed deletion or a crash has left goes by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from imagehost_core import ImageHost
from imagehost_core.ids import new_image_id
from imagehost_core.testing import make_image
from imagehost_server.app import create_app
from imagehost_server.background.cleanup import periodic_cleanup
from imagehost_server.settings import ServerSettings
from imagehost_server.testing import running

PNG = make_image(40, 30)
PATIENCE = 30.0


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def host(data: Path) -> Iterator[ImageHost]:
    with ImageHost.open(data) as opened:
        yield opened


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A disk from which no stored picture can be removed, until this is called."""
    unlink, held = os.unlink, [True]

    def refuse(path: str | Path, *, dir_fd: int | None = None) -> None:
        if held and str(path).endswith("master"):
            raise OSError(5, "Input/output error", str(path))
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    return held.clear


def masters(data: Path) -> list[str]:
    return [str(path.relative_to(data)) for path in data.rglob("master")]


async def eventually(true: Callable[[], object]) -> None:
    """Wait until something becomes true."""
    with anyio.fail_after(PATIENCE):
        while not true():  # noqa: ASYNC110 - what is waited for knows no events
            await anyio.sleep(0.02)


async def delete(host: ImageHost, image_id: str) -> tuple[int, dict[str, Any]]:
    """Ask the application to delete an image."""
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
async def test_the_bytes_of_a_deletion_that_failed_go_at_the_next_pass(
    host: ImageHost, data: Path, stuck: Callable[[], None]
) -> None:
    image = host.upload(PNG, owner="admin")
    async with periodic_cleanup(host, interval=0.02):
        with pytest.raises(OSError, match="Input/output error"):
            host.images.delete(image.id)
        await anyio.sleep(0.1)
        assert len(masters(data)) == 1
        stuck()
        await eventually(lambda: not masters(data))


@pytest.mark.anyio
async def test_a_deletion_that_failed_is_500_and_asked_again_is_200_with_every_byte_gone(
    host: ImageHost, data: Path, stuck: Callable[[], None]
) -> None:
    image = host.upload(PNG, owner="admin")
    status, answer = await delete(host, image.id)
    assert (status, answer["error"]["code"]) == (500, "INTERNAL_ERROR")
    assert len(masters(data)) == 1
    stuck()
    assert await delete(host, image.id) == (
        200,
        {"success": True, "data": {"id": image.id, "deleted": True}},
    )
    assert masters(data) == []
    assert (await delete(host, image.id))[0] == 404


@pytest.mark.anyio
async def test_a_pass_that_fails_is_not_the_last(
    host: ImageHost, data: Path, stuck: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    image = host.upload(PNG, owner="admin")
    with pytest.raises(OSError, match="Input/output error"):
        host.images.delete(image.id)
    stuck()
    away = data / "away"
    (data / "locks").rename(away)
    async with periodic_cleanup(host, interval=0.02):
        await eventually(lambda: "cleanup failed" in caplog.text)
        away.rename(data / "locks")
        await eventually(lambda: not masters(data))


def test_a_server_finds_what_an_upload_of_a_killed_one_has_left(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as killed:
        killed.kill()
    left = data / "images" / "ab" / f"ab{new_image_id()[2:]}"
    left.mkdir(parents=True)
    (left / "master").write_bytes(PNG)
    with running(data):
        ends = time.monotonic() + PATIENCE
        while left.exists() and time.monotonic() < ends:
            time.sleep(0.05)
        assert not left.exists()
