"""No room: the account's quota under parallel uploads and kills, and a disk that is really full."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from imagehost_core import ImageHost
from imagehost_core.pagination import PageRequest
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running, start

NO_LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in ("API_PER_MINUTE", "API_PER_HOUR", "API_PER_DAY", "UPLOADS_PER_MINUTE")
}
AT_ONCE = 32
KILLS = (7, 20, 35)
"""After how many answers the server is killed."""
ROOM = sum(kill_after + AT_ONCE for kill_after in KILLS) + 10
"""How many pictures the quota holds: more than are stored until the last kill, and under way then."""
KEPT = {"convertToWebP": "false"}
"""The bytes are stored as they came, so that sizes are known."""


def client_of(server: RunningServer, token: str) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx2.Limits(max_connections=AT_ONCE)
    return httpx2.Client(base_url=server.origin, headers=headers, timeout=60, limits=limits)


def stored(data: Path) -> list[str]:
    """Return the ids of all images that have files."""
    return sorted(path.parent.name for path in (data / "images").rglob("master"))


def left_over(data: Path) -> list[Path]:
    """Return what uploads have left behind; a sign that a process has died is nothing of an upload."""
    files = [path for path in (data / "staging").rglob("*") if path.is_file()]
    return [path for path in files if path.name != "lock" and path.suffix != ".incomplete"]


def upload_until_killed(server: RunningServer, token: str, picture: bytes, kill_after: int) -> None:
    """Upload from 32 threads, and kill the server after so many answers."""
    answered: list[int] = []
    enough = threading.Event()

    def upload() -> None:
        if enough.is_set():
            return
        with suppress(httpx2.TransportError):
            answered.append(client.post("/v1/upload", files={"image": picture}, data=KEPT).status_code)
            if len(answered) >= kill_after:
                enough.set()

    with client_of(server, token) as client, ThreadPoolExecutor(AT_ONCE) as crew:
        for _ in range(3 * AT_ONCE):
            crew.submit(upload)
        assert enough.wait(120)
        server.kill()
    assert server.process.stdout is not None
    server.process.stdout.close()
    assert set(answered) <= {200, 507}


def test_parallel_uploads_in_two_processes_with_kills_never_overrun_the_quota(tmp_path: Path) -> None:
    data, picture = tmp_path / "data", make_image(60, 40)
    quota = ROOM * len(picture) + len(picture) // 2
    variables = {**NO_LIMITS, "IMAGEHOST_LIMITS_QUOTA_BYTES": str(quota)}
    token = ""
    for kill_after in KILLS:
        server = start(data, "--workers", "2", variables=variables)
        token = token or server.token
        upload_until_killed(server, token, picture, kill_after)
        with ImageHost.open(data) as host:
            usage = host.accounts.usage("admin")
            assert usage.bytes == usage.images * len(picture) <= quota

    with running(data, "--workers", "2", variables=variables) as server, client_of(server, token) as client:
        with ThreadPoolExecutor(AT_ONCE) as crew:
            asked = [
                crew.submit(client.post, "/v1/upload", files={"image": picture}, data=KEPT)
                for _ in range(ROOM)
            ]
        assert {each.result().status_code for each in asked} == {200, 507}
        account = client.get("/v1/account").json()["data"]
        assert account["usage"]["images"] == ROOM
        assert account["usage"]["bytes"] == ROOM * len(picture)
        assert account["quota"]["remaining"] == len(picture) // 2
        assert left_over(data) == []
        first = client.get("/v1/images?per_page=1").json()["data"]["images"][0]["id"]
        assert client.delete(f"/v1/images/{first}").status_code == 200
        assert client.post("/v1/upload", files={"image": picture}, data=KEPT).status_code == 200
        assert client.post("/v1/upload", files={"image": picture}, data=KEPT).status_code == 507
    with ImageHost.open(data) as host:
        host.maintenance.collect_garbage()
        pages = [
            host.images.list(owner="admin", page=PageRequest(page=number, per_page=100)) for number in (1, 2)
        ]
        assert sorted(image.id for page in pages for image in page) == stored(data)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB; skips where this user may not mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=48m", "imagehost-test", str(folder)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("NOT TESTED: a really full disk, for want of the right to mount one")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write a file until the disk has not one page left."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4_096))


def test_a_disk_that_is_really_full_is_507_and_the_server_recovers_when_room_is_made(disk: Path) -> None:
    """The floor is off, so that it is the disk itself that says so."""
    data, large, small = disk / "data", make_image(1_200, 900), make_image(30, 20)
    log = data.with_suffix(".log")
    log.symlink_to(disk.parent / "server.log")
    with (
        running(data, variables={**NO_LIMITS, "IMAGEHOST_STORAGE_MIN_FREE_BYTES": "0"}) as server,
        client_of(server, server.token) as client,
    ):
        kept = []
        for _ in range(200):
            answer = client.post("/v1/upload", files={"image": large}, data=KEPT)
            if answer.status_code == 507:
                break
            kept.append(answer.raise_for_status().json()["data"]["id"])
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (507, "INSUFFICIENT_STORAGE")
        assert stored(data) == sorted(kept)
        assert left_over(data) == []

        fill(disk / "filler")
        for _ in range(5):
            answer = client.post("/v1/upload", files={"image": small}, data=KEPT)
            assert (answer.status_code, answer.json()["error"]["code"]) == (507, "INSUFFICIENT_STORAGE")
        assert left_over(data) == []
        assert client.get("/v1/images").json()["data"]["pagination"]["total"] == len(kept)
        assert client.get(f"/img/{kept[0]}").content == large
        assert client.get(f"/img/{kept[0]}?w=20").status_code == 200
        assert client.post("/v1/albums", json={"name": "x"}).status_code in (201, 507)

        for image_id in kept[:3]:
            assert client.delete(f"/v1/images/{image_id}").json()["data"] == {"id": image_id, "deleted": True}
            assert client.get(f"/img/{image_id}").status_code == 404
        assert stored(data) == sorted(kept[3:])
        assert client.post("/v1/upload", files={"image": large}, data=KEPT).status_code == 200
        (disk / "filler").unlink()
        assert client.post("/v1/albums", json={"name": "x"}).status_code == 201
        usage = client.get("/v1/account").json()["data"]["usage"]
        assert usage["images"] == len(kept) - 2 == len(stored(data))
