"""The processes of a server, found by /proc."""

from __future__ import annotations

from pathlib import Path

IMAGE_WORKER = "imagehost_core.workers.main"


def children(pid: int, part: str) -> list[int]:
    """Return the children of a process whose command lines contain a text."""
    paths = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(child) for path in paths for child in path.read_text(encoding="ascii").split()]
    return [pid for pid in pids if part in _command_line(pid)]


def server_processes(supervisor: int) -> list[int]:
    """Return the process IDs of the server processes."""
    return children(supervisor, "")


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not exited."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
