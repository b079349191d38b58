"""A server whose object store fails for a while: 503 in time, no wrong success, and then recovery."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from tests.fault_proxy import Fault, FaultProxy, run_fault_proxy
from tests.faults.conftest import NO_LIMITS, client_of
from tests.object_store import S3Server, open_url, shared_s3_server

from imagehost_core import ImageHost
from imagehost_core.cluster.object.retries import PAUSE_SECONDS
from imagehost_core.settings import Settings, StorageSettings
from imagehost_core.testing import make_image
from imagehost_server.testing import running

SECONDS = 4.0
RECOVERY_SECONDS = 10.0
MARGIN_SECONDS = 5.0
"""The time for everything but the store, on a slow machine."""


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with shared_s3_server() as server:
        yield server


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with run_fault_proxy(s3_server.endpoint) as running_proxy:
        yield running_proxy


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.ERROR_500, Fault.ERROR_503, Fault.STALL])
def test_requests_get_503_in_time_while_the_store_fails_and_succeed_afterwards(
    s3_server: S3Server, proxy: FaultProxy, tmp_path: Path, fault: Fault
) -> None:
    prefix = f"outage-{fault.name.lower()}"
    variables = NO_LIMITS | {
        "IMAGEHOST_STORAGE": s3_server.url(prefix, proxy.endpoint),
        "IMAGEHOST_STORAGE_TIMEOUT_SECONDS": str(SECONDS),
    }
    with (
        running(tmp_path / "data", variables=variables) as server,
        client_of(server, server.token) as client,
    ):
        warm, cold = (
            client.post("/v1/upload", files={"image": make_image(700, 600, seed=seed)}).json()["data"]["id"]
            for seed in range(2)
        )
        assert client.get(f"/img/{warm}?w=100").status_code == 200
        proxy.inject(fault, times=1_000_000)
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["data"]["unavailable"]) == (200, "storage")
        requests: dict[str, Callable[[], httpx2.Response]] = {
            "upload": lambda: client.post("/v1/upload", files={"image": make_image(700, 600, seed=2)}),
            "cold render": lambda: client.get(f"/img/{cold}?w=100"),
            "delete": lambda: client.delete(f"/v1/images/{warm}"),
        }
        assert client.get(f"/img/{warm}?w=100").status_code == 200, "it is in memory"
        for name, request in requests.items():
            start = time.monotonic()
            response = request()
            # The first gives up after its retries, and those after it at once.
            limit = SECONDS + MARGIN_SECONDS if name == "upload" else 1.0
            assert (response.status_code, name) == (503, name)
            assert 1 <= int(response.headers["retry-after"]) <= PAUSE_SECONDS
            assert time.monotonic() - start < limit, name
        assert client.get(f"/img/{warm}").status_code == 404, "its record is deleted"
        proxy.clear()
        start = time.monotonic()
        while "unavailable" in client.get("/readyz").json()["data"]:
            assert time.monotonic() - start < RECOVERY_SECONDS
            time.sleep(0.1)
        stored = client.post("/v1/upload", files={"image": make_image(700, 600, seed=2)})
        assert stored.status_code == 200
        assert client.get(f"/img/{cold}?w=100").status_code == 200
        assert client.delete(f"/v1/images/{warm}").status_code == 200
        kept = {cold, stored.json()["data"]["id"]}
    settings = Settings(storage=StorageSettings(url=s3_server.url(prefix)))
    with ImageHost.open(tmp_path / "data", settings=settings) as host:
        assert list(host.check()) == []
    paths = [entry["path"] for page in open_url(s3_server.url(prefix)).list("images/") for entry in page]
    masters = {path.split("/")[2] for path in paths if path.endswith("/master")}
    assert kept <= masters
    assert warm not in {path.split("/")[2] for path in paths}
