"""Settings of glibc's allocator for processes that run for months."""

from __future__ import annotations

import ctypes
import sys
import threading
import time

ALLOCATOR_VARIABLES = {"MALLOC_ARENA_MAX": "2"}
"""Environment variables of server processes, unless they are set: mallopt(3). By default, threads use up to 8
arenas a CPU, and memory that is free in one is not used for another."""
LARGE_BYTES = 128 * 1024
"""Size of the blocks that are returned to the kernel when they are freed: glibc's initial value."""
TRIM_SECONDS = 60.0
"""Time between two calls of malloc_trim(3)."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3), from malloc.h."""


def return_large_blocks() -> None:
    """Make this process return large blocks of memory to the kernel; does nothing without glibc.

    By default, glibc raises the size to that of the largest block that was freed, up to 32 MiB; smaller ones
    then lie between small blocks, and pages between blocks in use are not returned. Image workers, which need
    large blocks all the time, keep the default.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, LARGE_BYTES)


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
