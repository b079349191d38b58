"""The access log of server processes, which write the lines of requests together."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
from tests.waiting import wait_until

from imagehost_server.testing import RunningServer, running

REQUESTS = 40
BUFFERED = {"IMAGEHOST_LOG_BUFFERED": "true"}


def request_some(server: RunningServer) -> list[str]:
    paths = [f"/healthz/{number}" for number in range(REQUESTS)]
    with httpx2.Client(base_url=server.origin) as client:
        for path in paths:
            client.get(path)
    return paths


def logged(server: RunningServer) -> list[str]:
    return re.findall(r"path=(/healthz/\d+)", server.log.read_text(encoding="utf-8"))


def test_a_stop_loses_no_line(tmp_path: Path) -> None:
    with running(tmp_path / "data", variables=BUFFERED) as server:
        paths = request_some(server)
        assert server.stop() == 0
        assert logged(server) == paths


def test_a_line_is_in_the_log_though_no_other_follows(tmp_path: Path) -> None:
    with running(tmp_path / "data", variables=BUFFERED) as server:
        paths = request_some(server)
        assert wait_until(lambda: logged(server) == paths)
