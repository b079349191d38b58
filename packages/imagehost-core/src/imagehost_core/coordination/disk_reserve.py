"""The disk reserve: space for deletions on a full disk, which write to the database's log.

A file occupies the space while the disk is not full. What must succeed on a full disk, so that files can be
deleted, releases the file first; it is created again when there is space.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from imagehost_core._util.durable import free_bytes, open_owner_only

RESERVE_BYTES = 2 * 2**20
"""A deletion writes about ten pages of 4 KiB to the log; this is enough for some fifty at once."""
MIN_FREE_TO_ACQUIRE = 16 * RESERVE_BYTES
"""The reserve is created only if this many bytes are free."""


class DiskReserve:
    """The disk reserve of a data directory.

    Args:
        path: The file that occupies the space.
        free_more: Frees space, where the file has gone, until the function that it gets returns true.
    """

    def __init__(
        self, path: Path, free_more: Callable[[Callable[[], bool]], None] = lambda _is_enough: None
    ) -> None:
        self._path, self._free_more = path, free_more

    def acquire(self) -> None:
        """Create the reserve, unless it exists or the disk has too little space; never fails for that."""
        if self._path.exists() or free_bytes(self._path.parent) < MIN_FREE_TO_ACQUIRE:
            return
        # The disk may fill up meanwhile, and another process may create the reserve as well.
        with suppress(OSError):
            temporary = self._path.with_suffix(f".{os.getpid()}")
            with open_owner_only(temporary, "wb") as file:
                file.write(bytes(RESERVE_BYTES))
            temporary.replace(self._path)

    def release(self) -> None:
        """Free as much space as the reserve has, unless the disk has it; never fails."""
        with suppress(OSError):
            if not self._has_space():
                self._path.unlink(missing_ok=True)
            if not self._has_space():
                self._free_more(self._has_space)

    def _has_space(self) -> bool:
        return free_bytes(self._path.parent) >= RESERVE_BYTES
