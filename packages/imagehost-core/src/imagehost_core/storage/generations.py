"""Stamps: how a process knows at once that what it remembers of an image is no longer true.

A file of counters is mapped into every process that has the data folder open; an image falls on one
of them by its hash. Whoever changes an image moves its counter on, before and after. Whoever
remembers something of an image keeps the stamp that it had, and believes it only while the counter
is the same: one read of memory, and no message between processes.

An odd counter says that a change is under way; nothing is believed then. A process that dies in the
middle leaves it odd, so nothing wrong is believed until the next change, or the next process that
opens the folder, sets it right.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import calcsize
from typing import Final

from imagehost_core.storage.durable import open_owner_only
from imagehost_core.storage.locks import STRIPES, LockManager, stripe

_COUNTER: Final = "Q"
"""64 bits in the machine's own order and alignment, so that they are read and written in one go."""
_BYTES = STRIPES * calcsize(_COUNTER)


class GenerationTable:
    """The counters of a data folder.

    Args:
        path: Their file; it is made if there is none.
    """

    def __init__(self, path: Path) -> None:
        with open_owner_only(path, "a+b") as file:
            # Written, and not just made that long: a page that finds no room on the disk when it is first
            # touched ends the process.
            if file.seek(0, 2) < _BYTES:
                file.write(bytes(_BYTES))
            file.flush()
            self._file = mmap.mmap(file.fileno(), _BYTES)
        self._counters = memoryview(self._file).cast(_COUNTER)

    def read(self, key: str) -> int | None:
        """Return the stamp to keep with what is read next, or `None` while a change is under way."""
        count = self._counters[stripe(key)]
        return None if count % 2 else count

    @contextmanager
    def bump(self, key: str) -> Iterator[None]:
        """Make everything that is remembered of a key unbelievable, from before to after a change.

        The caller holds the lock of the key: its stripe is the same.
        """
        number = stripe(key)
        count = self._counters[number]
        odd = count + 1 if count % 2 == 0 else count + 2
        self._counters[number] = odd
        try:
            yield
        finally:
            self._counters[number] = odd + 1

    def repair(self, locks: LockManager, purpose: str) -> None:
        """Set right what processes that died in the middle of a change have left.

        Args:
            locks: Of the data folder.
            purpose: Of the lock that whoever changes something holds: who has it now is alive.
        """
        for number in range(STRIPES):
            if self._counters[number] % 2:
                with locks.try_acquire(purpose, number) as alone:
                    if alone and self._counters[number] % 2:
                        self._counters[number] += 1

    def close(self) -> None:
        """Let go of the file."""
        self._counters.release()
        self._file.close()
