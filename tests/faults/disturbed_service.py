"""A server that is restarted, whose processes are killed and whose clock jumps; a receiver of webhooks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from pathlib import Path
from time import monotonic, sleep

import httpx2
from attrs import define, field
from tests.faults.process_usage import pids_of, read_usage
from tests.faults.webhook_server import run_webhook_server
from tests.ports import free_port

from imagehost_server.testing import RunningServer, environment, start

IDLE_SECONDS = 60.0
COMMANDS = {
    "backup": ("backup", "{directory}/backup.tar.zst"),
    "gc": ("gc",),
}
CLOCKS = {"clock ahead": 1, "clock behind": -1, "clock": 0}
"""The steps that set the clock, with the direction."""
CLOCK_VARIABLES = ("LD_PRELOAD", "PYTHONPATH", "FAKETIME_")


@define
class Receiver:
    """A receiver of webhooks that refuses some of the first attempts.

    Attributes:
        url: Its URL.
        received: The kind of each event that it has accepted, and the id of its image.
    """

    url: str = ""
    received: set[tuple[str, str]] = field(factory=set)
    _seen: set[str] = field(factory=set)

    def accept(self, event_id: str, body: bytes) -> bool:
        """Return whether an attempt succeeds: each 20th event does not at first."""
        is_first = event_id not in self._seen
        self._seen.add(event_id)
        if is_first and len(self._seen) % 20 == 0:
            return False
        event = json.loads(body)
        self.received.add((event["type"], event["data"]["id"]))
        return True


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    """Serve a receiver during a block."""
    receiver = Receiver()

    def respond(headers: Message, body: bytes) -> int:
        return 204 if receiver.accept(headers["webhook-id"], body) else 500

    with run_webhook_server(respond) as receiver.url:
        yield receiver


@define
class Service:
    """The server under test, and what disturbs it.

    Args:
        directory: The directory of all files.
        variables: The settings of the server.
        clock_seconds: The size of a jump of its clock.

    Attributes:
        server: The server that runs now.
        token: Its token.
        is_disturbed: Set while requests may fail.
        wrong: Commands that have failed.
    """

    directory: Path
    variables: dict[str, str]
    clock_seconds: int = 3_600
    is_disturbed: threading.Event = field(factory=threading.Event)
    wrong: list[str] = field(factory=list)
    done: list[str] = field(factory=list)
    token: str = ""
    server: RunningServer = field(init=False)
    _port: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.set_clock("clock")
        self._port = free_port()
        self.start()
        self.token = self.server.token

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    def start(self) -> None:
        """Start the server."""
        flags = ("--workers", "2", "--port", str(self._port))
        self.server = start(self.data, *flags, variables=self.variables)

    def set_clock(self, step: str) -> None:
        """Set the clock of the server and of commands."""
        path = self.directory / "clock"
        path.with_suffix(".new").write_text(f"{CLOCKS[step] * self.clock_seconds:+}\n", encoding="ascii")
        path.with_suffix(".new").replace(path)

    def run_command(self, *arguments: str) -> str:
        """Run a command on the data directory, and return its standard output."""
        result = self._try_command(*arguments)
        if result.returncode:
            self.wrong.append(f"{arguments}: {result.returncode} {result.stdout}{result.stderr}")
        return result.stdout

    def check(self) -> None:
        """Run `imagehost fsck`.

        Files of uploads that were killed belong in an object store to no upload when they are an hour old.
        What garbage collection removes then is not wrong.
        """
        findings = json.loads(self._try_command("fsck", "--json").stdout)["findings"]
        if {finding["kind"] for finding in findings} == {"orphan"}:
            self.run_command("gc")
        self.run_command("fsck")

    def _try_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "imagehost_server", *arguments, "--data", str(self.data)]
        environ = environment(self.variables)
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environ)

    def disturb(self, step: str) -> None:
        """Restart the server or kill processes; requests may fail meanwhile."""
        self.is_disturbed.set()
        try:
            if step == "restart":
                if self.server.stop() != 0:
                    self.wrong.append("restart: expected status 0")
                self._close_output()
                self.start()
            elif step == "kill server":
                self.server.kill()
                self._close_output()
                self.start()
            else:
                self._kill_one(step.removeprefix("kill "))
            self._wait_until_ready()
        finally:
            self.is_disturbed.clear()
        self.done.append(step)

    def run_step(self, step: str) -> None:
        """Do what ends no server process."""
        if step in CLOCKS:
            self.set_clock(step)
        elif step == "fsck":
            self.check()
        elif step in COMMANDS:
            self.run_command(*(part.format(directory=self.directory) for part in COMMANDS[step]))
        else:
            self._kill_one(step.removeprefix("kill "))
        self.done.append(step)

    def use_real_clock(self) -> None:
        """Restart the server without the library that sets its clock."""
        self.set_clock("clock")
        self.variables = {
            name: value for name, value in self.variables.items() if not name.startswith(CLOCK_VARIABLES)
        }
        self.disturb("restart")

    def stop(self) -> None:
        """Stop the server."""
        if self.server.stop() != 0:
            self.wrong.append("stop: expected status 0")
        self._close_output()

    def _close_output(self) -> None:
        assert self.server.process.stdout is not None
        self.server.process.stdout.close()

    def _kill_one(self, role: str) -> None:
        for pid in pids_of(read_usage(self.server.process.pid), role)[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _wait_until_ready(self) -> None:
        """Wait until a dead process is replaced: ten responses in sequence, of both processes."""
        deadline, ready = monotonic() + IDLE_SECONDS, 0
        while ready < 10 or len(pids_of(read_usage(self.server.process.pid), "server process")) < 2:
            assert monotonic() < deadline, "expected a server that is ready"
            sleep(0.2)
            try:
                response = httpx2.get(f"{self.server.origin}/readyz", timeout=5)
                ready = ready + 1 if response.status_code == 200 else 0
            except httpx2.TransportError:
                ready = 0


def until(condition: Callable[[], bool], seconds: float = IDLE_SECONDS) -> bool:
    """Return whether a condition becomes true in time."""
    deadline = monotonic() + seconds
    while not condition():
        if monotonic() > deadline:
            return False
        sleep(0.2)
    return True
