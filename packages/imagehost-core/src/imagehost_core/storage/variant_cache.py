"""The variant cache: memory, then disk.

Variants can be rendered again, so nothing is synced to the disk; a checksum in each file's header detects
files that a power failure has corrupted. Purging must be reliable: a variant is written under its image's
lock and only while the image exists, and an image is deleted under the same lock. So a render in progress
cannot bring back the variants of a deleted image.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from attrs import frozen

from imagehost_core._util.lru import LRUCache
from imagehost_core.errors import InsufficientStorageError, NotFoundError
from imagehost_core.ids import ImageId, delivery_not_found_text, is_image_id
from imagehost_core.observer import Observer, VariantFound, VariantsSwept, ignore
from imagehost_core.settings import DeliverySettings
from imagehost_core.storage import DataLayout, GenerationTable, LockManager, StagingArea
from imagehost_core.storage.durable import make_directory, open_owner_only, translate_disk_full
from imagehost_core.storage.layout import file_sizes, misplaced_paths

_HEADER = struct.Struct("<4sIQ")
"""Magic bytes, CRC-32 and length of the data."""
_MAGIC = b"ihv1"
_EVICT_SHARE = 8
"""When an image has too many variants, an eighth of the limit is evicted below it."""
_SWEEP_SHARE = 20
"""A process sweeps when it has written a twentieth of the disk cache's limit."""

log = logging.getLogger(__name__)


@frozen
class _MemoryEntry:
    generation: int
    data: bytes


class VariantCache:
    """The variant cache of a data directory.

    Args:
        layout: The data directory.
        staging: This process's staging area.
        locks: The locks of the data directory.
        generations: The generations of images, which validate memory entries.
        settings: The limits of the cache.
        exists: Returns whether an image exists now.
        observe: Receives the measurements of the cache.
    """

    def __init__(
        self,
        layout: DataLayout,
        staging: StagingArea,
        locks: LockManager,
        generations: GenerationTable,
        settings: DeliverySettings,
        exists: Callable[[ImageId], bool],
        observe: Observer = ignore,
    ) -> None:
        self._layout = layout
        self._staging = staging
        self._locks = locks
        self._generations = generations
        self._settings = settings
        self._exists = exists
        self._observe = observe
        self._memory: LRUCache[tuple[ImageId, str], _MemoryEntry] = LRUCache(
            settings.memory_cache_bytes, lambda entry: len(entry.data)
        )
        self._written_since_sweep = 0

    def get_memory(self, image_id: ImageId, key: str) -> bytes | None:
        """Return a variant if it is in memory and valid; never waits."""
        entry = self._memory.get((image_id, key))
        if entry is None:
            return None
        if entry.generation != self._generations.read(image_id):
            self._memory.discard((image_id, key))
            return None
        return entry.data

    def get(self, image_id: ImageId, key: str) -> bytes | None:
        """Return a variant if it is in memory or on disk."""
        data = self.get_memory(image_id, key)
        if data is not None:
            self._observe(VariantFound("memory"))
            return data
        data = self._read(image_id, key)
        if data is not None:
            self._observe(VariantFound("disk"))
        return data

    def put(self, image_id: ImageId, key: str, data: bytes) -> None:
        """Cache a variant, in memory and, if there is space, on disk.

        Args:
            image_id: The image.
            key: The variant, as a valid file name.
            data: The bytes of the variant.

        Raises:
            NotFoundError: The image was deleted meanwhile.
        """
        self._observe(VariantFound("render"))
        with self._locks.acquire("image", image_id):
            if not self._exists(image_id):
                raise NotFoundError(delivery_not_found_text(image_id))
            generation = self._generations.read(image_id)
            try:
                self._write(self._layout.variants_of(image_id), key, data)
            except InsufficientStorageError:
                log.warning("disk full, variant not cached on disk: image=%s key=%s", image_id, key)
        self._put_memory(image_id, key, generation, data)
        self._written_since_sweep += len(data)
        if self._written_since_sweep > self._settings.disk_cache_bytes // _SWEEP_SHARE:
            self._written_since_sweep = 0
            self.sweep()

    def purge(self, image_id: ImageId) -> None:
        """Delete all variants of an image. The caller holds its lock and has bumped its generation."""
        self._staging.remove_tree_atomically(self._layout.variants_of(image_id))

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images with variants on disk, in any order."""
        for directory in self._layout.variants.glob("*/*"):
            if is_image_id(directory.name) and directory == self._layout.variants_of(directory.name):
                yield directory.name

    def unknown_paths(self) -> Iterator[str]:
        """Yield the paths, relative to the cache, of what is in it but can belong to no image."""
        return misplaced_paths(self._layout.variants)

    def has(self, image_id: ImageId) -> bool:
        """Return whether there is a directory of variants of an image."""
        return self._layout.variants_of(image_id).is_dir()

    def sizes(self, image_id: ImageId) -> Mapping[str, int]:
        """Return the size of the file of each of an image's variants on disk in bytes, by key."""
        return file_sizes(self._layout.variants_of(image_id))

    def corrupt(self, image_id: ImageId) -> tuple[str, ...]:
        """Return the keys of an image's variants on disk that would be discarded when they are read."""
        directory = self._layout.variants_of(image_id)
        with suppress(FileNotFoundError, NotADirectoryError):
            return tuple(path.name for path in directory.iterdir() if not _is_intact(path))
        return ()

    def discard(self, image_id: ImageId, key: str) -> None:
        """Delete a variant on disk, if it is there."""
        (self._layout.variants_of(image_id) / key).unlink(missing_ok=True)

    def sweep(self, *, dry_run: bool = False) -> tuple[int, int]:
        """Evict the least recently used variants until the disk cache is within its limit.

        Args:
            dry_run: Whether to delete nothing.

        Returns:
            The number of evicted variants and their bytes; 0 while another process does it.
        """
        evicted = freed = 0
        with self._locks.try_acquire("sweep") as acquired:
            if not acquired:
                return 0, 0
            files = sorted(self._files(), key=lambda file: file[0])
            total = sum(size for _, size, _ in files)
            for _, size, path in files:
                if total - freed <= self._settings.disk_cache_bytes:
                    break
                if not dry_run:
                    path.unlink(missing_ok=True)
                evicted, freed = evicted + 1, freed + size
            if not dry_run:
                self._observe(VariantsSwept(total - freed, evicted))
        return evicted, freed

    def _read(self, image_id: ImageId, key: str) -> bytes | None:
        generation = self._generations.read(image_id)
        path = self._layout.variants_of(image_id) / key
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        data = _decode(content)
        if data is None:
            log.warning("discarding corrupt cached variant: image=%s key=%s", image_id, key)
            path.unlink(missing_ok=True)
            return None
        with suppress(FileNotFoundError):
            os.utime(path)
        self._put_memory(image_id, key, generation, data)
        return data

    def _write(self, directory: Path, key: str, data: bytes) -> None:
        # Variants can be rendered again: they must not use the space that changes and deletions need.
        self._staging.require_free_space(len(data))
        with self._staging.temporary_path() as temporary, translate_disk_full():
            with open_owner_only(temporary, "xb") as file:
                file.write(_HEADER.pack(_MAGIC, crc32(data), len(data)) + data)
            make_directory(directory, fsync=False)
            temporary.replace(directory / key)
        self._evict(directory)

    def _evict(self, directory: Path) -> None:
        """Evict the least recently used variants of an image that has too many.

        Evicts below the limit, so that the variants are not sorted again for each further one.
        """
        limit = self._settings.variants_per_image
        if sum(1 for _ in directory.iterdir()) > limit:
            newest_first = sorted(directory.iterdir(), key=_last_used, reverse=True)
            for path in newest_first[limit - limit // _EVICT_SHARE :]:
                path.unlink(missing_ok=True)

    def _put_memory(self, image_id: ImageId, key: str, generation: int | None, data: bytes) -> None:
        if generation is not None:
            self._memory.put((image_id, key), _MemoryEntry(generation, data))

    def _files(self) -> Iterator[tuple[int, int, Path]]:
        """Yield the last use, size and path of each variant on disk."""
        # `os.walk` ignores directories that are deleted meanwhile.
        for directory, _, names in os.walk(self._layout.variants):
            for name in names:
                path = Path(directory, name)
                with suppress(FileNotFoundError):
                    status = path.stat()
                    yield status.st_mtime_ns, status.st_size, path


def _last_used(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _is_intact(path: Path) -> bool:
    """Return whether a variant file can be decoded, or was deleted meanwhile."""
    try:
        return _decode(path.read_bytes()) is not None
    except FileNotFoundError:
        return True


def _decode(content: bytes) -> bytes | None:
    """Return the data of a variant file, or `None` if the file is corrupt."""
    if len(content) < _HEADER.size:
        return None
    magic, checksum, size = _HEADER.unpack_from(content)
    data = content[_HEADER.size :]
    return data if magic == _MAGIC and size == len(data) and checksum == crc32(data) else None
