"""Resource limits of a worker process, and how they are applied."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import field, frozen
from attrs.validators import ge, in_, or_

from imagehost_core.sandbox import _libc as libc

if sys.platform != "win32":
    import resource

GIB = 2**30


@frozen
class SandboxLimits:
    """The limits of one worker process. In every number, 0 means no limit.

    Attributes:
        memory_bytes: The address space, in bytes. The default follows from measurements: ingesting an
            image of 100 million pixels takes 2.64 GiB with transparency and 0.96 GiB without.
        cpu_seconds: The CPU time over the life of the process, in seconds, at least 2. Deadlines stop
            single tasks; this limit stops a worker process whose pool no longer exists.
        task_cpu_seconds: The CPU time of one task, in seconds. The deadline of a task is longer, because it
            includes waiting for a core.
        file_bytes: The size to which a file can grow, in bytes. It bounds the file that captures the
            standard error of the process.
        open_files: One above the highest file descriptor number (`RLIMIT_NOFILE`).
        oom_score: `oom_score_adj`, 0 to 1000: the higher, the more likely the kernel kills this process
            and not the server when the machine runs out of memory.
        landlock: Whether a Landlock ruleset denies access to the file system.
        seccomp: Whether a seccomp filter denies system calls.
    """

    memory_bytes: int = field(default=3 * GIB, validator=ge(0))
    cpu_seconds: int = field(default=600, validator=or_(ge(2), in_((0,))))
    task_cpu_seconds: float = field(default=10.0, validator=ge(0))
    file_bytes: int = field(default=2**16, validator=ge(0))
    open_files: int = field(default=16, validator=ge(0))
    oom_score: int = field(default=800, validator=ge(0))
    landlock: bool = True
    seccomp: bool = True


def rlimits(limits: SandboxLimits) -> Iterator[tuple[str, int]]:
    """Yield the name and the value of each resource limit to set; core dumps are always disabled."""
    yield "RLIMIT_CORE", 0
    for name, value in (
        ("RLIMIT_AS", limits.memory_bytes),
        ("RLIMIT_CPU", limits.cpu_seconds),
        ("RLIMIT_FSIZE", limits.file_bytes),
        ("RLIMIT_NOFILE", limits.open_files),
    ):
        if value:
            yield name, value


def set_rlimit(name: str, value: int) -> None:
    """Set a resource limit of this process; a lower limit that is already set stays.

    Args:
        name: A constant of the module `resource`, such as `RLIMIT_AS`.
        value: The limit, in the unit of that constant.

    Raises:
        OSError: The system has no such limit or refuses to change it.
    """
    if sys.platform == "win32":
        raise libc.NotSupportedError("Windows has no resource limits")
    else:  # noqa: RET506 - for mypy, which reads one branch per system
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # The soft CPU limit sends SIGXCPU, which differs from a SIGKILL by another process.
        soft = value - 1 if name == "RLIMIT_CPU" else value
        resource.setrlimit(kind, (soft, value))


def set_oom_score(score: int) -> None:
    """Set `oom_score_adj` of this process.

    Raises:
        OSError: The system is not Linux or refuses the change.
    """
    if not libc.LINUX:
        raise libc.NotSupportedError("only Linux supports this")
    Path("/proc/self/oom_score_adj").write_text(str(score), encoding="ascii")


CPU_TIME_SIGNAL = "SIGPROF"
"""The name of the signal that kills a process beyond the limit."""


@contextmanager
def cpu_time_limit(seconds: float) -> Iterator[None]:
    """Kill this process if the block takes more CPU time, of all threads; no limit with 0, and on Windows."""
    if sys.platform == "win32" or not seconds:
        yield
    else:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
