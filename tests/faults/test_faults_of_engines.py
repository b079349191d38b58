"""Two hosts under load while their PostgreSQL server or their object store fails.

`IMAGEHOST_TEST_FAULT_SECONDS` is the duration of each fault.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest
from attrs import define
from tests.fault_proxy import Fault, FaultProxy, run_fault_proxy
from tests.faults.conftest import NO_LIMITS
from tests.faults.service_load import ServiceLoad, new_client
from tests.hosts import Engines, run_hosts
from tests.object_store import S3Server, shared_s3_server
from tests.postgres import PostgresServer, run_postgres
from tests.tcp_proxy import TcpProxy, run_tcp_proxy

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, environment

pytestmark = pytest.mark.external

FAULT_SECONDS = float(os.environ.get("IMAGEHOST_TEST_FAULT_SECONDS", "3"))
RECOVERY_SECONDS = 10.0
NOTICE_SECONDS = 15.0
"""The time in which `/readyz` must name what has failed: its checks take up to 5 seconds."""
POSTGRES_SECONDS, STATEMENT_SECONDS, STORAGE_SECONDS = 2, 4, 5
VARIABLES = {
    **NO_LIMITS,
    "IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "0",
    "IMAGEHOST_POSTGRES_TIMEOUT_SECONDS": str(POSTGRES_SECONDS),
    "IMAGEHOST_POSTGRES_STATEMENT_TIMEOUT_SECONDS": str(STATEMENT_SECONDS),
    "IMAGEHOST_STORAGE_TIMEOUT_SECONDS": str(STORAGE_SECONDS),
}
DEADLINE = 25.0
"""The longest duration of a response: a thread (5 s), a connection and a lock (4), a statement that is given
up and cancelled (7), the object store (5), and the lease of the other host (3.5)."""
MANY = 10**9

log = logging.getLogger(__name__)


@define
class Service:
    """Two hosts with a proxy before each of their engines; the URL of the database names its standby too."""

    servers: list[RunningServer]
    token: str
    postgres: PostgresServer
    standby: PostgresServer
    s3: S3Server
    tcp: TcpProxy
    s3_tcp: TcpProxy
    s3_http: FaultProxy
    engines: Engines

    def not_ready(self) -> list[str]:
        """Return why each host is not ready; "" if it is."""
        reasons = []
        for server in self.servers:
            try:
                response = httpx2.get(f"{server.origin}/readyz", timeout=DEADLINE)
            except httpx2.TransportError as error:
                reasons.append(type(error).__name__)
            else:
                body = response.json()
                ready = response.status_code == 200
                reasons.append(body["data"].get("unavailable", "") if ready else body["error"]["details"])
        return reasons

    def is_replicated(self) -> bool:
        """Return whether commits wait for the standby."""
        with psycopg.connect(self.postgres.url_of()) as connection:
            row = connection.execute("SELECT sync_state FROM pg_stat_replication").fetchone()
        return row == ("sync",)

    def is_working(self) -> bool:
        """Return whether each host uploads, lists, reads and deletes."""
        for server in self.servers:
            with new_client(server, self.token, DEADLINE) as client:
                try:
                    files, options = {"image": ("a.png", make_image(24, 16))}, {"convertToWebP": "false"}
                    response = client.post("/v1/upload", files=files, data=options)
                    if response.status_code != 200:
                        return False
                    image_id = response.json()["data"]["id"]
                    requests = [("GET", "/v1/images"), ("GET", f"/img/{image_id}")]
                    requests.append(("DELETE", f"/v1/images/{image_id}"))
                    if any(client.request(*request).status_code != 200 for request in requests):
                        return False
                except httpx2.TransportError:
                    return False
        return self.not_ready() == ["", ""]


@contextmanager
def run_service(directory: Path, postgres: PostgresServer, standby: PostgresServer) -> Iterator[Service]:
    with ExitStack() as stack:
        tcp = stack.enter_context(run_tcp_proxy(postgres.port))
        s3 = stack.enter_context(shared_s3_server())
        s3_tcp = stack.enter_context(run_tcp_proxy(urlsplit(s3.endpoint).port or 0))
        s3_http = stack.enter_context(run_fault_proxy(f"http://127.0.0.1:{s3_tcp.port}"))
        database = f"postgresql://postgres@127.0.0.1:{tcp.port},127.0.0.1:{standby.port}/service"
        engines = Engines(database, s3.url(endpoint=s3_http.endpoint))
        servers = stack.enter_context(run_hosts(directory, engines, engines, variables=VARIABLES))
        yield Service(servers, servers[0].token, postgres, standby, s3, tcp, s3_tcp, s3_http, engines)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_postgres() as postgres:
        postgres.execute("CREATE DATABASE service TEMPLATE template0")
        with (
            run_postgres(primary=postgres) as standby,
            run_service(tmp_path_factory.mktemp("service"), postgres, standby) as started,
        ):
            yield started


@contextmanager
def postgres_stopped(service: Service) -> Iterator[None]:
    pids = service.postgres.pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def postgres_killed(service: Service) -> Iterator[None]:
    service.postgres.stop(signal.SIGQUIT)
    yield
    service.postgres.start()


@contextmanager
def postgres_cut_off(service: Service) -> Iterator[None]:
    service.tcp.cut()
    yield
    service.tcp.restore()


@contextmanager
def postgres_slow(service: Service) -> Iterator[None]:
    service.tcp.delay = 0.2
    yield
    service.tcp.delay = 0


@contextmanager
def postgres_failed_over(service: Service) -> Iterator[None]:
    """Kill the primary of a synchronous standby, and promote the standby; there is no way back."""
    service.postgres.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    service.postgres.execute("SELECT pg_reload_conf()")
    until(service.is_replicated, DEADLINE, "the standby is not synchronous")
    sleep(1)  # of confirmed changes
    service.postgres.kill()
    yield
    service.standby.promote()


@contextmanager
def store_stopped(service: Service) -> Iterator[None]:
    os.kill(service.s3.pid, signal.SIGSTOP)
    yield
    os.kill(service.s3.pid, signal.SIGCONT)


@contextmanager
def store_slow(service: Service) -> Iterator[None]:
    service.s3_tcp.delay = 0.2
    yield
    service.s3_tcp.delay = 0


def store_faulty(fault: Fault, method: str = "") -> Callable[[Service], AbstractContextManager[None]]:
    @contextmanager
    def inject(service: Service) -> Iterator[None]:
        service.s3_http.inject(fault, method, times=MANY)
        yield
        service.s3_http.clear()

    return inject


FAULTS = {
    "postgres-stopped": (postgres_stopped, "database"),
    "postgres-killed": (postgres_killed, "database"),
    "postgres-cut-off": (postgres_cut_off, "database"),
    "postgres-slow": (postgres_slow, ""),
    "store-stopped": (store_stopped, "storage"),
    "store-slow": (store_slow, ""),
    "store-500": (store_faulty(Fault.ERROR_500), "storage"),
    "store-503": (store_faulty(Fault.ERROR_503), "storage"),
    "store-truncates": (store_faulty(Fault.TRUNCATE, "GET"), None),
    "postgres-failed-over": (postgres_failed_over, "database"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_hosts_confirm_nothing_wrong_and_recover_from_a_fault_of_their_engines(
    service: Service, name: str, record_property: Callable[[str, object], None]
) -> None:
    inject, failed = FAULTS[name]
    load = ServiceLoad(service.servers, service.token, DEADLINE)
    with load.running():
        until(lambda: len(load.stored) > 12, DEADLINE, "no load")
        with inject(service):
            started = monotonic()
            if failed:
                until(
                    lambda: all(failed in reason for reason in service.not_ready()),
                    NOTICE_SECONDS,
                    "/readyz does not name it",
                )
            elif failed == "":
                assert service.not_ready() == ["", ""]
            sleep(max(0.0, FAULT_SECONDS - (monotonic() - started)))
        recovered = until(service.is_working, RECOVERY_SECONDS, "not recovered")
    load.check()
    record_property("recovered", recovered)
    record_property("slowest", load.slowest)
    counts = {f"{method} {status}": count for (method, status), count in sorted(load.statuses.items())}
    log.info("%s: recovered in %.1f s, slowest response %.1f s: %s", name, recovered, load.slowest, counts)
    assert not load.wrong
    assert {status for _, status in load.statuses} <= {0, 200, 404, 503}


def test_no_finding_is_left_after_the_faults(service: Service) -> None:
    environ = environment({**VARIABLES, **service.engines.variables})
    for server in service.servers:
        # A server finishes interrupted deletions once a minute; this does it now.
        for command in ("gc", "fsck"):
            arguments = [sys.executable, "-m", "imagehost_server", command, "--json", "--data", server.data]
            result = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environ)
            assert result.returncode == 0, result.stdout + result.stderr


def until(condition: Callable[[], bool], seconds: float, failure: str) -> float:
    """Wait until a condition is true; return how long it took, in seconds."""
    started = monotonic()
    while not condition():
        assert monotonic() - started < seconds, failure
        sleep(0.1)
    return monotonic() - started
