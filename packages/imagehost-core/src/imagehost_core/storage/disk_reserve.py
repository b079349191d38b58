"""Room that is kept for deleting: on a full disk even that needs a few pages for the log.

A file holds the room while there is plenty. Whoever must write on a disk that has none left, so that
room can be made, removes the file first; afterwards, when there is room again, it is put back.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from imagehost_core.storage.durable import free_bytes, open_owner_only

RESERVE_BYTES = 2 * 2**20
"""A deletion writes about ten pages of 4 KiB to the log; this is room for some fifty at once."""
MIN_FREE_TO_ACQUIRE = 16 * RESERVE_BYTES
"""The room is taken only where this much is free."""


class DiskReserve:
    """The room kept in a data folder.

    Args:
        path: The file that holds it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def acquire(self) -> None:
        """Take the room, if it is not taken and there is plenty; never fails for want of it."""
        if self._path.exists() or free_bytes(self._path.parent) < MIN_FREE_TO_ACQUIRE:
            return
        # A full disk is what this is for; another process may be doing the same.
        with suppress(OSError):
            part = self._path.with_suffix(f".{os.getpid()}")
            with open_owner_only(part, "wb") as file:
                file.write(bytes(RESERVE_BYTES))
            part.replace(self._path)

    def release(self) -> None:
        """Give the room back to the disk, if nothing else is left."""
        if free_bytes(self._path.parent) < RESERVE_BYTES:
            self._path.unlink(missing_ok=True)
