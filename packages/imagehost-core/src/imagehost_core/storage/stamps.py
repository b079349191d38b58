"""Stamps: how a process knows at once that what it remembers of an image is no longer true.

A file of counters is mapped into every process that has the data folder open; an image falls on one
of them by its hash. Whoever changes an image moves its counter on, before and after. Whoever
remembers something of an image keeps the stamp that it had, and believes it only while the counter
is the same: one read of memory, and no message between processes.

An odd counter says that a change is under way; nothing is believed then. A process that dies in the
middle leaves it odd, so nothing wrong is believed until the next change sets it right.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from imagehost_core.storage.locks import STRIPES, stripe

_COUNTER = struct.Struct("=Q")
_BYTES = STRIPES * _COUNTER.size


class Stamps:
    """The counters of a data folder.

    Args:
        path: Their file; it is made if there is none.
    """

    def __init__(self, path: Path) -> None:
        with path.open("a+b") as file:
            if file.seek(0, 2) < _BYTES:
                file.truncate(_BYTES)
            file.flush()
            self._counters = mmap.mmap(file.fileno(), _BYTES)

    def read(self, key: str) -> int | None:
        """Return the stamp to keep with what is read next, or `None` while a change is under way."""
        (count,) = _COUNTER.unpack_from(self._counters, stripe(key) * _COUNTER.size)
        return None if count % 2 else int(count)

    @contextmanager
    def changing(self, key: str) -> Iterator[None]:
        """Make everything that is remembered of a key unbelievable, from before to after a change.

        The caller holds the lock of the key: its stripe is the same.
        """
        at = stripe(key) * _COUNTER.size
        (count,) = _COUNTER.unpack_from(self._counters, at)
        odd = count + 1 if count % 2 == 0 else count + 2
        _COUNTER.pack_into(self._counters, at, odd)
        try:
            yield
        finally:
            _COUNTER.pack_into(self._counters, at, odd + 1)

    def close(self) -> None:
        """Let go of the file."""
        self._counters.close()
