"""The log of a server whose database stops: one line for the outage, with its cause, and one for its end."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from tests.postgres import FAST, run_postgres
from tests.waiting import PATIENCE, wait_until

from imagehost_server.testing import running


def until_status(url: str, status: int) -> None:
    wait_until(lambda: httpx2.get(url, timeout=PATIENCE).status_code == status)


@pytest.mark.external
@pytest.mark.slow
def test_an_outage_of_the_database_is_logged_with_host_and_port_and_without_tracebacks(
    tmp_path: Path,
) -> None:
    with (
        run_postgres(*FAST) as postgres,
        running(tmp_path / "data", variables={"IMAGEHOST_DATABASE": postgres.url_of()}) as server,
    ):
        until_status(f"{server.origin}/readyz", 200)
        postgres.stop()
        for _ in range(4):
            until_status(f"{server.origin}/v1/gallery", 503)
        until_status(f"{server.origin}/readyz", 503)
        postgres.start()
        until_status(f"{server.origin}/readyz", 200)
        # The connection that receives invalidations tries again twice a second.
        wait_until(lambda: "database responds again" in server.log.read_text(encoding="utf-8"))
    log = server.log.read_text(encoding="utf-8")
    lines = [line for line in log.splitlines() if "imagehost.access" not in line]
    assert "Traceback" not in log
    assert "psycopg.pool" not in log
    (line,) = (line for line in lines if "database does not respond" in line)
    assert f"port {postgres.port} failed" in line
    assert log.count("database responds again") == 1
