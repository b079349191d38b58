"""System calls that fail: a library for `LD_PRELOAD`, and its control.

The library (`system_call_faults.c`) replaces functions of the C library in the host's process, so that it
reaches what SQLite calls too. Unlike strace it counts the calls of all threads together, and is controlled
through shared memory between two operations of one process.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, frozen

VARIABLE = "SYSTEM_CALL_FAULTS"
SOURCE = Path(__file__).with_name("system_call_faults.c")
KINDS = ("open", "read", "write", "sync", "syncfs", "rename", "unlink", "mkdir", "truncate")
"""The kinds of calls; `unlink` includes rmdir, and `rename` includes link."""
_PATH_BYTES = 1024


class _Control(ctypes.Structure):
    """The structure `control` of the library."""

    _fields_ = (
        ("pid", ctypes.c_int),
        ("error", ctypes.c_int),
        ("persistent", ctypes.c_int),
        ("kinds", ctypes.c_int),
        ("when", ctypes.c_long),
        ("calls", ctypes.c_long),
        ("failed", ctypes.c_long),
        ("syncs_repeated", ctypes.c_long),
        ("directory", ctypes.c_char * _PATH_BYTES),
        ("first", ctypes.c_char * _PATH_BYTES),
    )


@frozen
class Fault:
    """The fault of a trial.

    Attributes:
        when: The number of the call that fails, from 1.
        error: Its errno.
        persistent: Whether the calls after it fail too, until the trial ends.
    """

    when: int
    error: int
    persistent: bool = False

    def __str__(self) -> str:
        return f"{errno.errorcode[self.error]} at call {self.when}{'+' if self.persistent else ''}"


@define
class Outcome:
    """What happened while faults were set.

    Attributes:
        calls: The number of calls.
        failed: The number of those that failed.
        first: The kind and the path of the first that failed, below the directory; empty if none did.
        syncs_repeated: The number of syncs of a descriptor whose sync had failed, without a write between.
    """

    calls: int = 0
    failed: int = 0
    first: str = ""
    syncs_repeated: int = 0

    @property
    def is_sync_of_changes(self) -> bool:
        """Whether a sync has failed that an operation needs.

        It does not need that of the database file: the log has the changes until that has succeeded. SQLite
        ignores that of its directory after it has created or deleted a log; each open syncs a data directory
        afterwards, and syncfs that of a restore.
        """
        kind, _, path = self.first.partition(" ")
        is_of_sqlite = path.endswith(("/imagehost.sqlite3", "/restoring")) or path.count("/") == 1
        return kind == "syncfs" or (kind == "sync" and not is_of_sqlite)


class SystemCalls:
    """The control of the library in a process.

    Args:
        path: The control file, which `preload_variables` has named to the process.

    Attributes:
        kinds: The kinds of calls that are counted; by default all that can fail with the error.
    """

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), ctypes.sizeof(_Control))
        self.kinds: tuple[str, ...] = ()
        self._control = _Control.from_buffer(self._map)

    @contextmanager
    def failing(
        self, directory: Path, fault: Fault | None = None, *, pid: int | None = None
    ) -> Iterator[Outcome]:
        """Count the calls of a process on paths below a directory while the block runs, and let some fail.

        Args:
            directory: The directory.
            fault: The calls that fail; `None`: none.
            pid: The process; by default this one.
        """
        control, outcome = self._control, Outcome()
        control.calls = control.failed = control.syncs_repeated = 0
        control.first = b""
        control.directory = os.fsencode(directory)
        # A read does not find the disk full.
        is_full = fault is not None and fault.error == errno.ENOSPC
        kinds = self.kinds or tuple(kind for kind in KINDS if not (is_full and kind == "read"))
        control.kinds = sum(1 << KINDS.index(kind) for kind in kinds)
        control.when, control.error, control.persistent = 0, 0, 0
        if fault is not None:
            control.when, control.error, control.persistent = fault.when, fault.error, fault.persistent
        control.pid = os.getpid() if pid is None else pid
        try:
            yield outcome
        finally:
            control.pid = 0
            outcome.calls, outcome.failed = control.calls, control.failed
            outcome.first, outcome.syncs_repeated = os.fsdecode(control.first), control.syncs_repeated


def build_library(directory: Path) -> Path:
    """Compile the library into a directory."""
    library = directory / "system_call_faults.so"
    compiler = shutil.which("cc")
    assert compiler is not None, "expected a C compiler"
    command = [compiler, "-O1", "-fPIC", "-shared", "-Wall", "-Werror", str(SOURCE), "-o", str(library)]
    subprocess.run([*command, "-ldl"], check=True)
    return library


def preload_variables(library: Path, control: Path) -> dict[str, str]:
    """Create a control file; return the variables of a process that loads the library."""
    control.write_bytes(bytes(ctypes.sizeof(_Control)))
    return {"LD_PRELOAD": str(library), VARIABLE: str(control)}
