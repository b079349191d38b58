"""Memory, CPU time and open files of processes, as Linux reports them in /proc."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from attrs import frozen

PROC = Path("/proc")
_sysconf: Callable[[str], int] = getattr(os, "sysconf", len)
"""sysconf(3); never called on Windows, which has neither this function nor /proc."""


@frozen
class ProcessUsage:
    """The resource usage of a process.

    Attributes:
        resident_bytes: Resident memory.
        cpu_seconds: CPU time, of user and system.
        open_files: The number of open file descriptors.
    """

    resident_bytes: int
    cpu_seconds: float
    open_files: int


def process_usage(pid: int) -> ProcessUsage | None:
    """Return the usage of a process; `None` if it has exited, or the system has no such /proc."""
    directory = PROC / str(pid)
    try:
        pages = int((directory / "statm").read_text(encoding="ascii").split()[1])
        # proc(5): the name, in parentheses, may contain anything.
        fields = (directory / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        files = sum(1 for _ in (directory / "fd").iterdir())
    except (OSError, IndexError, ValueError):
        return None
    ticks = int(fields[11]) + int(fields[12])
    return ProcessUsage(pages * _sysconf("SC_PAGE_SIZE"), ticks / _sysconf("SC_CLK_TCK"), files)


def parent_is_supervisor() -> bool:
    """Return whether this process was started by a supervisor, which runs in an interpreter of its own."""
    try:
        command = (PROC / str(os.getppid()) / "cmdline").read_bytes()
    except OSError:
        return False
    return b"supervisor.py" in command


def image_workers(pid: int) -> list[int]:
    """Return the process IDs of the image workers of a server process (*children* in proc(5))."""
    children: list[int] = []
    for path in (PROC / str(pid) / "task").glob("*/children"):
        with suppress(OSError):
            children += map(int, path.read_text(encoding="ascii").split())
    return children


def total_memory(pids: Iterable[int]) -> int:
    """Return the sum of the resident memory of processes that run."""
    return sum(usage.resident_bytes for pid in pids if (usage := process_usage(pid)) is not None)
