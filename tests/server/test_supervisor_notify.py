"""The supervisor's reports to systemd: sd_notify(3), with a socket in the place of systemd's."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from imagehost_server.serve import supervisor
from imagehost_server.serve.runner import free_port
from imagehost_server.testing import RunningServer, running

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server has no supervisor there")

HANGING = """
import signal, socket, sys
channel = socket.socket(fileno=int(sys.argv[1]))
channel.send(b"r")
print("ready", flush=True)
signal.pause()
"""
"""A server process that never answers a ping."""

STARTING = """
import signal, socket, sys
print("started", flush=True)
open(sys.argv[1]).read()
socket.socket(fileno=int(sys.argv[2])).send(b"r")
signal.pause()
"""
"""A server process that is ready when something opens and closes a named pipe for writing."""

BLOCKED = """
import asyncio, sys
from imagehost_server.serve.process import SupervisorChannel
channel = SupervisorChannel(int(sys.argv[1]))
print("before its loop runs", flush=True)
sys.stdin.readline()
async def main():
    channel.ready(asyncio.get_running_loop())
    print("its loop is blocked", flush=True)
    sys.stdin.readline()
    await asyncio.sleep(60)
asyncio.run(main())
"""
"""A server process whose event loop does not run while it waits for standard input."""


class ServiceManager:
    """The receiving end of sd_notify(3).

    Attributes:
        address: The value of NOTIFY_SOCKET.
        received: All messages so far.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.received: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.settimeout(30)

    def receive(self) -> str:
        """Return the next message."""
        self.received.append(self._socket.recv(4_096).decode())
        return self.received[-1]

    def wait_for(self, message: str) -> None:
        """Receive until a message is the given one."""
        while self.receive() != message:
            pass

    def is_sent_something(self, seconds: float = 0) -> bool:
        """Return whether there is a message to receive, after at most that time."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def drain(self) -> None:
        """Receive what has been sent already."""
        while self.is_sent_something():
            self.receive()

    def close(self) -> None:
        self._socket.close()


@contextmanager
def supervise(
    command: list[str], manager: ServiceManager, watchdog_usec: int = 0
) -> Iterator[subprocess.Popen[str]]:
    """Run a supervisor of one small program as its server process."""
    options = {"commands": [command], "descriptors": [], "log_warnings": True}
    arguments = [sys.executable, "-I", "-S", str(supervisor.__file__), json.dumps(options)]
    variables = os.environ | {"NOTIFY_SOCKET": manager.address}
    if watchdog_usec:
        variables["WATCHDOG_USEC"] = str(watchdog_usec)
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, env=variables, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.fixture(params=["a path", "an abstract name"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceManager]:
    """A service manager whose socket has a path or an abstract name."""
    if request.param != "a path" and sys.platform != "linux":
        pytest.skip("only Linux has abstract sockets")
    manager = ServiceManager(
        str(tmp_path / "notify") if request.param == "a path" else f"@imagehost-test-{os.getpid()}"
    )
    yield manager
    manager.close()


@pytest.mark.slow
def test_ready_is_sent_once_the_port_responds_and_stopping_at_the_end(
    manager: ServiceManager, tmp_path: Path
) -> None:
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "imagehost_server", "serve", "--port", str(port)]
    variables = {"NOTIFY_SOCKET": manager.address, "IMAGEHOST_DATA": str(tmp_path / "data")}
    process = subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.DEVNULL)
    try:
        manager.wait_for("READY=1")
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as response:
            assert response.status == 200
        process.send_signal(signal.SIGHUP)
        assert manager.receive().startswith("RELOADING=1\nMONOTONIC_USEC=")
        manager.wait_for("READY=1")
        process.terminate()
        manager.wait_for("STOPPING=1")
        assert process.wait(30) == 0
        manager.drain()
        assert manager.received[-1] == "STOPPING=1"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def watched(manager: ServiceManager, tmp_path: Path) -> Iterator[RunningServer]:
    """A server whose watchdog time is six seconds, so that it pings its processes every two."""
    variables = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "6000000"}
    with running(tmp_path / "data", variables=variables) as server:
        yield server


@pytest.mark.slow
def test_the_watchdog_hears_of_a_server_again_and_again(
    manager: ServiceManager, watched: RunningServer
) -> None:
    manager.wait_for("READY=1")
    for _ in range(3):
        manager.wait_for("WATCHDOG=1")


@pytest.mark.slow
def test_the_watchdog_hears_nothing_of_a_server_process_that_hangs_until_it_is_replaced(
    manager: ServiceManager, watched: RunningServer
) -> None:
    manager.wait_for("READY=1")
    manager.wait_for("WATCHDOG=1")
    pid = watched.process.pid
    (hanging,) = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    os.kill(int(hanging), signal.SIGSTOP)
    manager.drain()
    # Killed after two to four seconds; only its successor answers.
    manager.wait_for("WATCHDOG=1")
    assert not Path(f"/proc/{hanging}").exists()


def test_a_server_that_is_still_starting_is_not_ready(manager: ServiceManager, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with supervise([sys.executable, "-c", STARTING, str(tmp_path / "pipe")], manager) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        # Wakes it up.
        process.send_signal(signal.SIGCHLD)
        assert not manager.is_sent_something(0.2)
        (tmp_path / "pipe").write_text("", encoding="utf-8")
        assert manager.receive() == "READY=1"


def test_the_watchdog_hears_nothing_while_no_server_process_answers(manager: ServiceManager) -> None:
    with supervise([sys.executable, "-c", HANGING], manager, watchdog_usec=600_000) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline() == "ready\n"
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert errors.count("server worker exited; starting another") >= 2
    manager.drain()
    assert set(manager.received) == {"READY=1", "STOPPING=1"}


def test_another_process_of_the_service_is_not_the_watched_one() -> None:
    variables = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1", "HOME": "/"}
    assert supervisor.Notifier(variables, 2).watchdog_seconds == 0
    assert variables == {"HOME": "/"}


def test_without_a_service_manager_a_report_raises_no_exception(tmp_path: Path) -> None:
    supervisor.Notifier({}, 1).send("READY=1")
    supervisor.Notifier({"NOTIFY_SOCKET": str(tmp_path / "missing")}, 1).send("READY=1")


def test_a_ping_is_answered_by_the_event_loop_that_serves_requests() -> None:
    remote, local = socket.socketpair()
    remote.settimeout(30)
    command = [sys.executable, "-c", BLOCKED, str(local.fileno())]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, pass_fds=[local.fileno()], text=True) as process:
        local.close()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "before its loop runs\n"
        remote.send(supervisor.PING)
        assert remote.recv(1) == supervisor.PING
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert remote.recv(1) == supervisor.READY
        assert process.stdout.readline() == "its loop is blocked\n"
        remote.send(supervisor.PING)
        assert select.select([remote], [], [], 0.2)[0] == []
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert remote.recv(1) == supervisor.PING
        remote.close()
        assert process.wait(30) == 1
