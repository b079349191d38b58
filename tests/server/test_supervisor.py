"""The supervisor of the server processes: `imagehost serve`, and one with shorter times than its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from tests.server_processes import children, is_running, server_processes
from tests.waiting import PATIENCE, wait_until

from imagehost_server.serve.config import ServerConfig
from imagehost_server.serve.server import DatedServerState, EventDrivenServer
from imagehost_server.serve.supervisor import PING, ServerProcess
from imagehost_server.settings import load
from imagehost_server.testing import environment, running

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server has no supervisor there")

PROGRAM = """
import os, socket, sys
from importlib import import_module
from pathlib import Path
from threading import Thread
from imagehost_server.serve import supervisor
from imagehost_server.settings import load

supervisor.PING_SECONDS = supervisor.STOP_SECONDS = 0.2
data, module = Path(sys.argv[1]), import_module(sys.argv[2])
config = module.ServerConfig(data, load(data, {}, {})[0])

def shorten_health_check():
    if os.read(0, 1):
        config.timeout_worker_healthcheck = 0.2

Thread(target=shorten_health_check, daemon=True).start()
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    sys.exit(supervisor.Supervisor(config, listener).run())
"""
"""A supervisor with shorter times; that of a health check is shorter once a line was written to it."""

FAILING = """
from imagehost_server.serve import config

async def failing(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no room"})

class ServerConfig(config.ServerConfig):
    def load_app(self):
        return lambda: failing
"""
"""A configuration whose application cannot start."""


DYING = """
import os, signal
from imagehost_server.serve import supervisor
from imagehost_server.serve.config import ServerConfig
from uvicorn.supervisors.multiprocess import Multiprocess

supervisor.PING_SECONDS = 3_600.0
check, killed = Multiprocess.keep_subprocess_alive, []

def check_and_kill(self):
    check(self)
    if self.processes[0].is_serving and not killed:
        killed.append(self.processes[0].pid)
        os.kill(killed[0], signal.SIGKILL)
        self.processes[0].process.join()

Multiprocess.keep_subprocess_alive = check_and_kill
"""
"""A configuration with which the first server process is killed just after the check that it runs."""


@contextmanager
def supervise(
    directory: Path, module: str = "imagehost_server.serve.config"
) -> Iterator[subprocess.Popen[str]]:
    """Run `PROGRAM` for a block, with the configuration of a module."""
    command = [sys.executable, "-c", PROGRAM, str(directory / "data"), module]
    variables = environment({"PYTHONPATH": str(directory)})
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=variables, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def serving_process(supervisor: subprocess.Popen[str]) -> int:
    """Wait until the one process of `PROGRAM` serves requests; return its ID."""
    assert supervisor.stdout is not None
    port = int(supervisor.stdout.readline())
    wait_until(lambda: status_of(f"http://127.0.0.1:{port}/healthz") == 200)
    (pid,) = server_processes(supervisor.pid)
    return pid


def status_of(url: str) -> int:
    """Return the status of a response on a connection of its own; 0 if nothing listens."""
    with suppress(httpx2.TransportError):
        return httpx2.get(url, timeout=PATIENCE).status_code
    return 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_processes(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path / "data", "--workers", "2") as server:
        pids = server_processes(server.process.pid)
        assert len(pids) == 2
        if sys.platform == "linux":
            # A fork of a process with threads may wait for a lock that none of its own will release.
            assert len(list(Path(f"/proc/{server.process.pid}/task").iterdir())) == 1
        server.process.send_signal(number)
        assert server.process.wait(60) == 0
        assert not any(map(is_running, pids))


@pytest.mark.slow
def test_processes_end_with_a_killed_supervisor_and_the_next_start_has_the_port(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--workers", "2") as server:
        pids = server_processes(server.process.pid)
        server.process.kill()
        server.process.wait()
        with running(tmp_path / "data", "--port", str(server.port)) as second:
            assert status_of(f"{second.origin}/healthz") == 200
            assert not any(map(is_running, pids))


@pytest.mark.slow
def test_a_server_that_drains_serves_on_until_the_second_signal(tmp_path: Path) -> None:
    variables = {"IMAGEHOST_SERVER_DRAIN_SECONDS": "600"}
    with running(tmp_path / "data", "--workers", "2", variables=variables) as server:
        wait_until(lambda: status_of(f"{server.origin}/readyz") == 200)
        server.process.terminate()
        wait_until(lambda: status_of(f"{server.origin}/readyz") == 503)
        assert {status_of(f"{server.origin}/healthz") for _ in range(8)} == {200}
        server.process.terminate()
        assert server.process.wait(60) == 0


@pytest.mark.slow
def test_a_server_that_drains_stops_after_a_time(tmp_path: Path) -> None:
    with running(tmp_path / "data", variables={"IMAGEHOST_SERVER_DRAIN_SECONDS": "0.1"}) as server:
        server.process.terminate()
        assert server.process.wait(60) == 0


@pytest.mark.slow
def test_sighup_replaces_all_processes_without_refusing_a_request(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--workers", "2") as server:
        old = set(server_processes(server.process.pid))
        server.process.send_signal(signal.SIGHUP)
        statuses = set[int]()

        def is_replaced() -> bool:
            statuses.add(status_of(f"{server.origin}/healthz"))
            new = set(server_processes(server.process.pid))
            return len(new) == 2 and not new & old

        wait_until(is_replaced)
        assert statuses == {200}


@pytest.mark.slow
def test_a_process_that_hangs_is_replaced(tmp_path: Path) -> None:
    with supervise(tmp_path) as supervisor:
        pid = serving_process(supervisor)
        os.kill(pid, signal.SIGSTOP)
        assert supervisor.stdin is not None
        supervisor.stdin.write("\n")
        supervisor.stdin.flush()
        wait_until(lambda: server_processes(supervisor.pid) not in ([], [pid]))
        supervisor.terminate()
        _, errors = supervisor.communicate(timeout=PATIENCE)
    assert f"server worker exited pid={pid} exitcode=-9\n" in errors


@pytest.mark.slow
def test_a_process_that_exits_during_a_check_is_replaced_at_once(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(DYING, encoding="utf-8")
    with supervise(tmp_path, "dying") as process:
        wait_until(lambda: server_processes(process.pid))
        (first,) = server_processes(process.pid)
        wait_until(lambda: any(is_running(pid) for pid in server_processes(process.pid) if pid != first))
        process.terminate()
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read().count("server worker exited") == 1


def test_a_process_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    with supervise(tmp_path) as supervisor:
        pid = serving_process(supervisor)
        os.kill(pid, signal.SIGSTOP)
        supervisor.terminate()
        assert supervisor.wait(60) == 0
        assert not is_running(pid)


@pytest.mark.slow
def test_a_start_that_fails_is_reported_and_ends_the_supervisor(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING, encoding="utf-8")
    with supervise(tmp_path, "failing") as supervisor:
        _, errors = supervisor.communicate(timeout=PATIENCE)
    assert supervisor.returncode == 3
    assert errors.count("no room") == 1
    assert errors.count("failed to start") == 1


@pytest.mark.slow
def test_an_error_of_a_process_is_in_the_log(tmp_path: Path) -> None:
    raising = FAILING.replace("return lambda: failing", "raise OSError('expected a certificate')")
    (tmp_path / "raising.py").write_text(raising, encoding="utf-8")
    with supervise(tmp_path, "raising") as supervisor:
        assert supervisor.stderr is not None
        line = supervisor.stderr.readline()
        assert line.endswith(' imagehost.server server worker failed cause="expected a certificate"\n')


def test_the_event_loop_that_serves_requests_answers_pings(tmp_path: Path) -> None:
    settings, _ = load(tmp_path, {}, {})
    config = ServerConfig(tmp_path, settings)
    process = ServerProcess(config, [])
    process._server = server = EventDrivenServer(config)
    process.parent_conn.send(PING)
    process.pong()
    assert process.parent_conn.recv() is False
    server.loop = loop = asyncio.new_event_loop()
    process.parent_conn.send(PING)
    process.pong()
    assert not process.parent_conn.poll()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert process.parent_conn.recv() is True


def test_the_date_header_changes_with_the_second_only() -> None:
    now = [1_700_000_000.0]
    state = DatedServerState(lambda: now[0])
    first = state.default_headers
    now[0] += 0.9
    assert state.default_headers is first == [(b"date", b"Tue, 14 Nov 2023 22:13:20 GMT")]
    now[0] += 0.1
    assert state.default_headers == [(b"date", b"Tue, 14 Nov 2023 22:13:21 GMT")]
    state.default_headers = []
    assert state.default_headers == [(b"date", b"Tue, 14 Nov 2023 22:13:21 GMT")]


def wake_ups(pid: int) -> int:
    """Return how often the threads of a process and of its children have waited for something."""
    texts = [path.read_text(encoding="utf-8") for path in Path(f"/proc/{pid}/task").glob("*/status")]
    own = sum(
        int(count) for text in texts for count in re.findall(r"\nvoluntary_ctxt_switches:\s+(\d+)", text)
    )
    return own + sum(map(wake_ups, children(pid, "")))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_idle_server_lets_the_cpu_sleep(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:

        def is_idle() -> bool:
            before = wake_ups(server.process.pid)
            time.sleep(2)
            # The outbox and the pings take fewer than 2 a second on average; a timer of 0.1 s takes 20.
            return wake_ups(server.process.pid) - before <= 8

        wait_until(is_idle)
