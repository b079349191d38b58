"""A server that is started before its database and its object store: it waits, and says for what."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep

import httpx2
import pytest
from tests.fault_proxy import Fault, run_fault_proxy
from tests.object_store import CREDENTIALS, shared_s3_server
from tests.ports import free_port
from tests.postgres import FAST, run_postgres
from tests.waiting import PATIENCE

from imagehost_server.testing import start

pytestmark = pytest.mark.external
SECONDS = 20.0


def test_a_server_waits_for_its_database_and_its_store_and_names_what_is_missing(tmp_path: Path) -> None:
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    with (
        run_postgres(*FAST) as postgres,
        shared_s3_server() as s3,
        run_fault_proxy(s3.endpoint) as proxy,
        ThreadPoolExecutor(1) as thread,
    ):
        proxy.inject(Fault.ERROR_404_NO_BUCKET, times=1_000_000)
        postgres.stop()
        variables = {
            "IMAGEHOST_DATABASE": postgres.url_of(),
            "IMAGEHOST_STORAGE": s3.url("late", proxy.endpoint),
        }
        starting = thread.submit(start, tmp_path / "data", "--port", str(port), variables=variables)
        try:
            _until_named(origin, "database")
            assert httpx2.get(f"{origin}/healthz").json()["data"] == {"status": "alive"}
            for response in (httpx2.get(f"{origin}/img/x"), httpx2.post(f"{origin}/v1/upload", content=b"x")):
                assert (response.status_code, response.headers["retry-after"]) == (503, "1")
                assert response.json()["error"]["code"] == "SERVICE_UNAVAILABLE"
                assert response.headers["x-request-id"]
            postgres.start()
            _until_named(origin, "storage")
            proxy.clear()
        finally:
            server = starting.result()
            ready = httpx2.get(f"{origin}/readyz")
            server.stop()
            assert server.process.stdout is not None
            server.process.stdout.close()
    assert ready.json() == {"success": True, "data": {"status": "ready"}}
    lines = [line for line in server.log.read_text().splitlines() if " waiting " in line]
    assert [("missing=database" in line, "missing=storage" in line) for line in lines] == [
        (True, False),
        (False, True),
    ]
    assert "Connection refused" in lines[0]
    assert "NoSuchBucket" in lines[1]
    assert "Traceback" not in server.log.read_text()


def _until_named(origin: str, missing: str) -> None:
    deadline = monotonic() + SECONDS
    while True:
        try:
            response = httpx2.get(f"{origin}/readyz")
        except httpx2.TransportError:
            response = None
        if response is not None and response.status_code == 503:
            details = response.json()["error"]["details"]
            if details == f"expected the host to be ready but received no response from {missing}":
                return
        assert monotonic() < deadline
        sleep(0.1)


@pytest.mark.parametrize(
    ("variables", "received"),
    [
        ({"IMAGEHOST_DATABASE": "postgresql://x@127.0.0.1:1/x"}, "The database does not respond: .*refused"),
        ({"IMAGEHOST_STORAGE": "s3://images/x?endpoint=http://127.0.0.1:1"}, "The storage does not respond"),
    ],
)
def test_a_server_ends_with_the_sentence_when_the_time_is_over(
    tmp_path: Path, variables: dict[str, str], received: str
) -> None:
    # In a process of its own: the command forks, and object stores of other tests have threads in this one.
    program = (
        "from imagehost_server.serve import runner; runner.WAIT_SECONDS = 0.0; "
        "from imagehost_server.cli.main import main; main()"
    )
    command = [sys.executable, "-c", program, "serve", "--data", str(tmp_path / "data"), "--port", "0"]
    environment = {**os.environ, **CREDENTIALS, **variables}
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert result.returncode == 1
    assert re.fullmatch(f"Error: {received}.*\n", result.stderr)
