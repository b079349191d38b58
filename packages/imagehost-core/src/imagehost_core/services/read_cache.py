"""Results of reads in memory, which the next commit of any process invalidates.

Whether anything was committed since is known from shared memory: that takes 0.5 µs, and a page of 20 images
200. So a result in memory is as current as one that is read now, and a page that many clients request between
two commits is read once. PostgreSQL has no such number, so there every result is read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from imagehost_core._util.lru import LRUCache
from imagehost_core.db import Database

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ReadCache(Generic[K, V]):
    """The latest results of one kind of read; thread-safe.

    Args:
        database: The database that is read.
        max_weight: The limit on the total weight of all results.
        weigh: Returns the weight of a result.
    """

    def __init__(self, database: Database, max_weight: int, weigh: Callable[[V], int]) -> None:
        self._database = database
        self._results: LRUCache[K, tuple[int, V]] = LRUCache(max_weight, lambda entry: weigh(entry[1]))

    def get(self, key: K, read: Callable[[], V]) -> V:
        """Return the result of a read, from memory if nothing was committed since it was read.

        Args:
            key: Everything that the result depends on beside the database.
            read: Reads the result; what it raises is not kept.
        """
        # The version is taken first: a commit before the read then only makes the result outdated at once.
        version = self._database.version()
        if version is None:
            return read()
        kept = self._results.get(key)
        if kept is not None and kept[0] == version:
            return kept[1]
        result = read()
        self._results.put(key, (version, result))
        return result
