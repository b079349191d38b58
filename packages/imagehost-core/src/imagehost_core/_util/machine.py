"""The machine of this process: its identity, and the CPU and the memory that the process may use.

A container with 2 of a machine's 64 cores has a quota; 64 worker processes in it would take 64 times the
memory of one, and each would run for a thirty-second of the time. Neither `os.cpu_count()` nor the
size of the machine's memory sees these limits.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO

ReadFile = Callable[[PurePosixPath], str | None]
"""Returns the content of a file, or `None` if it does not exist or cannot be read."""

_ReadLimit = Callable[[ReadFile, PurePosixPath], float | None]
"""Returns the limit of a cgroup by its directory, or `None`."""

PROC = PurePosixPath("/proc/self")
AUTOGROUP = PurePosixPath("/proc/sys/kernel/sched_autogroup_enabled")


def available_cores() -> int:
    """Return the number of CPU cores that this process may use, at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return usable_cores(affinity, cpu_quota(_read_file))


def available_memory() -> int:
    """Return the memory that this process may use, in bytes; 0 if it is not known."""
    if sys.platform != "win32":
        with suppress(OSError, ValueError):
            machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            return min(machine, memory_limit(_read_file) or machine)
    return 0


def has_cpu_group() -> bool:
    """Return whether the niceness of this process and its children counts beside each other only."""
    return is_cpu_grouped(_read_file)


def open_memory_file() -> IO[bytes]:
    """Open a new file that has no name: in memory on Linux, as a disk that is full has no space for it."""
    if sys.platform == "linux":
        return open(os.memfd_create("imagehost"), "w+b")  # noqa: PTH123 - it is a descriptor
    else:  # noqa: RET505 - for mypy, which reads one branch per system
        return TemporaryFile()


def usable_cores(affinity: int, quota: float | None) -> int:
    """Return the number of cores by a CPU affinity and a CPU quota, which is rounded up.

    Args:
        affinity: Number of cores that the process may run on.
        quota: CPU seconds per second, or `None` for no limit.
    """
    return max(1, affinity if quota is None else min(affinity, ceil(quota)))


def cpu_quota(read: ReadFile) -> float | None:
    """Return the CPU seconds per second that the cgroups of this process allow, or `None` for no limit.

    A process is limited by its own cgroup and by all above it, so the least quota holds
    (cgroups(7); *cpu.max* of version 2, *cpu.cfs_quota_us* of version 1).

    Args:
        read: Reads `/proc/self/cgroup`, `/proc/self/mountinfo` and the files of the cgroups.
    """
    return _least(read, "cpu", _quota_v1, _quota_v2)


def is_cpu_grouped(read: ReadFile) -> bool:
    """Return whether the scheduler divides the CPU among groups, and this process's session or cgroup is one.

    Linux compares niceness within such a group only: a cgroup with the CPU controller (cgroups(7),
    *cpu.weight* of version 2), or else a session (sched(7), *The autogroup feature*). A cgroup above this
    process's own does not suffice: other programs may be in it.

    Args:
        read: Reads files, as for `cpu_quota`, and `/proc/sys/kernel/sched_autogroup_enabled`.
    """
    weights = [read(directory / "cpu.weight") for is_v1, directory in _cgroups(read, "cpu") if not is_v1]
    if any(weights):
        return weights[0] is not None
    return (read(AUTOGROUP) or "").strip() == "1"


def memory_limit(read: ReadFile) -> int | None:
    """Return the bytes of memory that the cgroups of this process allow, or `None` for no limit.

    They are *memory.max* of version 2 and *memory.limit_in_bytes* of version 1.

    Args:
        read: Reads files, as for `cpu_quota`.
    """
    limit = _least(read, "memory", _memory("memory.limit_in_bytes"), _memory("memory.max"))
    return None if limit is None else int(limit)


def _least(read: ReadFile, controller: str, version_1: _ReadLimit, version_2: _ReadLimit) -> float | None:
    """Return the least limit of all cgroups of this process."""
    limits = [
        limit
        for is_v1, directory in _cgroups(read, controller)
        if (limit := (version_1 if is_v1 else version_2)(read, directory)) is not None
    ]
    return min(limits, default=None)


def _cgroups(read: ReadFile, controller: str) -> Iterator[tuple[bool, PurePosixPath]]:
    """Yield whether a cgroup is of version 1, and its directory: those of this process, its own first."""
    memberships = [line.split(":", 2) for line in (read(PROC / "cgroup") or "").splitlines()]
    for mount in (read(PROC / "mountinfo") or "").splitlines():
        if " - cgroup" in mount:
            for _, controllers, path in memberships:
                for directory in _cgroup_directories(mount, controller, controllers, path):
                    yield bool(controllers), directory


def _cgroup_directories(mount: str, controller: str, controllers: str, path: str) -> Iterator[PurePosixPath]:
    """Yield the directory of a cgroup and those above it, if `mount` is the file system that has them.

    Args:
        mount: A line of mountinfo (proc_pid_mountinfo(5)).
        controller: The controller whose limits are read.
        controllers: Controllers of the hierarchy, separated by commas; none for version 2.
        path: Path of the cgroup in its hierarchy.
    """
    before, _, after = mount.partition(" - ")
    root, mount_point = before.split()[3:5]
    kind, _, options = after.split(maxsplit=2)
    if controllers:
        is_mounted_here = kind == "cgroup" and all(
            controller in names.split(",") for names in (controllers, options)
        )
    else:
        is_mounted_here = kind == "cgroup2"
    if not is_mounted_here:
        return
    cgroup = PurePosixPath(path)
    # In a container the mount shows a part of the hierarchy, and the path may be outside of it.
    relative = cgroup.relative_to(root) if cgroup.is_relative_to(root) else PurePosixPath()
    for part in (relative, *relative.parents):
        yield PurePosixPath(mount_point) / part


def _quota_v2(read: ReadFile, directory: PurePosixPath) -> float | None:
    quota, _, period = (read(directory / "cpu.max") or "max").partition(" ")
    return _ratio(quota, period)


def _quota_v1(read: ReadFile, directory: PurePosixPath) -> float | None:
    return _ratio(read(directory / "cpu.cfs_quota_us") or "", read(directory / "cpu.cfs_period_us") or "")


def _memory(name: str) -> _ReadLimit:
    def read_limit(read: ReadFile, directory: PurePosixPath) -> float | None:
        text = (read(directory / name) or "").strip()
        return int(text) if text.isdecimal() else None

    return read_limit


def _ratio(quota: str, period: str) -> float | None:
    """Return a quota in periods; `None` unless both are positive numbers (`max` and -1 are no limit)."""
    quota = quota.strip()
    period = period.strip()
    if not (quota.isdecimal() and period.isdecimal() and int(quota) and int(period)):
        return None
    return int(quota) / int(period)


def _read_file(path: PurePosixPath) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return None


def host_identity(shared_file: Path) -> str:
    """Return the identity of a host: of the memory that its processes share.

    It differs for a copy of the data directory, and for another machine with the directory in a network
    file system, as both do not share the memory.

    Args:
        shared_file: The file that is mapped into the memory of each process.
    """
    status = shared_file.stat()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = socket.gethostname()
    return f"{boot}:{status.st_dev:x}:{status.st_ino:x}"
