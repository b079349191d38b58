"""A limit on the CPU time of a task."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
