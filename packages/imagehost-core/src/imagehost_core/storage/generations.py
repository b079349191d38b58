"""Generations: cache invalidation across processes through shared memory, as by a seqlock.

A file of counters is mapped into every process that has the data directory open; an image's hash selects
its counter. A process that changes an image increments the counter before and after the change. A cache
entry stores the generation it was read at, and is valid only while the counter has not changed: one read
of memory, and no message between processes.

An odd counter means that a change is in progress; nothing is cached or valid then. A process that dies
during a change leaves the counter odd, so entries stay invalid until the next change, or the next
process that opens the directory, repairs it.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import calcsize
from typing import Final

from imagehost_core._util.clock import ElapsedClock, elapsed_seconds
from imagehost_core.storage.durable import open_owner_only
from imagehost_core.storage.locks import STRIPES, LockManager, stripe

_COUNTER: Final = "Q"
"""64 bits in native byte order and alignment, so that they are read and written atomically."""
_FILE_BYTES = STRIPES * calcsize(_COUNTER)


class GenerationTable:
    """The generations of a data directory.

    Args:
        path: The file of the counters; it is created if needed.
    """

    def __init__(self, path: Path) -> None:
        with open_owner_only(path, "a+b") as file:
            # Written, not only extended: touching a mapped page of a sparse file on a full disk is fatal.
            if file.seek(0, 2) < _FILE_BYTES:
                file.write(bytes(_FILE_BYTES))
            file.flush()
            self._map = mmap.mmap(file.fileno(), _FILE_BYTES)
        self._counters = memoryview(self._map).cast(_COUNTER)

    def read(self, key: str) -> int | None:
        """Return the generation to store with what is read next, or `None` during a change."""
        generation = self._counters[stripe(key)]
        return None if generation % 2 else generation

    @contextmanager
    def bump(self, *keys: str) -> Iterator[None]:
        """Invalidate all cache entries of keys, before and after a change.

        The caller holds the locks of the keys, which have the same stripes.
        """
        odd: dict[int, int] = {}
        for index in {stripe(key) for key in keys}:
            generation = self._counters[index]
            self._counters[index] = odd[index] = generation + (1 if generation % 2 == 0 else 2)
        try:
            yield
        finally:
            for index, generation in odd.items():
                self._counters[index] = generation + 1

    def bump_all(self, locks: LockManager, purpose: str) -> None:
        """Invalidate all cache entries of all keys, after a change that was made durable.

        Args:
            locks: The locks of the data directory.
            purpose: The purpose of the lock that a change of one key holds. No lock may be held now.
        """
        for index in range(STRIPES):
            with locks.acquire_stripe(purpose, index):
                # An odd counter was left by a process that died during a change.
                self._counters[index] += 2 - self._counters[index] % 2

    def repair(self, locks: LockManager, purpose: str) -> None:
        """Make the counters even that processes which died during a change have left odd.

        Args:
            locks: The locks of the data directory.
            purpose: The purpose of the lock that a change holds; a lock that is held means a live change.
        """
        for index in range(STRIPES):
            if self._counters[index] % 2:
                with locks.try_acquire(purpose, index) as acquired:
                    if acquired and self._counters[index] % 2:
                        self._counters[index] += 1

    def close(self) -> None:
        """Unmap the file."""
        self._counters.release()
        self._map.close()


# Generations of a host that shares its database with others: valid only during a lease.
#
# Processes of one data directory invalidate each other's caches through shared memory. Changes of other
# hosts arrive as invalidations from the database, in each process on its own. A process that cannot
# receive them must not serve from memory: while its lease is over, no generation can be read, so that
# every cache entry is invalid and nothing is cached.


class CacheLease:
    """The time until which this process may serve from memory; over at first.

    Args:
        clock: The source of elapsed time.

    Attributes:
        until: The time of `clock` at which the lease ends.
    """

    __slots__ = ("clock", "until")

    def __init__(self, clock: ElapsedClock = elapsed_seconds) -> None:
        self.clock = clock
        self.until = -math.inf

    @property
    def is_valid(self) -> bool:
        """Whether the lease has not ended."""
        return self.clock() < self.until

    def end(self) -> None:
        """End the lease now."""
        self.until = -math.inf


class LeasedGenerationTable(GenerationTable):
    """The generations of a data directory of one of several hosts.

    Args:
        path: The file of the counters; it is created if needed.
        lease: The lease of this process.
    """

    def __init__(self, path: Path, lease: CacheLease) -> None:
        super().__init__(path)
        self.lease = lease
        # Even numbers that only increase, as those of the file do without a change in progress: their sum
        # is the same only if both are.
        self._remote = [0] * STRIPES

    def read(self, key: str) -> int | None:
        """Return the generation to store with what is read next; `None` in a change or without a lease."""
        lease = self.lease
        if lease.clock() >= lease.until:
            return None
        index = stripe(key)
        generation = self._counters[index] + self._remote[index]
        return None if generation % 2 else generation

    def invalidate(self, keys: Iterable[str]) -> None:
        """Invalidate all cache entries of keys in this process. One thread changes the table at a time."""
        for index in {stripe(key) for key in keys}:
            self._remote[index] += 2

    def invalidate_all(self) -> None:
        """Invalidate all cache entries of all keys in this process."""
        for index in range(STRIPES):
            self._remote[index] += 2
