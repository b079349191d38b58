"""The cache of variants: memory, then disk, then the work itself, done once.

Everything here can be made again, so nothing is synced to the disk; a checksum at the head of each
file tells one that a power cut has torn. What matters is that it can be *un*made: a variant is put
in place under its image's lock, and only while the image's record stands, and an image is deleted
under the same lock. So a render that is under way cannot bring back what was deleted.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from attrs import frozen

from imagehost_core._util.lru import LRUCache
from imagehost_core._util.singleflight import SingleFlight
from imagehost_core.errors import InsufficientStorageError, NotFoundError
from imagehost_core.ids import ImageId, delivery_not_found_text
from imagehost_core.settings import DeliverySettings
from imagehost_core.storage import DataLayout, GenerationTable, LockManager, StagingArea
from imagehost_core.storage.durable import make_folder, open_owner_only, translate_disk_full
from imagehost_core.workers import JobClass

_HEAD = struct.Struct("<4sIQ")
_MAGIC = b"ihv1"
_EVICT_SHARE = 8
"""Of the variants of an image, this part goes when there is one too many."""
_SWEEP_SHARE = 20
"""A process sweeps once it has added a twentieth of the bound."""

log = logging.getLogger(__name__)


@frozen
class _MemoryEntry:
    generation: int
    data: bytes


class VariantCache:
    """The variants of a data folder.

    Args:
        folders: The data folder.
        staging: This process's staging folder.
        locks: Who is changing what.
        stamps: What may still be believed.
        settings: How much is kept.
        exists: Tells whether an image's record stands, as of this moment.
    """

    def __init__(
        self,
        folders: DataLayout,
        staging: StagingArea,
        locks: LockManager,
        stamps: GenerationTable,
        settings: DeliverySettings,
        exists: Callable[[ImageId], bool],
    ) -> None:
        self._folders = folders
        self._staging = staging
        self._locks = locks
        self._stamps = stamps
        self._settings = settings
        self._exists = exists
        self._memory: LRUCache[tuple[ImageId, str], _MemoryEntry] = LRUCache(
            settings.memory_cache_bytes, lambda kept: len(kept.data)
        )
        self._flights: SingleFlight[tuple[ImageId, str], bytes] = SingleFlight()
        self._added = 0

    def get_memory(self, image_id: ImageId, key: str) -> bytes | None:
        """Return a variant if it is in memory and still true; never waits."""
        kept = self._memory.get((image_id, key))
        if kept is None:
            return None
        if kept.generation != self._stamps.read(image_id):
            self._memory.drop((image_id, key))
            return None
        return kept.data

    def get(self, image_id: ImageId, key: str) -> bytes | None:
        """Return a variant if it is in memory or on disk."""
        return self.get_memory(image_id, key) or self._read(image_id, key)

    def get_or_create(
        self, image_id: ImageId, key: str, make: Callable[[], bytes], weight: JobClass = JobClass.HEAVY
    ) -> bytes:
        """Return a variant, from wherever it is soonest had.

        Args:
            image_id: Of which image.
            key: Which variant: a file name's worth of text.
            make: Does the work, if it must be done.
            weight: What that is expected to cost.

        Raises:
            NotFoundError: The image was deleted meanwhile.
        """
        found = self.get(image_id, key)
        return found or self._flights.run((image_id, key), lambda: self._create(image_id, key, make, weight))

    def purge(self, image_id: ImageId) -> None:
        """Remove all variants of an image. The caller holds its lock, and has moved its stamp."""
        self._staging.remove_tree_atomically(self._folders.variants_of(image_id))

    def sweep(self) -> None:
        """Bring the variants on disk below their bound, the least recently used first."""
        with self._locks.try_acquire("sweep") as alone:
            if not alone:
                return
            found = sorted(self._all(), key=lambda entry: entry[0])
            total = sum(size for _, size, _ in found)
            for _, size, path in found:
                if total <= self._settings.disk_cache_bytes:
                    break
                path.unlink(missing_ok=True)
                total -= size

    def _create(self, image_id: ImageId, key: str, make: Callable[[], bytes], weight: JobClass) -> bytes:
        # Other processes of this machine want the same variant as well: one of them makes it. Two variants
        # can share a lock; so light work has locks of its own, and waits for no heavy work here either.
        with self._locks.acquire(f"render-{weight.value}", f"{image_id}/{key}"):
            found = self._read(image_id, key)
            if found is not None:
                return found
            data = make()
            self._publish(image_id, key, data)
        self._added += len(data)
        if self._added > self._settings.disk_cache_bytes // _SWEEP_SHARE:
            self._added = 0
            self.sweep()
        return data

    def _read(self, image_id: ImageId, key: str) -> bytes | None:
        stamp = self._stamps.read(image_id)
        path = self._folders.variants_of(image_id) / key
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        data = _unframe(content)
        if data is None:
            log.warning("a variant of %s was torn; it is made again", image_id)
            path.unlink(missing_ok=True)
            return None
        with suppress(FileNotFoundError):
            os.utime(path)
        self._remember(image_id, key, stamp, data)
        return data

    def _publish(self, image_id: ImageId, key: str, data: bytes) -> None:
        with self._locks.acquire("image", image_id):
            if not self._exists(image_id):
                raise NotFoundError(delivery_not_found_text(image_id))
            stamp = self._stamps.read(image_id)
            try:
                self._write(self._folders.variants_of(image_id), key, data)
            except InsufficientStorageError:
                log.warning("there is no room on the disk for a variant of %s", image_id)
        self._remember(image_id, key, stamp, data)

    def _write(self, home: Path, key: str, data: bytes) -> None:
        # What can be made again must not take the room that changes and deletions need.
        self._staging.require_free_space(len(data))
        with self._staging.temporary_path() as part, translate_disk_full():
            with open_owner_only(part, "xb") as file:
                file.write(_HEAD.pack(_MAGIC, crc32(data), len(data)) + data)
            make_folder(home, fsync=False)
            part.replace(home / key)
        self._evict(home)

    def _evict(self, home: Path) -> None:
        """Where an image has too many variants, remove the least recently used, and some to spare.

        To see which those are takes a look at every one. With some to spare that is not done each time.
        """
        most = self._settings.variants_per_image
        if sum(1 for _ in home.iterdir()) > most:
            by_use = sorted(home.iterdir(), key=_last_used, reverse=True)
            for path in by_use[most - most // _EVICT_SHARE :]:
                path.unlink(missing_ok=True)

    def _remember(self, image_id: ImageId, key: str, stamp: int | None, data: bytes) -> None:
        if stamp is not None:
            self._memory.put((image_id, key), _MemoryEntry(stamp, data))

    def _all(self) -> Iterator[tuple[int, int, Path]]:
        # Folders may vanish at any moment: their images are being deleted. `os.walk` passes over those.
        for folder, _, names in os.walk(self._folders.variants):
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):
                    status = path.stat()
                    yield status.st_mtime_ns, status.st_size, path


def _last_used(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _unframe(content: bytes) -> bytes | None:
    """Return what follows the head of a file, or `None` where it is not whole."""
    if len(content) < _HEAD.size:
        return None
    magic, checksum, size = _HEAD.unpack_from(content)
    data = content[_HEAD.size :]
    return data if magic == _MAGIC and size == len(data) and checksum == crc32(data) else None
