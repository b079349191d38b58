"""Full storage: the quota of an account under parallel uploads and kills, and a full file system."""

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
from tests.faults.conftest import NO_LIMITS, client_of, kill, staged_files, stored_ids

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running, start

THREADS = 32
KILLS = (7, 20, 35)
"""The numbers of responses after which the server is killed."""
CAPACITY = sum(kill_after + THREADS for kill_after in KILLS) + 10
"""The quota in images: more than the runs before the last can store, with all requests in flight."""
UNCHANGED = {"convertToWebP": "false"}
"""The form field that stores the file as it is, so that its size is known."""


def upload_until_killed(server: RunningServer, token: str, image: bytes, kill_after: int) -> None:
    """Upload from 32 threads, and kill the server after `kill_after` responses."""
    statuses: list[int] = []
    enough = threading.Event()

    def upload() -> None:
        if enough.is_set():
            return
        with suppress(httpx2.TransportError):
            statuses.append(client.post("/v1/upload", files={"image": image}, data=UNCHANGED).status_code)
            if len(statuses) >= kill_after:
                enough.set()

    with client_of(server, token, THREADS) as client, ThreadPoolExecutor(THREADS) as threads:
        for _ in range(3 * THREADS):
            threads.submit(upload)
        assert enough.wait(120)
        kill(server)
    assert set(statuses) <= {200, 507}


def test_parallel_uploads_to_two_processes_with_kills_never_exceed_the_quota(tmp_path: Path) -> None:
    data, image = tmp_path / "data", make_image(60, 40)
    quota = CAPACITY * len(image) + len(image) // 2
    variables = {**NO_LIMITS, "IMAGEHOST_LIMITS_QUOTA_BYTES": str(quota)}
    token = ""
    for kill_after in KILLS:
        server = start(data, "--workers", "2", variables=variables)
        token = token or server.token
        upload_until_killed(server, token, image, kill_after)
        with ImageHost.open(data) as host:
            usage = host.accounts.usage("admin")
            assert usage.bytes == usage.images * len(image) <= quota

    with (
        running(data, "--workers", "2", variables=variables) as server,
        client_of(server, token, THREADS) as client,
    ):
        with ThreadPoolExecutor(THREADS) as threads:
            futures = [
                threads.submit(client.post, "/v1/upload", files={"image": image}, data=UNCHANGED)
                for _ in range(CAPACITY)
            ]
        assert {future.result().status_code for future in futures} == {200, 507}
        account = client.get("/v1/account").json()["data"]
        assert account["usage"]["images"] == CAPACITY
        assert account["usage"]["bytes"] == CAPACITY * len(image)
        assert account["quota"]["remaining"] == len(image) // 2
        assert staged_files(data) == []
        first = client.get("/v1/images?per_page=1").json()["data"]["images"][0]["id"]
        assert client.delete(f"/v1/images/{first}").status_code == 200
        assert client.post("/v1/upload", files={"image": image}, data=UNCHANGED).status_code == 200
        assert client.post("/v1/upload", files={"image": image}, data=UNCHANGED).status_code == 507
    with ImageHost.open(data) as host:
        host.maintenance.collect_garbage()
        pages = [host.images.list(owner="admin", page=number, per_page=100) for number in (1, 2)]
        assert sorted(image.id for page in pages for image in page) == stored_ids(data)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 48 MiB; skip the test without the permission to mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=48m", "imagehost-test", str(folder)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("NOT TESTED: a full disk, because mounting a file system is not permitted")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write a file until the file system has no free page."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4_096))


def test_a_full_disk_is_507_and_uploads_succeed_when_space_is_freed(disk: Path) -> None:
    """The minimum of free space is 0, so that the error comes from the file system."""
    data, large, small = disk / "data", make_image(1_200, 900), make_image(30, 20)
    log = data.with_suffix(".log")
    log.symlink_to(disk.parent / "server.log")
    with (
        running(data, variables={**NO_LIMITS, "IMAGEHOST_STORAGE_MIN_FREE_BYTES": "0"}) as server,
        client_of(server, server.token) as client,
    ):
        ids = []
        for _ in range(200):
            response = client.post("/v1/upload", files={"image": large}, data=UNCHANGED)
            if response.status_code == 507:
                break
            ids.append(response.raise_for_status().json()["data"]["id"])
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (507, "INSUFFICIENT_STORAGE")
        assert stored_ids(data) == sorted(ids)
        assert staged_files(data) == []

        fill(disk / "filler")
        for _ in range(5):
            response = client.post("/v1/upload", files={"image": small}, data=UNCHANGED)
            code = response.json()["error"]["code"]
            assert (response.status_code, code) == (507, "INSUFFICIENT_STORAGE")
        assert staged_files(data) == []
        assert client.get("/v1/images").json()["data"]["pagination"]["total"] == len(ids)
        assert client.get(f"/img/{ids[0]}").content == large
        assert client.get(f"/img/{ids[0]}?w=20").status_code == 200
        assert client.post("/v1/albums", json={"name": "x"}).status_code in (201, 507)

        for image_id in ids[:3]:
            assert client.delete(f"/v1/images/{image_id}").json()["data"] == {"id": image_id, "deleted": True}
            assert client.get(f"/img/{image_id}").status_code == 404
        assert stored_ids(data) == sorted(ids[3:])
        assert client.post("/v1/upload", files={"image": large}, data=UNCHANGED).status_code == 200
        (disk / "filler").unlink()
        assert client.post("/v1/albums", json={"name": "x"}).status_code == 201
        usage = client.get("/v1/account").json()["data"]["usage"]
        assert usage["images"] == len(ids) - 2 == len(stored_ids(data))


def test_a_server_starts_on_a_full_disk_serves_deletes_and_refuses_uploads(disk: Path) -> None:
    """Temporary files are on it as well, as after a reboot of a machine with one file system."""
    data, image = disk / "data", make_image(1_200, 900)
    data.with_suffix(".log").symlink_to(disk.parent / "server.log")
    (disk / "tmp").mkdir()
    variables = {**NO_LIMITS, "IMAGEHOST_STORAGE_MIN_FREE_BYTES": "0", "TMPDIR": str(disk / "tmp")}
    with running(data, variables=variables) as server, client_of(server, server.token) as client:
        token = server.token
        uploads = [client.post("/v1/upload", files={"image": image}) for _ in range(2)]
        ids = [upload.raise_for_status().json()["data"]["id"] for upload in uploads]
    fill(disk / "filler")
    with running(data, variables=variables) as server, client_of(server, token) as client:
        assert client.get("/readyz").status_code == 200
        assert client.get("/v1/images").json()["data"]["pagination"]["total"] == 2
        assert client.get(f"/img/{ids[0]}").status_code == 200
        assert client.get(f"/img/{ids[0]}?w=20&fm=png").status_code == 200
        response = client.post("/v1/upload", files={"image": bytes(3 * 2**20)})
        assert (response.status_code, response.json()["error"]["code"]) == (507, "INSUFFICIENT_STORAGE")
        for image_id in ids:
            assert client.delete(f"/v1/images/{image_id}").json()["data"]["deleted"]
        assert stored_ids(data) == []
