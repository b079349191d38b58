"""A set of ids of images that does not grow in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from imagehost_core.ids import ImageId

_CACHE_KIB = 16_384


class ImageIdSet:
    """A set of ids in a temporary file, which is deleted when the set is closed.

    A million ids take 30 MB on the disk, and 100 MB in a `set`. Not thread-safe.
    """

    def __init__(self) -> None:
        # A database without a name is a temporary file (https://sqlite.org/inmemorydb.html#temp_db).
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._connection.execute("CREATE TABLE ids (id TEXT PRIMARY KEY) WITHOUT ROWID")
        self._connection.execute("BEGIN")

    def add(self, image_ids: Iterable[ImageId]) -> None:
        """Add ids; those that are in the set already are ignored."""
        rows = ((image_id,) for image_id in image_ids)
        self._connection.executemany("INSERT OR IGNORE INTO ids (id) VALUES (?)", rows)

    def remove(self, image_ids: Iterable[ImageId]) -> None:
        """Remove ids; those that are not in the set are ignored."""
        rows = ((image_id,) for image_id in image_ids)
        self._connection.executemany("DELETE FROM ids WHERE id = ?", rows)

    def __contains__(self, image_id: ImageId) -> bool:
        found = self._connection.execute("SELECT 1 FROM ids WHERE id = ?", (image_id,)).fetchone()
        return found is not None

    def __iter__(self) -> Iterator[ImageId]:
        """Yield all ids in ascending order; the set must not be changed meanwhile."""
        for (image_id,) in self._connection.execute("SELECT id FROM ids ORDER BY id"):
            yield ImageId(image_id)

    def __len__(self) -> int:
        [count] = self._connection.execute("SELECT count(*) FROM ids").fetchone()
        return int(count)

    def close(self) -> None:
        """Delete the file."""
        self._connection.close()
