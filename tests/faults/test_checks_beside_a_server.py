"""Integrity checks and garbage collections beside a server under load: nothing in progress is a finding."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
from tests.faults.conftest import NO_LIMITS, client_of, stored_ids
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.maintenance.check.findings import Finding
from imagehost_core.testing import make_image
from imagehost_server.testing import running

CLIENTS = 4
RUNS = 40
"""Least number of runs after one of the command: each starts at another time of the clients' requests."""
DELETIONS = 20
"""Least number of images that the clients delete during the runs, so that each kind of request was made."""
HOOK = {"url": "http://127.0.0.1:9/", "events": ["image.uploaded", "image.deleted"]}
VARIABLES = {**NO_LIMITS, "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true"}


def work(client: httpx2.Client, ended: threading.Event, deleted: list[str], seed: int) -> set[str]:
    """Upload, render, change and delete images until the end; return the ids that are left."""
    album = client.post("/v1/albums", json={"name": f"Album {seed}"}).raise_for_status().json()["data"]["id"]
    left: list[str] = []
    while not ended.is_set():
        form = {"album_id": str(album), "convertToWebP": "false"}
        files = {"image": make_image(50, 40, seed=seed)}
        response = client.post("/v1/upload", files=files, data=form).raise_for_status()
        left.append(response.json()["data"]["id"])
        client.get(f"/img/{left[-1]}?w=10").raise_for_status()
        client.patch(f"/v1/images/{left[-1]}", json={"is_public": False}).raise_for_status()
        if len(left) > 5:
            deleted.append(left.pop(0))
            client.delete(f"/v1/images/{deleted[-1]}").raise_for_status()
            body = {"image_ids": [left.pop(0), left.pop(0)]}
            client.post("/v1/images/delete", json=body).raise_for_status()
            deleted.extend(body["image_ids"])
    return set(left)


def raise_failures(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        if future.done():
            future.result()


def command(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "imagehost_server", *words, "--data", str(data)]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE)


def check(host: ImageHost) -> list[Finding]:
    return list(host.check())


def repair(host: ImageHost) -> list[Finding]:
    return list(host.check(repair=True))


def collect(host: ImageHost) -> list[object]:
    return [value for value in attrs.astuple(host.maintenance.collect_garbage()) if value]


@pytest.mark.parametrize(
    ("words", "run", "expected"),
    [
        (("fsck",), check, "nothing is wrong"),
        (("fsck", "--repair"), repair, "nothing is wrong"),
        (("gc",), collect, "Nothing to remove"),
    ],
    ids=["fsck", "fsck --repair", "gc"],
)
def test_work_in_progress_is_no_finding_and_loses_nothing(
    tmp_path: Path, words: tuple[str, ...], run: Callable[[ImageHost], list[object]], expected: str
) -> None:
    data, ended = tmp_path / "data", threading.Event()
    deleted: list[str] = []
    found: list[list[object]] = []
    with (
        running(data, "--workers", "2", variables=VARIABLES) as server,
        client_of(server, server.token) as client,
    ):
        client.post("/v1/webhooks", json=HOOK).raise_for_status()
        with ThreadPoolExecutor(CLIENTS) as threads:
            clients = [threads.submit(work, client, ended, deleted, seed) for seed in range(CLIENTS)]
            try:
                result = command(data, *words)
                with ImageHost.open(data, recover=False) as host:
                    while len(found) < RUNS or len(deleted) < DELETIONS:
                        found.append(run(host))
                        raise_failures(clients)
            finally:
                ended.set()
        left = [future.result() for future in clients]
        assert stored_ids(data) == sorted(set[str]().union(*left))
    assert (result.returncode, result.stderr) == (0, "")
    assert expected in result.stdout
    assert not any(found)
    with ImageHost.open(data) as host:
        assert list(host.check()) == []
