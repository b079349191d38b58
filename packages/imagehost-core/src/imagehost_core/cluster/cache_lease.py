"""Generations of a host that shares its database with others: valid only during a lease.

Processes of one data directory invalidate each other's caches through shared memory. Changes of other
hosts arrive as invalidations from the database, in each process on its own. A process that cannot
receive them must not serve from memory: while its lease is over, no generation can be read, so that
every cache entry is invalid and nothing is cached.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from imagehost_core._util.clock import ElapsedClock, elapsed_seconds
from imagehost_core.coordination.generations import GenerationTable
from imagehost_core.coordination.locks import STRIPES, stripe


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
