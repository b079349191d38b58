"""The cage of a worker: what it may use, and how the rest is taken away from it.

A decoder of hostile bytes may be taken over by them. So a worker, once it is warm, gives up all that
it does not need: files, sockets, other processes, and memory without bound. Linux has all of this;
other systems have some of it, and `SandboxStatus` says what is in force.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import field, frozen
from attrs.validators import ge, in_, or_

from imagehost_core.sandbox import _libc as kernel
from imagehost_core.sandbox import landlock, seccomp

if sys.platform != "win32":
    import resource

GIB = 2**30


@frozen
class SandboxLimits:
    """What one worker may use. 0 means no limit, here and there.

    Attributes:
        memory_bytes: The address space, in bytes. The default is measured: to ingest a picture of 100
            million pixels with transparency takes 2.64 GiB, without 0.96 GiB.
        cpu_seconds: The processor time of a whole life, in seconds, at least 2. The deadline is what stops a
            job; this stops a worker whose pool is no longer there to do so.
        file_bytes: How long the file may grow that takes the worker's last words, in bytes.
        open_files: The highest number of a descriptor.
        oom_score: From 0 to 1000, how gladly the kernel ends this process, and not the server, when
            the machine has no memory left.
        landlock: Whether the file system is taken away by Landlock.
        seccomp: Whether system calls are taken away by seccomp.
    """

    memory_bytes: int = field(default=3 * GIB, validator=ge(0))
    cpu_seconds: int = field(default=600, validator=or_(ge(2), in_((0,))))
    file_bytes: int = field(default=2**16, validator=ge(0))
    open_files: int = field(default=16, validator=ge(0))
    oom_score: int = field(default=800, validator=ge(0))
    landlock: bool = True
    seccomp: bool = True


@frozen
class SandboxStatus:
    """What is in force in a worker.

    Attributes:
        in_force: The names of the measures that hold.
        lacking: The names of those that do not, each with the reason.
    """

    in_force: tuple[str, ...]
    lacking: dict[str, str]


def exit_with_parent(parent: int) -> None:
    """Let the kernel end this process when the thread that started it ends, by SIGKILL.

    Args:
        parent: The process number of the parent. Where it is gone already, there is no signal to
            come, so this process ends here.
    """
    if sys.platform == "linux":
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if sys.platform != "win32" and os.getppid() != parent:
        sys.exit(f"expected {parent} for the parent but received {os.getppid()}")


def enter_sandbox(limits: SandboxLimits) -> SandboxStatus:
    """Give up, for good, all that `limits` and this system allow to give up.

    It holds for the calling thread and those that it starts afterwards, so it is called while there
    is only one.
    """
    in_force, lacking = [], {}
    for name, take_away in _measures(limits):
        try:
            take_away()
        except (OSError, ValueError) as error:
            lacking[name] = str(error)
        else:
            in_force.append(name)
    return SandboxStatus(tuple(in_force), lacking)


def _measures(limits: SandboxLimits) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield what is to be done, in order: seccomp takes away what the others need."""
    if limits.oom_score:
        yield "oom_score", lambda: _offer_to_oom_killer(limits.oom_score)
    for name, most in _resources(limits):
        yield name, lambda name=name, most=most: _limit(name, most)  # type: ignore[misc]
    yield "no_new_privs", lambda: kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if limits.landlock:
        yield "landlock", landlock.restrict
    if limits.seccomp:
        yield "seccomp", seccomp.restrict


def _resources(limits: SandboxLimits) -> Iterator[tuple[str, int]]:
    yield "RLIMIT_CORE", 0
    for name, most in (
        ("RLIMIT_AS", limits.memory_bytes),
        ("RLIMIT_CPU", limits.cpu_seconds),
        ("RLIMIT_FSIZE", limits.file_bytes),
        ("RLIMIT_NOFILE", limits.open_files),
    ):
        if most:
            yield name, most


def _limit(name: str, most: int) -> None:
    """Set a limit of this process, never above one that is in force already."""
    if sys.platform == "win32":
        raise kernel.NotSupportedError("Windows has no resource limits")
    else:  # noqa: RET506 - for mypy, which reads one branch per system
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # At the soft limit of time comes SIGXCPU, which can be told from a kill by somebody else.
        soft = bound - 1 if name == "RLIMIT_CPU" else bound
        resource.setrlimit(kind, (soft, bound))


def _offer_to_oom_killer(score: int) -> None:
    if not kernel.LINUX:
        raise kernel.NotSupportedError("only Linux has it")
    Path("/proc/self/oom_score_adj").write_text(str(score), encoding="ascii")
