"""Readiness: what `/readyz` names, what it logs, and what a check that hangs costs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import attrs
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost, UnavailableError
from imagehost_core.observer import WorkerStarted
from imagehost_core.settings import PurgeSettings, StorageSettings
from imagehost_core.testing import FrozenClock, make_image
from imagehost_server._executors import ThreadLimiter
from imagehost_server.auth.cookies import SESSION_COOKIE
from imagehost_server.logging_config import REPEAT_SECONDS, ProblemLog
from imagehost_server.routes import service
from imagehost_server.routes.service import Readiness, ReadinessMonitor
from imagehost_server.settings import ServerSettings

PROXIED = {"X-Forwarded-For": "192.0.2.7"}


@pytest.fixture(autouse=True)
def _checks_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a check take longer than in production: it starts an image worker, here beside other tests."""
    monkeypatch.setattr(service, "CHECK_SECONDS", 60.0)
    monkeypatch.setattr("imagehost_core.maintenance.service.WORKER_SECONDS", 50.0)


@contextmanager
def client_of(data: Path, settings: ServerSettings) -> Iterator[httpx2.Client]:
    with (
        serving(ImageHost.open(data, settings=settings), settings) as origin,
        httpx2.Client(base_url=origin, timeout=PATIENCE) as client,
    ):
        yield client


def test_a_disk_below_the_minimum_is_ready_and_loopback_and_the_log_see_that_uploads_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ServerSettings(storage=StorageSettings(min_free_bytes=2**60))
    with client_of(tmp_path / "data", settings) as client:
        for _ in range(2):
            response = client.get("/readyz")
            assert response.status_code == 200
            assert response.json()["data"] == {"status": "ready", "uploads": "refused"}
        proxied = client.get("/readyz", headers=PROXIED)
        assert proxied.json()["data"] == {"status": "ready"}
    lines = [record for record in caplog.records if record.message == "uploads refused"]
    assert [record.levelname for record in lines] == ["WARNING"]
    assert str(2**60) in str(vars(lines[0])["fields"])


def test_images_that_a_shared_cache_should_have_removed_are_named_to_loopback_and_on_the_operators_page(
    tmp_path: Path,
) -> None:
    clock = FrozenClock()
    # Nothing listens to the port: it is reserved, and no request is made to it in the test's time.
    settings = ServerSettings(purge=PurgeSettings(url="http://127.0.0.1:9/{id}"))
    host = ImageHost.open(tmp_path / "data", settings=settings, clock=clock)
    session = host.sessions.create(host.accounts.get("admin")).token
    cookie = {"Cookie": f"{SESSION_COOKIE}={session}"}
    with serving(host, settings) as origin, httpx2.Client(base_url=origin, timeout=PATIENCE) as client:
        host.images.delete(host.upload(make_image(8, 8), owner="admin"))
        assert client.get("/readyz").json()["data"] == {"status": "ready"}
        assert 'role="alert"' not in client.get("/admin", headers=cookie).text
        clock.advance(seconds=61)
        assert client.get("/readyz").json()["data"] == {"status": "ready", "purges": "overdue"}
        assert client.get("/readyz", headers=PROXIED).json()["data"] == {"status": "ready"}
        assert 'role="alert"' in client.get("/admin", headers=cookie).text


def test_without_image_workers_the_host_is_ready_and_names_them_until_one_can_be_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.INFO), client_of(tmp_path / "data", ServerSettings()) as client:
        with monkeypatch.context() as patch:
            patch.setattr("sys.executable", str(tmp_path / "missing"))
            response = client.get("/readyz")
            assert response.status_code == 200
            data = response.json()["data"]
            assert "UnavailableError" in data.pop("cause")
            assert data == {"status": "ready", "unavailable": "image workers"}
            proxied = client.get("/readyz", headers=PROXIED)
            assert proxied.json()["data"] == {"status": "ready"}
        assert client.get("/readyz").json()["data"] == {"status": "ready"}
    events = [record.message for record in caplog.records if record.name != "imagehost.access"]
    assert [event for event in events if event.endswith(("ready", "start", "again"))] == [
        "worker process failed to start",
        "not ready",
        "ready again",
    ]


def test_readiness_starts_an_image_worker_only_until_one_was_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = list[object]()
    with ImageHost.open(tmp_path / "data", observe=measured.append) as host:
        for _ in range(2):
            host.maintenance.check_ready()
        (pid,) = host.maintenance.statistics().worker_pids
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        host.maintenance.check_ready()
        with monkeypatch.context() as patch:
            patch.setattr("sys.executable", str(tmp_path / "missing"))
            with pytest.raises(UnavailableError):
                host.upload(make_image(8, 8), owner="admin")
            with pytest.raises(UnavailableError, match="image workers"):
                host.maintenance.check_ready()
        host.maintenance.check_ready()
    assert sum(isinstance(each, WorkerStarted) for each in measured) == 2


def test_busy_image_workers_are_ready(tmp_path: Path) -> None:
    settings = attrs.evolve(ServerSettings(), rendering=attrs.evolve(ServerSettings().rendering, processes=1))
    with ImageHost.open(tmp_path / "data", settings=settings) as host:
        host.upload(make_image(8, 8), owner="admin")
        (pid,) = host.maintenance.statistics().worker_pids
        os.kill(pid, signal.SIGSTOP)
        uploads = [
            threading.Thread(target=lambda: host.upload(make_image(8, 8), owner="admin")) for _ in range(2)
        ]
        for upload in uploads:
            upload.start()
        while host.maintenance.statistics().workers.busy == 0:
            pass
        host.maintenance.check_ready()
        os.kill(pid, signal.SIGCONT)
        for upload in uploads:
            upload.join()


def test_without_its_image_store_the_host_is_ready_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with client_of(tmp_path / "data", ServerSettings()) as client:
        (tmp_path / "data" / "images").rename(tmp_path / "away")
        response = client.get("/readyz")
        assert response.status_code == 200
        data = response.json()["data"]
        assert "FileNotFoundError" in data.pop("cause")
        assert data == {"status": "ready", "unavailable": "storage"}
        proxied = client.get("/readyz", headers=PROXIED)
        assert proxied.json()["data"] == {"status": "ready", "unavailable": "storage"}
        assert "imagehost_storage_up 0.0" in client.get("/metrics").text
        (tmp_path / "away").rename(tmp_path / "data" / "images")
        assert client.get("/readyz").json()["data"] == {"status": "ready"}
        assert "imagehost_storage_up 1.0" in client.get("/metrics").text
    (line,) = [record for record in caplog.records if record.message == "not ready"]
    fields = vars(line)["fields"]
    assert (fields["reason"], "FileNotFoundError" in fields["cause"]) == ("storage", True)
    assert line.exc_info is None


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["", "", "a", "b"])), max_size=30))
def test_a_problem_is_logged_when_it_changes_and_once_a_minute_while_it_lasts(
    probes: list[tuple[float, str]],
) -> None:
    now, reason, last_logged = 0.0, "", 0.0
    lines = list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(  # type: ignore[method-assign]
        getattr(record, "fields", {}).get("reason", record.getMessage())
    )
    logger = logging.getLogger("imagehost.server")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    problems = ProblemLog("not ready", "ready again", logging.ERROR, lambda: now)
    try:
        for seconds, found in probes:
            now += seconds
            lines.clear()
            problems.record(found)
            if found != reason:
                assert lines == [found or "ready again"]
            else:
                assert lines == ([found] if found and now >= last_logged + REPEAT_SECONDS else [])
            last_logged, reason = now if lines else last_logged, found
    finally:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)


@pytest.mark.time_limit(30)
def test_checks_that_hang_take_one_thread_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "CHECK_SECONDS", 0.01)
    released, started = threading.Event(), list[str]()

    def hang() -> None:
        started.append("hang")
        released.wait(30)

    class Maintenance:
        readiness_checks: ClassVar = {"database": hang}

        def accepts_uploads(self) -> bool:
            return True

    class CachePurges:
        def longest_wait(self) -> timedelta:
            return timedelta(0)

    class HungHost:
        maintenance, settings, cache_purges = Maintenance(), ServerSettings(), CachePurges()

    async def probe() -> list[Readiness | BaseException]:
        monitor = ReadinessMonitor(HungHost(), ThreadLimiter(4))  # type: ignore[arg-type]
        results = await asyncio.gather(*(monitor.check() for _ in range(5)), return_exceptions=True)
        results += await asyncio.gather(monitor.check(), return_exceptions=True)
        released.set()
        return results

    for result in asyncio.run(probe()):
        assert isinstance(result, Readiness)
        assert list(result.failures) == ["database"]
    assert started == ["hang"]
