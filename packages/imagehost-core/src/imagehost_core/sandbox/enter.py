"""Sandbox entry: a worker process drops all privileges that rendering does not need.

A decoder can be exploited by the file that it decodes. So a worker process, once its imports are done and
every codec has been called once, drops access to files, sockets and other processes, and bounds its memory
and CPU time. Linux supports all measures, other systems some; `SandboxStatus` lists those applied.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial

from attrs import frozen

from imagehost_core.sandbox import _libc as libc
from imagehost_core.sandbox import landlock, seccomp
from imagehost_core.sandbox.limits import SandboxLimits, rlimits, set_oom_score, set_rlimit


@frozen
class SandboxStatus:
    """The measures applied to a worker process.

    Attributes:
        applied: Names of the measures in effect.
        unavailable: The measures that could not be applied: their names, each with the reason.
    """

    applied: tuple[str, ...]
    unavailable: dict[str, str]


def exit_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that started it ends (`PR_SET_PDEATHSIG`).

    Args:
        parent: Process ID of the parent. If the parent has ended already, no signal would be sent, so this
            process exits at once.
    """
    if sys.platform == "linux":
        libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if sys.platform != "win32" and os.getppid() != parent:
        sys.exit(f"expected {parent} for the parent but received {os.getppid()}")


def enter_sandbox(limits: SandboxLimits) -> SandboxStatus:
    """Apply irrevocably every measure that `limits` enables and this system supports.

    The measures apply to the calling thread and to the threads that it starts later, so call this while
    the process has a single thread.
    """
    applied, unavailable = [], {}
    for name, apply in _measures(limits):
        try:
            apply()
        except (OSError, ValueError) as error:
            unavailable[name] = str(error)
        else:
            applied.append(name)
    return SandboxStatus(tuple(applied), unavailable)


def _measures(limits: SandboxLimits) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the measures to apply, in order: seccomp is last, it denies the calls that the others need."""
    if limits.oom_score:
        yield "oom_score", partial(set_oom_score, limits.oom_score)
    for name, value in rlimits(limits):
        yield name, partial(set_rlimit, name, value)
    yield "no_new_privs", partial(libc.prctl, libc.PR_SET_NO_NEW_PRIVS, 1)
    if limits.landlock:
        yield "landlock", landlock.restrict
    if limits.seccomp:
        yield "seccomp", seccomp.restrict
