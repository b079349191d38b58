"""A limit on the CPU time of a part of a task."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

DECODE_CPU_SECONDS = 10.0
"""The CPU time in which an upload must be decoded, and also that in which its colours must be converted. The
deadline of the task is longer: it includes encoding, which costs in proportion to the pixels, and waiting for
a core."""

CPU_TIME_SIGNAL = "SIGPROF"
"""The name of the signal that kills a process beyond the limit."""


@contextmanager
def cpu_time_limit(seconds: float) -> Iterator[None]:
    """Kill this process if the block takes more CPU time, of all threads; no limit on Windows."""
    if sys.platform == "win32":
        yield
    else:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
