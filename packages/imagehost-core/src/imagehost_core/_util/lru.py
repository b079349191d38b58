"""A least recently used (LRU) cache with a limit on the total weight of its entries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """A thread-safe LRU cache with weighted entries.

    Args:
        max_weight: The limit on the total weight of all entries.
        weigh: Returns the weight of a value.
    """

    def __init__(self, max_weight: int, weigh: Callable[[V], int]) -> None:
        self._max_weight = max_weight
        self._weigh = weigh
        self._weight = 0
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, key: K) -> bool:
        """Return whether a key is cached; does not count as a use."""
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return a value and mark it as most recently used, or return `None`."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Add or replace a value, and evict others as needed. A value above the limit is not cached."""
        weight = self._weigh(value)
        with self._lock:
            self._remove(key)
            if weight > self._max_weight:
                return
            self._entries[key] = value
            self._weight += weight
            while self._weight > self._max_weight:
                self._remove(next(iter(self._entries)))

    def discard(self, key: K) -> None:
        """Remove a key if it is cached."""
        with self._lock:
            self._remove(key)

    def _remove(self, key: K) -> None:
        value = self._entries.pop(key, None)
        if value is not None:
            self._weight -= self._weigh(value)


class GenerationCache(Generic[K, V]):
    """A thread-safe LRU cache of what was read at a generation, and is valid while that has not changed.

    Args:
        max_weight: The limit on the total weight of all entries.
        weigh: Returns the weight of a value; by default the entries are counted.
    """

    def __init__(self, max_weight: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._entries: LRUCache[K, tuple[int, V]] = LRUCache(max_weight, lambda entry: weigh(entry[1]))

    def get(self, key: K, generation: int | None) -> V | None:
        """Return a value of the current generation; `None` is that of a change in progress."""
        entry = self._entries.get(key)
        if entry is None or entry[0] == generation:
            return None if entry is None else entry[1]
        if generation is not None:
            self._entries.discard(key)
        return None

    def put(self, key: K, value: V, generation: int | None) -> None:
        """Add a value with the generation from before it was read, unless a change was in progress."""
        if generation is not None:
            self._entries.put(key, (generation, value))
