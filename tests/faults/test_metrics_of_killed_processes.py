"""The metrics of several server processes, of which some are killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server_processes import server_processes
from tests.waiting import PATIENCE

from imagehost_server.metrics import FOLDER_PREFIX
from imagehost_server.testing import running

pytestmark = pytest.mark.faults

REQUESTS = 30


def scrape(origin: str) -> dict[tuple[str, ...], float]:
    """Return the values of all samples by their name and label values; each on a connection of its own."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            text = httpx2.get(f"{origin}/metrics", timeout=PATIENCE).text
        except httpx2.TransportError:
            assert time.monotonic() < deadline
        else:
            return {
                (sample.name, *sample.labels.values()): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }


def wait_for(origin: str, key: tuple[str, ...], value: float) -> None:
    """Wait until a sample has a value: a process adds its requests once a second."""
    deadline = time.monotonic() + PATIENCE
    while (now := scrape(origin).get(key, 0.0)) != value:
        assert now < value
        assert time.monotonic() < deadline


def test_totals_of_all_processes_are_the_requests_that_were_sent_over_kills(tmp_path: Path) -> None:
    key = ("imagehost_http_requests_total", "GET", "/v1/gallery", "200")
    starts = ("imagehost_process_starts_total", "server")
    variables = {"IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "0"}
    with running(tmp_path / "data", "--workers", "2", variables=variables) as server:
        for killed in range(3):
            for _ in range(REQUESTS):
                assert httpx2.get(f"{server.base_url}/gallery", timeout=PATIENCE).status_code == 200
            wait_for(server.origin, key, REQUESTS * (killed + 1))
            victim = server_processes(server.process.pid)[0]
            os.kill(victim, signal.SIGKILL)
            wait_for(server.origin, starts, 3 + killed)
        assert scrape(server.origin)[key] == 3 * REQUESTS
        names = {labels[0] for name, *labels in scrape(server.origin) if name.endswith("memory_bytes")}
        assert {"supervisor", "image_workers"} < names
        descriptors = Path(f"/proc/{server_processes(server.process.pid)[0]}/fd").iterdir()
        opened = [Path(os.path.realpath(descriptor)) for descriptor in descriptors]
        (folder,) = {path.parent for path in opened if path.parent.name.startswith(FOLDER_PREFIX)}
        assert folder.is_dir()
    assert not folder.exists()
