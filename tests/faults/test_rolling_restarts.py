"""Two hosts behind a load balancer, restarted one after the other under load: no request fails."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import attrs
import httpx2
import pytest
from attrs import define, field
from tests.faults.conftest import NO_LIMITS
from tests.faults.service_load import ServiceLoad
from tests.hosts import Engines, run_host
from tests.object_store import shared_s3_server
from tests.ports import free_port
from tests.postgres import PostgresServer
from tests.request_proxy import RequestLine, run_request_proxy

from imagehost_server.testing import RunningServer

pytestmark = pytest.mark.external

DRAIN_SECONDS = 300
"""Longer than any check takes: the test ends the time by a second SIGTERM."""
CHECK_SECONDS = 0.3
START_SECONDS = 150.0
DEADLINE = 25.0
VARIABLES = {
    **NO_LIMITS,
    "IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "0",
    "IMAGEHOST_SERVER_DRAIN_SECONDS": str(DRAIN_SECONDS),
}


@define
class LoadBalancer:
    """The routes of a proxy: in turn to the servers that were ready at their last check."""

    ports: list[int]
    ready: frozenset[int] = frozenset()
    _turns: Iterator[int] = field(factory=itertools.count)
    _ended: threading.Event = field(factory=threading.Event)
    _lock: threading.Lock = field(factory=threading.Lock)

    def route(self, _request: RequestLine) -> int:
        """Return the port of the next server."""
        ports = sorted(self.ready)
        return ports[next(self._turns) % len(ports)]

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Check all servers during a block, again and again."""
        threads = [threading.Thread(target=self._check, args=(port,), daemon=True) for port in self.ports]
        for thread in threads:
            thread.start()
        yield
        self._ended.set()
        for thread in threads:
            thread.join(DEADLINE)

    def wait(self, port: int, *, ready: bool) -> None:
        """Wait until a server is ready, or is not."""
        deadline = monotonic() + START_SECONDS
        while (port in self.ready) is not ready:
            assert monotonic() < deadline, f"expected a server with {ready=}"
            sleep(0.05)

    def _check(self, port: int) -> None:
        while not self._ended.wait(CHECK_SECONDS):
            # A server that is slow to respond keeps its state.
            with suppress(httpx2.TimeoutException):
                is_ready = _is_ready(port)
                with self._lock:
                    self.ready = self.ready | {port} if is_ready else self.ready - {port}


def _drain(server: RunningServer, balancer: LoadBalancer) -> None:
    """Send SIGTERM and wait for its effect: the system delivers two that are pending as one."""
    server.process.terminate()
    balancer.wait(server.port, ready=False)


def _is_ready(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=DEADLINE).status_code == 200
    except (httpx2.NetworkError, httpx2.RemoteProtocolError):
        return False


def test_restarts_of_two_hosts_one_after_the_other_fail_no_request(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    ports = [free_port() for _ in range(2)]
    balancer = LoadBalancer(ports)
    with ExitStack() as stack:
        engines = Engines(postgres_url, stack.enter_context(shared_s3_server()).url())
        proxy = stack.enter_context(run_request_proxy(balancer.route))
        variables = {**VARIABLES, "IMAGEHOST_BASE_URL": f"{proxy.origin}/v1"}

        def start(port: int) -> RunningServer:
            started = run_host(tmp_path / f"host-{port}", port, engines, variables)
            return stack.enter_context(started)

        servers = [start(port) for port in ports]
        stack.enter_context(balancer.checking())
        for port in ports:
            balancer.wait(port, ready=True)
        front = attrs.evolve(servers[0], base_url=f"{proxy.origin}/v1")
        load = ServiceLoad([front, front], servers[0].token, DEADLINE)
        with load.running():
            for server in servers:
                _drain(server, balancer)
                sleep(1)  # for requests that the load balancer has not forwarded yet
                server.stop()
                assert server.process.stdout is not None
                server.process.stdout.close()
                restarted = start(server.port)
                balancer.wait(restarted.port, ready=True)
                # The second signal, at the end of the test, stops it at once.
                stack.callback(_drain, restarted, balancer)
        load.check()
        counts = {status for _, status in load.statuses}
        assert not load.wrong
        # 404 is the response to reading an image that was deleted.
        assert counts <= {200, 404}, load.statuses
        assert load.statuses["POST", 200] > 10
