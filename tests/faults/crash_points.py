"""Crash points: the steps of a change towards the disk, the database and the object store, by name.

`python -m tests.faults.crash_points` runs changes of `tests.faults.changes`, and kills the process of one
with SIGKILL when it reaches a given point. It reads a JSON array from each line of its input: the database,
the storage, the data directory, the name of a change, its arguments, the number of the point, 0 for none, and
the name of a planted fault, "" for none. It writes two lines to its output: a JSON array of the names of the
points that the change has reached, and the exit code.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import psycopg
from attrs import define, field
from tests.faults.changes import CHANGES, Arguments, open_host
from tests.faults.planted_faults import PLANTED_FAULTS
from tests.hosts import Engines

from imagehost_core.cluster.object.client import ObjectClient

STEPS = frozenset(
    {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "shutil.rmtree"}
)
"""The audit events (https://docs.python.org/3/library/audit_events.html) of steps that change a directory."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_ID = re.compile(r"\b(?:[0-9A-Za-z]{16}|[0-9A-Za-z]{32}|[0-9a-f-]{36})\b")
"""An id of an image, or the random name of a staged file."""
_READS = ("SELECT", "PRAGMA", "SET", "SHOW", "--")
"""The beginnings of statements that change nothing, and of those that SQLite reports for triggers."""
_VALUES = re.compile(r"[(';]| SET | WHERE | VALUES | SELECT ")


@define
class CrashPoints:
    """The points that this process reaches, and the one at which it is killed.

    Attributes:
        root: The directory whose files count.
        kill_at: The number of the point at which the process is killed, from 1; 0 for none.
        names: The names of the points that were reached.
    """

    root: str
    kill_at: int
    names: list[str] = field(factory=list)
    is_armed: bool = False

    def reach(self, name: str) -> None:
        """Count a point of the main thread; kill the process if it is the one."""
        if not self.is_armed or threading.current_thread() is not threading.main_thread():
            return
        self.names.append(name)
        if len(self.names) == self.kill_at:
            self.report()
            os.kill(os.getpid(), signal.SIGKILL)

    def report(self) -> None:
        """Write the names of the points to the standard output."""
        os.write(1, f"{json.dumps(self.names)}\n".encode())

    def observe(self) -> None:
        """Call `reach` before each step of this process."""
        sys.addaudithook(self._on_audit_event)
        connect = sqlite3.connect

        def traced_connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(self._on_statement)
            return connection

        sqlite3.connect = traced_connect  # type: ignore[assignment]
        for method in ("execute", "copy"):
            self._wrap(psycopg.Cursor, method, self._on_postgres_statement)
        for method in ("create", "overwrite", "write", "_delete"):
            self._wrap(ObjectClient, method, partial(self._on_object, method))

    def _wrap(self, owner: type, method: str, before: Callable[[Any], None]) -> None:
        """Call a function with the first argument of a method before each call of the method."""
        function = getattr(owner, method)

        def wrapper(own: Any, first: Any, *arguments: Any, **options: Any) -> Any:
            before(first)
            return function(own, first, *arguments, **options)

        setattr(owner, method, wrapper)

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_armed or event not in STEPS:
            return
        path = str(arguments[0])
        is_write = event != "open" or cast(int, arguments[2]) & _WRITES
        if path.startswith(self.root) and is_write:
            name = path.removeprefix(self.root).lstrip("/")
            # A lock is an empty file: it is the same before and after.
            if not name.startswith("locks/"):
                self.reach(f"{event} {_ID.sub('<id>', name)}")

    def _on_statement(self, sql: str) -> None:
        line = " ".join(sql.split())
        if not line.startswith(_READS):
            self.reach(f"sql {_VALUES.split(line)[0].strip()}")

    def _on_postgres_statement(self, sql: object) -> None:
        self._on_statement(sql.decode() if isinstance(sql, bytes) else str(sql))

    def _on_object(self, method: str, key: str | list[str]) -> None:
        first = key if isinstance(key, str) else key[0]
        self.reach(f"object {method.strip('_')} {_ID.sub('<id>', first)}")


def run_change(name: str, arguments: Arguments, points: CrashPoints, engines: Engines) -> NoReturn:
    """Run a change in this process, which ends with it."""
    points.observe()
    exit_code = 1
    try:
        with open_host(engines, Path(points.root)) as host:
            points.is_armed = True
            CHANGES[name].run(host, arguments)
            points.reach("return")
            points.is_armed = False
        exit_code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        points.report()
        os._exit(exit_code)


def main() -> None:
    """Run each change that the standard input names, in a process of its own."""
    for line in sys.stdin:
        database, storage, data, name, arguments, kill_at, fault = json.loads(line)
        if (child := os.fork()) == 0:
            if fault:
                PLANTED_FAULTS[fault]()
            run_change(name, arguments, CrashPoints(data, kill_at), Engines(database, storage))
        # Its locks are free once it has exited.
        exit_code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{exit_code}\n")
        sys.stdout.flush()


@define
class KilledProgram:
    """The program of this module.

    Attributes:
        fault: The name of the fault that is planted into the host.
    """

    process: subprocess.Popen[str]
    fault: str = ""

    def run(
        self, engines: Engines, data: Path, change: str, arguments: Arguments, kill_at: int
    ) -> tuple[list[str], bool]:
        """Run a change of the host in a data directory, and kill it at a point unless that is 0.

        Returns:
            The points that it has reached, and whether it was killed.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = [engines.database, engines.storage, str(data), change, arguments, kill_at, self.fault]
        self.process.stdin.write(f"{json.dumps(request)}\n")
        self.process.stdin.flush()
        names = json.loads(self.process.stdout.readline())
        exit_code = int(self.process.stdout.readline())
        assert exit_code in (0, -signal.SIGKILL), f"{change} exited with {exit_code}"
        return names, exit_code != 0


@contextmanager
def killed_program(root: Path) -> Iterator[KilledProgram]:
    """Run the program of this module for a block.

    Args:
        root: The root directory of the repository.
    """
    command = [sys.executable, "-m", "tests.faults.crash_points"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        yield KilledProgram(process)


if __name__ == "__main__":
    main()
