"""The memory of all image worker processes of a machine: what each process that has a pool may use of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from attrs import frozen

from imagehost_core.workers.costs import LIGHT_MEMORY_BYTES

if sys.platform != "win32":
    import fcntl

NEXT, TURN, USE = 0, 1, 2


@frozen
class MemorySettings:
    """The memory that image work may use.

    Attributes:
        total_bytes: The memory of all worker processes of the machine; 0 means no limit.
        pools: The number of processes that share it equally, each with a pool.
        directory: The directory of the lock files of these processes; `None` if there is one.
    """

    total_bytes: int = 0
    pools: int = 1
    directory: Path | None = None

    @property
    def share_bytes(self) -> int:
        """What the tasks of a pool may use at a time, apart from one light task beside them."""
        return max(0, self.total_bytes // self.pools - LIGHT_MEMORY_BYTES)

    @property
    def max_task_bytes(self) -> int:
        """What a single task may use."""
        return max(0, self.total_bytes - self.pools * LIGHT_MEMORY_BYTES)


class MemoryBudget:
    """The memory that the tasks of a pool use now. Not thread-safe.

    A task that needs more than the share of the pool runs alone: beside no other task of any pool, apart from
    light ones.

    Args:
        settings: The limits.

    Attributes:
        is_waiting: Whether the last task that did not fit must wait for another process, of which this one is
            not told.
    """

    def __init__(self, settings: MemorySettings) -> None:
        self._settings = settings
        self._lock = None if settings.directory is None else MachineLock(settings.directory)
        self._tasks: list[int] = []
        self.is_waiting = False

    def acquire(self, memory_bytes: int) -> bool:
        """Reserve memory for a task; return whether it fits. Release what was reserved with `release`."""
        self.is_waiting = False
        if not self._settings.total_bytes:
            return True
        is_alone = memory_bytes > self._settings.share_bytes
        used = sum(self._tasks)
        fits = not self._tasks if is_alone else used + memory_bytes <= self._settings.share_bytes
        if fits and self._lock is not None:
            fits = self._lock.acquire_alone() if is_alone else self._lock.acquire_shared()
            self.is_waiting = not fits
        if fits:
            self._tasks.append(memory_bytes)
        return fits

    def release(self, memory_bytes: int) -> None:
        """Release the memory of a task."""
        if self._settings.total_bytes:
            self._tasks.remove(memory_bytes)
            if not self._tasks and self._lock is not None:
                self._lock.release()

    def give_way(self) -> None:
        """Let the tasks of other processes run if this one has none, and none that waits."""
        if self._lock is not None:
            self._lock.give_way()
            if not self._tasks:
                self._lock.release()

    def close(self) -> None:
        """Close the lock files."""
        if self._lock is not None:
            self._lock.close()


class MachineLock:
    """A lock of several processes that is held by many of them, or by one alone. It never waits.

    It has three files (flock(2)). All hold the lock of *use*; one that wants to be alone takes the lock of
    *turn* first, and keeps it while it waits for the others to release theirs: none starts meanwhile. One
    that has to wait for the turn keeps the lock of *next*, so that the other cannot have the next one too.

    Args:
        directory: The directory of the files.
    """

    def __init__(self, directory: Path) -> None:
        paths = [directory / f"memory-{name}" for name in ("next", "turn", "use")]
        self._files = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in paths]
        self._held = [False] * len(paths)

    def acquire_shared(self) -> bool:
        """Hold the lock beside others; return whether none is alone or waits to be."""
        if not (self._is_next() and self._try(TURN, shared=True)):
            return False
        self._unlock(NEXT)
        acquired = self._held[USE] or self._try(USE, shared=True)
        self._unlock(TURN)
        return acquired

    def acquire_alone(self) -> bool:
        """Hold the lock alone; return whether all others have released it.

        If not, others cannot acquire it until `release`; so call this again, or release.
        """
        if not (self._held[TURN] or (self._is_next() and self._try(TURN, shared=False))):
            return False
        self._unlock(NEXT)
        return self._try(USE, shared=False)

    def release(self) -> None:
        """Release the lock, and let others acquire it."""
        self._unlock(USE)
        self._unlock(TURN)

    def give_way(self) -> None:
        """Let others have the next turn."""
        self._unlock(NEXT)

    def close(self) -> None:
        """Release the lock, unless the parent of a forked process holds it; close the files."""
        for file in self._files:
            os.close(file)
        self._files, self._held = [], [False] * len(self._held)

    def _is_next(self) -> bool:
        return self._held[NEXT] or self._try(NEXT, shared=False)

    def _try(self, index: int, *, shared: bool) -> bool:
        if sys.platform != "win32":
            try:
                fcntl.flock(self._files[index], (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        self._held[index] = True
        return True

    def _unlock(self, index: int) -> None:
        if self._held[index] and sys.platform != "win32":
            fcntl.flock(self._files[index], fcntl.LOCK_UN)
        self._held[index] = False
