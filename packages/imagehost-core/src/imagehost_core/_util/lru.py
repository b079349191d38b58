"""A memory of bytes that is bounded: the least recently used goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """A mapping whose entries have weights, with a bound on their sum. Safe between threads.

    Args:
        bound: The most that all entries may weigh together.
        weigh: Tells what an entry weighs.
    """

    def __init__(self, bound: int, weigh: Callable[[V], int]) -> None:
        self._bound = bound
        self._weigh = weigh
        self._weight = 0
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return an entry, which counts as used, or `None`."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Keep an entry; others go, if they must. One heavier than the bound is not kept."""
        weight = self._weigh(value)
        with self._lock:
            self._drop(key)
            if weight > self._bound:
                return
            self._entries[key] = value
            self._weight += weight
            while self._weight > self._bound:
                self._drop(next(iter(self._entries)))

    def drop(self, key: K) -> None:
        """Forget an entry, if it is there."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: K) -> None:
        value = self._entries.pop(key, None)
        if value is not None:
            self._weight -= self._weigh(value)
