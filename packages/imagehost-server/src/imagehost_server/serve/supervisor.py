"""The supervisor: the parent process, which starts the others, replaces those that die, and stops them.

`runner` executes this file as a program in an interpreter without site-packages. So it imports the standard
library only, and takes a third of the memory of a server process. It waits for signals, for exits and for
messages, and polls nothing.

Each child has a channel: a socket on which the supervisor sends a byte now and then, and the child
returns one. A child whose channel is closed exits, so that none outlives a supervisor that was killed.

Where systemd started it (`Type=notify`), it reports its state to systemd: sd_notify(3).
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from functools import partial

STARTUP_FAILURE = 3
"""The exit status of a server process that no other start could help, as uvicorn defines it."""
STOP_SECONDS = 20.0
PING_SECONDS = 15.0
"""The defaults of `Supervisor`: twice the grace period of requests in progress; and a quarter of a wake-up of
an idle server in a second."""
STARTUP_SECONDS = 120.0
"""The time in which a child must answer its first ping. It imports its modules before: 1 to 3 seconds of CPU,
which took more than 30 seconds beside 17 other processes on two cores."""
START_INTERVAL_SECONDS = 1.0
"""The shortest time between two starts of the same child, so that one which dies at once takes no core."""
PINGS_PER_WATCHDOG = 3
"""Pings in systemd's watchdog time: a child that does not answer is replaced before systemd restarts all."""
EXITED = getattr(signal, "SIGCHLD", 0)
REPLACE = getattr(signal, "SIGHUP", 0)
"""Signals that Windows lacks; there this module is imported, but no supervisor runs."""
PING, READY, DRAIN = b"p", b"r", b"d"
"""Bytes on the channel: the ping and its answer, the child's message that it serves requests, and the message
to a child that the server is about to stop."""


class Child:
    """A child process.

    Attributes:
        command: The program and its arguments, before the number of the channel's file descriptor.
        replaces: The child that is to stop when this one is ready.
        started: When it was started.
        is_ready: Whether it has said so.
        is_stopping: Whether it was told to stop.
        is_unanswered: Whether the last ping has no answer yet.
    """

    def __init__(self, command: Sequence[str], descriptors: Sequence[int], replaces: Child | None) -> None:
        self.command, self.replaces = command, replaces
        self.started = time.monotonic()
        self.is_ready = self.is_stopping = self.is_unanswered = False
        self.channel, remote = socket.socketpair()
        with remote:
            number = remote.fileno()
            self.process = subprocess.Popen(  # noqa: S603 - the interpreter with a module of this package
                [*command, str(number)], pass_fds=(*descriptors, number), stdin=subprocess.DEVNULL
            )
        self.channel.setblocking(False)

    def stop(self) -> None:
        """Tell the process to stop."""
        self.process.terminate()

    def drain(self) -> None:
        """Tell the process that it is about to be stopped."""
        with contextlib.suppress(OSError):
            self.channel.send(DRAIN)

    def ping(self) -> None:
        """Send a ping; kill the process if it has not answered the last one, unless it is still starting."""
        may_be_starting = not self.is_ready and time.monotonic() < self.started + STARTUP_SECONDS
        if self.is_unanswered and not may_be_starting:
            self.process.kill()
        self.is_unanswered = True
        with contextlib.suppress(OSError):
            self.channel.send(PING)

    def receive(self) -> bytes:
        """Receive answers; return them, or nothing if the process has closed the channel."""
        try:
            data = self.channel.recv(4_096)
        except OSError:
            data = b""
        if data:
            self.is_unanswered = False
        return data


class Notifier:
    """Reports the state of the service to the service manager that started it: sd_notify(3).

    Args:
        variables: The environment variables; those of the protocol are removed, as they are not for children.
        pid: The ID of this process.

    Attributes:
        watchdog_seconds: The time after which systemd restarts a service that has reported nothing; 0 if it
            does not watch this one.
    """

    def __init__(self, variables: MutableMapping[str, str], pid: int) -> None:
        path = variables.pop("NOTIFY_SOCKET", "")
        watched_pid = variables.pop("WATCHDOG_PID", "") or str(pid)
        seconds = int(variables.pop("WATCHDOG_USEC", "") or 0) / 1e6
        self.watchdog_seconds = seconds if path and watched_pid == str(pid) else 0.0
        # The name of an abstract socket begins with a null byte, which systemd writes as "@".
        self._path = "\0" + path[1:] if path.startswith("@") else path

    def send(self, *assignments: str) -> None:
        """Send variables, such as `READY=1`. A service manager that does not listen is ignored."""
        if self._path and sys.platform != "win32":
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, contextlib.suppress(OSError):
                sender.setblocking(False)
                sender.sendto("\n".join(assignments).encode(), self._path)


class Supervisor:
    """The supervisor of one server.

    Args:
        commands: The commands of the server processes.
        descriptors: The file descriptors that children inherit.
        log: Logs a warning with fields.
        notifier: Reports to systemd.
        stop_seconds: After how long a child that was told to stop is killed.
        ping_seconds: Time between two pings of a child, at most. One that has not answered by the next is
            killed.
        drain_seconds: How long the server processes serve on after SIGTERM, so that load balancers notice.
    """

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        descriptors: Sequence[int],
        log: Callable[[str, Mapping[str, object]], None],
        notifier: Notifier,
        stop_seconds: float = STOP_SECONDS,
        ping_seconds: float = PING_SECONDS,
        drain_seconds: float = 0.0,
    ) -> None:
        self._commands, self._descriptors = commands, descriptors
        self._log, self._notifier = log, notifier
        watchdog_pings = notifier.watchdog_seconds / PINGS_PER_WATCHDOG or ping_seconds
        self._stop_seconds, self._ping_seconds = stop_seconds, min(ping_seconds, watchdog_pings)
        self._drain_seconds = drain_seconds
        self._children: list[Child] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._is_draining = self._is_stopping = self._is_ready = False
        self._status = 0

    def run(self) -> int:
        """Run until SIGTERM or SIGINT, or until a child cannot start; return the exit status."""
        self._listen_to_signals()
        for command in self._commands:
            self._start(command)
        self._call_later(self._ping_seconds, self._ping_all)
        while self._children or not self._is_stopping:
            self._wait()
            for number in self._take_signals():
                if number == REPLACE:
                    self._replace_all()
                elif number in (signal.SIGTERM, signal.SIGINT):
                    self._drain()
            self._reap()
            self._report_ready()
        return self._status

    def _listen_to_signals(self) -> None:
        receiver, sender = socket.socketpair()
        for end in (receiver, sender):
            end.setblocking(False)
        self._wakeup = receiver, sender
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        self._selector.register(receiver, selectors.EVENT_READ)
        for number in (EXITED, signal.SIGTERM, signal.SIGINT, REPLACE):
            signal.signal(number, lambda number, _frame: self._signals.append(number))

    def _take_signals(self) -> list[int]:
        taken = self._signals[:]
        del self._signals[: len(taken)]
        return taken

    def _call_later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._sequence), action))

    def _wait(self) -> None:
        """Wait for a signal, a message or a timer; handle messages and timers."""
        seconds = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
        for key, _ in self._selector.select(seconds):
            child = key.data
            if child is None:
                self._wakeup[0].recv(4_096)
            else:
                self._receive(child)
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()

    def _receive(self, child: Child) -> None:
        data = child.receive()
        if not data:
            # It is about to exit, and a closed channel would be readable again and again.
            self._selector.unregister(child.channel)
            return
        if READY in data:
            child.is_ready = True
            if child.replaces is not None:
                self._stop(child.replaces)
        if PING in data:
            self._report_alive()

    def _serving(self) -> list[Child]:
        """Return the server processes that serve, or will."""
        return [child for child in self._children if not child.is_stopping]

    def _report_ready(self) -> None:
        """Report the end of a start or of a replacement: as many processes serve as there should be."""
        serving = self._serving()
        if not (self._is_ready or self._is_stopping) and len(serving) == len(self._commands):
            self._is_ready = all(child.is_ready for child in serving)
            if self._is_ready:
                self._notifier.send("READY=1")

    def _report_alive(self) -> None:
        """Report to the watchdog if every child has answered and at least one serves requests."""
        if any(child.is_ready for child in self._serving()) and not any(
            child.is_unanswered for child in self._children if not child.is_stopping
        ):
            self._notifier.send("WATCHDOG=1")

    def _start(self, command: Sequence[str], replaces: Child | None = None) -> None:
        if self._is_stopping:
            return
        child = Child(command, self._descriptors, replaces)
        self._children.append(child)
        self._selector.register(child.channel, selectors.EVENT_READ, child)

    def _reap(self) -> None:
        for child in self._children[:]:
            if child.process.poll() is not None:
                self._children.remove(child)
                if child.channel in self._selector.get_map():
                    self._selector.unregister(child.channel)
                child.channel.close()
                self._on_exit(child)

    def _on_exit(self, child: Child) -> None:
        status = child.process.returncode
        if self._is_stopping:
            self._stop_all()
        if self._is_draining and not self._serving():
            self._stop_all()
        if child.is_stopping or self._is_stopping or self._is_draining:
            return
        fields = {"pid": child.process.pid, "exitcode": status}
        if child.replaces in self._children and not child.is_ready:
            self._log("replacement of a server worker did not start; keeping the old one", fields)
        elif status == STARTUP_FAILURE:
            self._status = status
            self._stop_all()
        else:
            self._log("server worker exited; starting another", fields)
            seconds = child.started + START_INTERVAL_SECONDS - time.monotonic()
            self._call_later(max(0.0, seconds), partial(self._start, child.command))

    def _ping_all(self) -> None:
        for child in self._children:
            child.ping()
        self._call_later(self._ping_seconds, self._ping_all)

    def _replace_all(self) -> None:
        """Start another process for each child; the old one stops when the new one is ready."""
        if self._is_stopping or self._is_draining:
            return
        self._is_ready = False
        self._notifier.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1_000}")
        replaced = [child.replaces for child in self._children]
        for child in self._children[:]:
            if child.is_ready and not (child.is_stopping or child in replaced):
                self._start(child.command, child)

    def _drain(self) -> None:
        """Stop all children after the time to drain, or at once if that was requested before."""
        if self._is_draining or self._is_stopping or not self._drain_seconds:
            self._stop_all()
            return
        self._is_draining = True
        self._notifier.send("STOPPING=1")
        for child in self._serving():
            child.drain()
        self._call_later(self._drain_seconds, self._stop_all)

    def _stop_all(self) -> None:
        if not (self._is_stopping or self._is_draining):
            self._notifier.send("STOPPING=1")
        self._is_stopping = True
        for child in self._children:
            self._stop(child)

    def _stop(self, child: Child) -> None:
        if not child.is_stopping:
            child.is_stopping = True
            child.stop()
            self._call_later(self._stop_seconds, child.process.kill)


def log_warning(message: str, fields: Mapping[str, object], log_format: str = "line") -> None:
    """Write a line to standard error in one of the formats of `imagehost_server.logging_config`."""
    time_of_day = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    members = {"time": f"{time_of_day}Z", "level": "WARNING", "logger": "imagehost.server", "event": message}
    if log_format == "json":
        line = json.dumps({**fields, **members}, default=str)
    else:
        line = " ".join([*members.values(), *(f"{name}={value}" for name, value in fields.items())])
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(argument: str) -> int:
    """Run the supervisor; return its exit status.

    Args:
        argument: A JSON object: the arguments of `Supervisor`, with `log_warnings` and `log_format`
            instead of `log`, and the folder of the metrics, to remove at the end.
    """
    options = json.loads(argument)
    metrics = options.pop("metrics", None)
    write = partial(log_warning, log_format=options.pop("log_format", "line"))
    log = write if options.pop("log_warnings") else lambda _message, _fields: None
    try:
        return Supervisor(log=log, notifier=Notifier(os.environ, os.getpid()), **options).run()
    finally:
        if metrics is not None:
            import shutil  # takes memory while the server runs

            shutil.rmtree(metrics, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
