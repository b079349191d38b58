"""The supervisor of the server processes, with small programs in their place."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imagehost_server.serve import supervisor
from imagehost_server.serve.server import DatedServerState
from imagehost_server.testing import running

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server has no supervisor there")

CHILD = """
import os, signal, socket, sys, time
log, behaviour, channel = sys.argv[1], sys.argv[2], socket.socket(fileno=int(sys.argv[3]))
def write(event):
    with open(log, "a") as file:
        file.write(f"{event} {os.getpid()}\\n")
def stop(*_):
    write("stopped")
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "stubborn" else stop)
write("started")
if behaviour == "fails":
    sys.exit(3)
write("ready")
channel.send(b"r")
write("serving")
if behaviour == "hangs" and open(log).read().count("started") == 1:
    time.sleep(60)
while data := channel.recv(100):
    if b"d" in data:
        write("drained")
    channel.send(data)
write("orphaned")
"""
"""A child: it logs its events to a file, and answers pings unless its behaviour is another."""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of the children."""
    (tmp_path / "log").touch()
    return tmp_path / "log"


@pytest.fixture
def start(tmp_path: Path, log: Path) -> Iterator[Start]:
    """A function that starts a supervisor with children of the given behaviours."""
    program = tmp_path / "child.py"
    program.write_text(CHILD, encoding="utf-8")
    started: list[subprocess.Popen[str]] = []

    def start(*behaviours: str, **options: object) -> subprocess.Popen[str]:
        base = [sys.executable, "-S", str(program), str(log)]
        commands = [[*base, behaviour] for behaviour in behaviours]
        values = {"commands": commands, "descriptors": [], "log_warnings": True}
        argument = json.dumps(values | options)
        # Without site-packages, as `runner` starts it.
        command = [sys.executable, "-I", "-S", str(supervisor.__file__), argument]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def events(log: Path, kind: str, count: int = 1) -> list[int]:
    """Wait until the log has a number of events of a kind; return their process IDs."""
    deadline = time.monotonic() + 30
    while True:
        lines = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
        pids = [int(line[1]) for line in lines if len(line) == 2 and line[0] == kind]
        if len(pids) >= count:
            return pids
        assert time.monotonic() < deadline, lines
        time.sleep(0.01)


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    """Stop a supervisor; return its standard error."""
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    return errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_children_and_then_the_supervisor(start: Start, log: Path, number: int) -> None:
    process = start("serves", "serves")
    pids = events(log, "ready", 2)
    assert stop(process, number) == ""
    assert sorted(events(log, "stopped", 2)) == sorted(pids)


def test_children_that_drain_serve_on_until_the_second_signal(start: Start, log: Path) -> None:
    process = start("serves", "serves", drain_seconds=600)
    events(log, "serving", 2)
    process.send_signal(signal.SIGTERM)
    assert len(set(events(log, "drained", 2))) == 2
    assert "stopped" not in log.read_text(encoding="utf-8")
    assert stop(process) == ""
    assert len(events(log, "stopped", 2)) == 2


def test_children_that_drain_are_stopped_after_a_time(start: Start, log: Path) -> None:
    process = start("serves", drain_seconds=0.2)
    events(log, "serving")
    assert stop(process) == ""
    assert events(log, "drained") == events(log, "stopped")


def test_a_child_that_dies_is_replaced_and_logged(start: Start, log: Path) -> None:
    process = start("serves", "serves")
    killed, other = events(log, "ready", 2)
    os.kill(killed, signal.SIGKILL)
    *_, replacement = events(log, "ready", 3)
    assert f"server worker exited; starting another pid={killed} exitcode=-9\n" in stop(process)
    assert sorted(events(log, "stopped", 2)) == sorted([other, replacement])


@pytest.mark.slow
def test_a_child_that_answers_no_ping_is_replaced(start: Start, log: Path) -> None:
    process = start("hangs", ping_seconds=1.5)
    hanging, replacement = events(log, "ready", 2)
    assert f"pid={hanging} exitcode=-9" in stop(process)
    assert events(log, "stopped") == [replacement]


def test_a_child_that_does_not_stop_is_killed(start: Start, log: Path) -> None:
    process = start("stubborn", stop_seconds=0.2)
    (pid,) = events(log, "started")
    stop(process)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_that_cannot_start_stops_the_supervisor_with_its_status(start: Start, log: Path) -> None:
    process = start("serves", "fails")
    process.communicate(timeout=30)
    assert process.returncode == supervisor.STARTUP_FAILURE
    assert "ready" not in log.read_text(encoding="utf-8") or events(log, "stopped") == events(log, "ready")


def test_sighup_replaces_each_child_once_its_successor_is_ready(start: Start, log: Path) -> None:
    process = start("serves", "serves")
    old = events(log, "serving", 2)
    process.send_signal(signal.SIGHUP)
    assert sorted(events(log, "stopped", 2)) == sorted(old)
    kinds = [line.split()[0] for line in log.read_text(encoding="utf-8").splitlines()]
    assert kinds[: kinds.index("stopped")].count("ready") >= 3
    new = events(log, "ready", 4)[2:]
    assert stop(process) == ""
    assert sorted(events(log, "stopped", 4)[2:]) == sorted(new)


def test_children_exit_when_the_supervisor_is_killed(start: Start, log: Path) -> None:
    process = start("serves", "serves")
    # A child that is ready still has to say so, which fails once the supervisor is gone.
    pids = events(log, "serving", 2)
    process.kill()
    assert sorted(events(log, "orphaned", 2)) == sorted(pids)


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
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    texts = [path.read_text(encoding="utf-8") for path in Path(f"/proc/{pid}/task").glob("*/status")]
    own = sum(
        int(count) for text in texts for count in re.findall(r"\nvoluntary_ctxt_switches:\s+(\d+)", text)
    )
    return own + sum(wake_ups(int(child)) for child in children)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_idle_server_lets_the_cpu_sleep(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        deadline = time.monotonic() + 60
        while True:
            before = wake_ups(server.process.pid)
            time.sleep(2)
            # The outbox and the pings take fewer than 2 a second on average; a timer of 0.1 s takes 20.
            if wake_ups(server.process.pid) - before <= 8:
                break
            assert time.monotonic() < deadline
