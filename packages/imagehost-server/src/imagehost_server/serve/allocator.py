"""Settings of glibc's allocator for processes that run for months."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

ARENAS = 2
"""The most arenas of a server process. By default, threads use up to 8 a CPU, and memory that is free in one
is not used for another."""
LARGE_BYTES = 128 * 1024
"""Size of the blocks that are returned to the kernel when they are freed: glibc's initial value."""
TRIM_SECONDS = 60.0
"""Time between two calls of malloc_trim(3)."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3), from malloc.h."""


def limit_free_memory() -> None:
    """Make this process keep few arenas, and return large blocks to the kernel; does nothing without glibc.

    The environment variable MALLOC_ARENA_MAX has precedence.

    By default, glibc raises the size to that of the largest block that was freed, up to 32 MiB; smaller ones
    then lie between small blocks, and pages between blocks in use are not returned. Image workers, which need
    large blocks all the time, keep the default.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, LARGE_BYTES)
        if "MALLOC_ARENA_MAX" not in os.environ:
            mallopt(_M_ARENA_MAX, ARENAS)


def trim_periodically(interval: float = TRIM_SECONDS) -> None:
    """Make a thread of this process return free pages to the kernel at intervals; does nothing without glibc.

    glibc itself returns pages of small blocks only at the end of the heap.

    Args:
        interval: Seconds between two calls of malloc_trim(3). One takes 0.2 to 1.4 ms, without the GIL.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is None:
        return

    def run() -> None:
        while True:
            time.sleep(interval)
            trim(0)

    threading.Thread(target=run, name="malloc_trim", daemon=True).start()
