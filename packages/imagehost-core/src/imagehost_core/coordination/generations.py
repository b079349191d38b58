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

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import calcsize
from typing import Final

from imagehost_core._util.durable import open_owner_only
from imagehost_core.coordination.locks import STRIPES, LockManager, stripe

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
