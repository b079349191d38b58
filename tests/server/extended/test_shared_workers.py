"""Several server processes, each with its share of the image workers."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.server_processes import IMAGE_WORKER, children, is_running, server_processes
from tests.waiting import PATIENCE, wait_until

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the processes by /proc")


@pytest.fixture
def server(tmp_path: Path, no_limits: dict[str, str]) -> Iterator[RunningServer]:
    """A server with three processes and two image workers."""
    variables = {**no_limits, "IMAGEHOST_RENDERING_PROCESSES": "2"}
    with running(tmp_path / "data", "--workers", "3", variables=variables) as server:
        yield server


def upload(server: RunningServer, seed: int) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {server.token}"}
    files = {"image": make_image(300, 200, seed=seed)}
    return httpx2.post(f"{server.base_url}/upload", files=files, headers=headers, timeout=PATIENCE)


def test_each_process_has_its_share_of_the_image_workers_and_one_for_light_work(
    server: RunningServer,
) -> None:
    statuses = list[int]()
    threads = [
        threading.Thread(target=lambda seed=seed: statuses.append(upload(server, seed).status_code))
        for seed in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 8
    for process in server_processes(server.process.pid):
        assert len(children(process, IMAGE_WORKER)) <= 2


def test_uploads_go_on_after_the_death_of_a_server_process(server: RunningServer) -> None:
    assert upload(server, 1).status_code == 200
    killed, *_ = server_processes(server.process.pid)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: f"server worker exited pid={killed}" in server.log.read_text(encoding="utf-8"))
    assert upload(server, 2).status_code == 200


def test_no_process_is_left_when_the_server_has_stopped(tmp_path: Path, no_limits: dict[str, str]) -> None:
    with running(tmp_path / "data", "--workers", "2", variables=no_limits) as server:
        assert upload(server, 1).status_code == 200
        pids = server_processes(server.process.pid)
        pids += [worker for pid in pids for worker in children(pid, IMAGE_WORKER)]
        assert len(pids) >= 3
        assert server.stop() == 0
        wait_until(lambda: not any(map(is_running, pids)))
