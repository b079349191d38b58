"""The parent of the server processes: uvicorn's process manager, and what a service needs in addition."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import cast

from uvicorn import _subprocess
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import multiprocess

from imagehost_server.serve.children import exit_with_parent
from imagehost_server.serve.config import GRACE_SECONDS, HEALTH_SECONDS, ServerConfig
from imagehost_server.serve.server import EventDrivenServer

PING_SECONDS = 15.0
"""Time between two pings of processes that serve requests."""
POLL_SECONDS = 0.2
"""Time between two pings while a process starts, and the shortest time between two restarts."""
STOP_SECONDS = 2.0 * GRACE_SECONDS
"""The time after which a process that was told to stop is killed."""
PING, DRAIN = "ping", "drain"
"""Messages to a process; it answers a ping with whether it serves requests."""

logger = logging.getLogger("imagehost.server")


class ServerProcess(multiprocess.Process):
    """A server process, as its parent and as itself sees it.

    Attributes:
        is_serving: Whether it has answered that it serves requests.
        failure: Why it could not start, or that it did not in time.
    """

    is_serving = False
    failure = "it has ended, or did not serve requests in time"
    _unanswered_since: float | None = None

    def is_alive(self, timeout: float = HEALTH_SECONDS) -> bool:
        """Return whether the process runs and has answered the last ping in time, and send another one."""
        if self._unanswered_since is not None and self.parent_conn.poll():
            self._receive()
            self._unanswered_since = None
        if self._unanswered_since is None:
            self._unanswered_since = time.monotonic()
            self.parent_conn.send(PING)
        return self.process.is_alive() and time.monotonic() < self._unanswered_since + timeout

    def is_ready(self, timeout: float = HEALTH_SECONDS) -> bool:
        """Return whether the process is alive and serves requests."""
        return self.is_alive(timeout) and self.is_serving

    def kill(self) -> None:
        """End the process at once, after what it has told."""
        while self.parent_conn.poll():
            self._receive()
        super().kill()

    def _receive(self) -> None:
        message = self.parent_conn.recv()
        self.is_serving = message is True
        if isinstance(message, str):
            self.failure = message

    def drain(self) -> None:
        """Tell the process that it is about to be stopped."""
        with suppress(OSError):
            self.parent_conn.send(DRAIN)

    def join(self) -> None:
        """Wait for the end of the process, which was told to stop; kill it after `STOP_SECONDS`."""
        self.process.join(STOP_SECONDS)
        self.process.kill()
        self.process.join()

    # In the process itself.

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve requests until SIGTERM, SIGINT or the end of the parent."""
        # A fork has the handlers of its parent.
        signal.set_wakeup_fd(-1)
        for number in multiprocess.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        exit_with_parent()
        self._server = EventDrivenServer(cast("ServerConfig", self.config))
        try:
            super().target(sockets)
        except Exception as error:
            # In the format of the log: multiprocessing prints a traceback.
            logger.exception("server worker failed", extra={"fields": {"cause": str(error)}})
            self.child_conn.send(str(error))
            sys.exit(1)

    def pong(self) -> None:
        """Handle a message; the event loop that serves requests answers it, so one that hangs is noticed."""
        message = self.child_conn.recv()
        server = cast("EventDrivenServer", self.server)
        if message == DRAIN:
            server.drain()
        elif server.loop is None:
            self.child_conn.send(False)
        else:
            # A loop that is closed belongs to a process that is about to exit.
            with suppress(RuntimeError):
                server.loop.call_soon_threadsafe(self.child_conn.send, True)


# `Multiprocess` finds its class of processes, and how they are started, by these names.
multiprocess.Process = ServerProcess  # type: ignore[misc]
if sys.platform == "linux":
    # The supervisor has one thread. A fork shares its imports, and needs no resource tracker (6 MiB).
    _subprocess.spawn = get_context("fork")  # type: ignore[assignment]


class Supervisor(multiprocess.Multiprocess):
    """The parent, which replaces processes that die or hang, and all of them after SIGHUP.

    Args:
        config: The configuration of the processes.
        listener: The listening socket.
    """

    processes: list[ServerProcess]  # type: ignore[assignment]

    def __init__(self, config: ServerConfig, listener: socket.socket) -> None:
        super().__init__(config, [listener])
        self._drain_seconds = config.settings.server.drain_seconds
        self._stop_at = math.inf
        self._is_ready = False

    def keep_subprocess_alive(self) -> None:
        """Replace processes that do not run or respond, until SIGTERM; report when all serve requests."""
        if self._stop_at < math.inf:
            if time.monotonic() >= self._stop_at:
                self.should_exit.set()
            return
        before = self.processes[:]
        super().keep_subprocess_alive()
        for process in before:
            if process not in self.processes:
                fields = {"pid": process.pid, "exitcode": process.exitcode}
                logger.warning("server worker exited", extra={"fields": fields})
                time.sleep(POLL_SECONDS)
        was_ready, self._is_ready = self._is_ready, all(process.is_serving for process in self.processes)
        if self._is_ready and not was_ready:
            pids = ",".join(str(process.pid) for process in self.processes)
            logger.info("server ready", extra={"fields": {"pids": pids}})
            notify("READY=1")

    def handle_hup(self) -> None:
        """Replace the processes one after the other, each when its successor serves requests."""
        if self._stop_at == math.inf:
            logger.info("server reloading")
            notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1_000}")
            failure = self._replace_all()
            if failure:
                # The processes of before go on.
                notify("READY=1")
                logger.error("server reload failed", extra={"fields": {"cause": failure}})
            else:
                self._is_ready = False

    def _replace_all(self) -> str:
        """Replace each process when its successor serves requests; return why one of these could not start.

        uvicorn's `restart_all` says of each of them that it was late.
        """
        for index, before in enumerate(self.processes):
            successor = ServerProcess(self.config, self.sockets)
            successor.start()
            if not successor.wait_until_ready(self.config.timeout_worker_healthcheck, self.should_exit):
                successor.kill()
                successor.join()
                return "" if self.should_exit.is_set() else successor.failure
            before.terminate()
            before.join()
            self.processes[index] = successor
        return ""

    def handle_term(self) -> None:
        """Stop after the time to drain, or at once if that was requested before."""
        if not self._drain_seconds or self._stop_at < math.inf:
            self.should_exit.set()
            return
        self._stop_at = time.monotonic() + self._drain_seconds
        for process in self.processes:
            process.drain()

    def terminate_all(self) -> None:
        """Tell all processes to stop."""
        logger.info("server stopping")
        notify("STOPPING=1")
        super().terminate_all()

    def run(self) -> int:  # type: ignore[override]
        """Run until SIGTERM or SIGINT, or until a process cannot start; return the exit status.

        uvicorn's method looks for signals twice a second; this one waits for them.
        """
        wakeup, sender = socket.socketpair()
        sender.setblocking(False)
        signal.set_wakeup_fd(sender.fileno())
        self.init_processes()
        while not self.should_exit.is_set():
            is_stopping = self._stop_at < math.inf  # a process that exits now is not replaced
            sentinels = [] if is_stopping else [each.process.sentinel for each in self.processes]
            is_steady = self._is_ready and not is_stopping
            if wakeup in wait([wakeup, *sentinels], PING_SECONDS if is_steady else POLL_SECONDS):
                wakeup.recv(4_096)
            self.handle_signals()
            self.keep_subprocess_alive()
        self.terminate_all()
        self.join_all()
        failed = any(process.exitcode == STARTUP_FAILURE for process in self.processes)
        return STARTUP_FAILURE if failed else 0


def notify(*assignments: str) -> None:
    """Report a state to the service manager that started this process, if there is one: sd_notify(3)."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path and sys.platform != "win32":
        # The name of an abstract socket begins with a null byte, which systemd writes as "@".
        address = "\0" + path[1:] if path.startswith("@") else path
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
            sender.setblocking(False)
            sender.sendto("\n".join(assignments).encode(), address)
