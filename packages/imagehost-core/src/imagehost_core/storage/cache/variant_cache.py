"""The variant cache: memory, then disk.

Variants can be rendered again, so nothing is synced to the disk; a checksum in each file's header detects
files that a power failure has corrupted. Purging must be reliable: a variant is written under the lock of
its image's variants and only while the image exists, and variants are purged under the same lock after the
image's record was deleted, on this host or on another. So a render in progress cannot bring back the variants
of a deleted image. Nothing waits for another host, or for the lock of an image, while it holds this lock.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from imagehost_core._util.durable import make_directory, open_owner_only, read_nowait, translate_disk_full
from imagehost_core._util.lru import GenerationCache, LRUCache
from imagehost_core.coordination.generations import GenerationTable
from imagehost_core.coordination.locks import LockManager
from imagehost_core.errors import InsufficientStorageError, NotFoundError
from imagehost_core.ids import ImageId, delivery_not_found_text, is_image_id
from imagehost_core.observer import Observer, VariantFound, VariantsEvicted, VariantsSwept, ignore
from imagehost_core.settings import DeliverySettings
from imagehost_core.storage import DataLayout, StagingArea
from imagehost_core.storage.cache.background_sweep import BackgroundSweep
from imagehost_core.storage.cache.eviction import evict_least_recently_used, never
from imagehost_core.storage.layout import file_sizes, misplaced_paths, shard

MEMORY_ENTRY_BYTES = 512
"""What a variant in memory takes beside its data, for its id, its key and the objects around them: 460 bytes
were measured with data of 100 bytes. Otherwise a limit of 64 MiB admits 360 MiB of such variants."""
LARGE_VARIANT_BYTES = 256 * 1024
"""A larger variant is delivered from its file: in memory, clients that read slowly would hold it there beyond
the limit of the cache. Only if it cannot be written to the disk, memory keeps it for the next requests."""
TOUCH_SECONDS = 3_600
"""The time of the last use is as exact as this where a request must not wait for the file system."""
VERIFIED_VARIANTS = 10_000
"""Variants whose checksum this process has verified within `TOUCH_SECONDS`, 250 bytes each: it takes longer
than the rest of a response, and a power failure, which corrupts files, ends the process."""
_EVICT_SHARE = 8
"""When an image has too many variants, an eighth of the limit is evicted below it."""

_HEADER = struct.Struct("<4sIQ")
"""The header of a file: magic bytes, CRC-32 and length of the data."""
_MAGIC = b"ihv1"
_PIECE_BYTES = 64 * 1024

log = logging.getLogger(__name__)


class _ReadBuffer(threading.local):
    """The buffer of a thread for files up to `LARGE_VARIANT_BYTES`; a larger one is cut off, so invalid."""

    def __init__(self) -> None:
        self.content = bytearray(_HEADER.size + LARGE_VARIANT_BYTES)


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
        self._root = os.fspath(layout.variants)
        self._staging = staging
        self._locks = locks
        self._generations = generations
        self._settings = settings
        self._exists = exists
        self._observe = observe
        self._memory: GenerationCache[tuple[ImageId, str], bytes] = GenerationCache(
            settings.memory_cache_bytes, lambda data: len(data) + MEMORY_ENTRY_BYTES
        )
        self._verified_at: LRUCache[tuple[ImageId, str], float] = LRUCache(VERIFIED_VARIANTS, lambda _: 1)
        self._buffer = _ReadBuffer()
        self._background_sweep = BackgroundSweep(self.sweep, settings.disk_cache_bytes)

    def get_memory(self, image_id: ImageId, key: str, generation: int | None) -> bytes | None:
        """Return a variant if it is in memory and valid; never waits.

        Args:
            image_id: The image.
            key: The variant.
            generation: The image's generation, read for this request.
        """
        return self._memory.get((image_id, key), generation)

    def get(self, image_id: ImageId, key: str) -> bytes | None:
        """Return the bytes of a variant if it is in memory or on disk."""
        content = self.open(image_id, key)
        if content is None or isinstance(content, bytes):
            return content
        with content:
            return content.read()

    def open(self, image_id: ImageId, key: str) -> bytes | BinaryIO | None:
        """Return a variant if it is in memory or on disk; a large one as a file at the start of its data."""
        data = self.get_memory(image_id, key, self._generations.read(image_id))
        if data is not None:
            self._observe(VariantFound("memory"))
            return data
        content = self._open_file(image_id, key)
        if content is not None:
            self._observe(VariantFound("disk"))
        return content

    def read_nowait(self, image_id: ImageId, key: str) -> tuple[str, bytes] | None:
        """Return a variant and where it was, `memory` or `disk`, if an event loop need not wait for it.

        That is if its bytes are in memory or in the page cache. `None` also for files where the file system
        cannot tell (tmpfs), on other systems than Linux, and for those larger than `LARGE_VARIANT_BYTES`.
        """
        generation = self._generations.read(image_id)
        data = self.get_memory(image_id, key, generation)
        if data is not None:
            return "memory", data
        if generation is None:
            return None
        # Text, because objects of pathlib would take as long as everything else here.
        path = f"{self._root}/{shard(image_id)}/{image_id}/{key}"
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            size = read_nowait(descriptor, self._buffer.content, 0)
            now = time.time()
            verified_at = self._verified_at.get((image_id, key))
            is_verified = verified_at is not None and now - verified_at < TOUCH_SECONDS
            data = _decode(memoryview(self._buffer.content)[:size], is_verified=is_verified)
            # A deletion has removed the file if it is invalid now.
            if data is None or self._generations.read(image_id) != generation:
                return None
            if not is_verified:
                self._verified_at.put((image_id, key), now)
                if now - os.fstat(descriptor).st_mtime > TOUCH_SECONDS:
                    os.utime(descriptor)
        except OSError:
            # BlockingIOError: not in the page cache. Another: the file system cannot tell.
            return None
        finally:
            os.close(descriptor)
        self._memory.put((image_id, key), data, generation)
        return "disk", data

    def open_stored(self, image_id: ImageId, key: str, data: bytes) -> bytes | BinaryIO:
        """Return a variant that was just stored as `open` does; its bytes if it is not on disk."""
        if len(data) <= LARGE_VARIANT_BYTES:
            return data
        content = self._open_file(image_id, key)
        return data if content is None else content

    def put(self, image_id: ImageId, key: str, data: bytes) -> None:
        """Cache a rendered variant, in memory and, if there is space, on disk. Never waits for a sweep.

        Args:
            image_id: The image.
            key: The variant, as a valid file name.
            data: The bytes of the variant.

        Raises:
            NotFoundError: The image was deleted meanwhile.
        """
        self._observe(VariantFound("render"))
        with self._locks.acquire("variants", image_id):
            generation = self._generations.read(image_id)
            if not self._exists(image_id):
                raise NotFoundError(delivery_not_found_text(image_id))
            is_written = self._background_sweep.may_write() and self._write(image_id, key, data)
        if not is_written or len(data) <= LARGE_VARIANT_BYTES:
            self._memory.put((image_id, key), data, generation)
        if is_written:
            self._background_sweep.add(len(data))

    def purge(self, image_id: ImageId) -> None:
        """Delete all variants of an image, whose record was deleted and generation is invalid."""
        with self._locks.acquire("variants", image_id):
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

    def sweep(self, is_stopped: Callable[[], bool] = never, *, dry_run: bool = False) -> tuple[int, int]:
        """Evict the least recently used variants until the disk cache is within its limit.

        Args:
            is_stopped: Returns whether to stop now.
            dry_run: Whether to delete nothing.

        Returns:
            The number of evicted variants and their bytes; 0 while another process does it.

        Raises:
            EvictionStopped: `is_stopped` has returned true.
        """
        with self._locks.try_acquire("sweep") as acquired:
            if not acquired:
                return 0, 0
            limit = self._settings.disk_cache_bytes
            eviction = evict_least_recently_used(
                self._layout.variants, limit, dry_run=dry_run, is_stopped=is_stopped
            )
            if not dry_run:
                remaining, count, freed = eviction.remaining_bytes, eviction.count, eviction.bytes
                self._observe(VariantsSwept(remaining))
                if count:
                    self._observe(VariantsEvicted("cache", count, freed))
                    log.info("variants evicted: count=%d bytes=%d stored_bytes=%d", count, freed, remaining)
        return eviction.count, eviction.bytes

    def flush(self) -> None:
        """Wait until the sweep ends that is in progress in the background."""
        self._background_sweep.wait()

    def close(self) -> None:
        """Stop the sweep that is in progress in the background."""
        self._background_sweep.close()

    def _open_file(self, image_id: ImageId, key: str) -> bytes | BinaryIO | None:
        generation = self._generations.read(image_id)
        path = self._layout.variants_of(image_id) / key
        try:
            content = _read_or_open(path)
        except FileNotFoundError:
            return None
        except OSError:
            log.warning("cannot read cached variant: image=%s key=%s", image_id, key, exc_info=True)
            return None
        if content is None:
            log.warning("discarding corrupt cached variant: image=%s key=%s", image_id, key)
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        with suppress(OSError):
            os.utime(path)
        if isinstance(content, bytes):
            self._memory.put((image_id, key), content, generation)
        return content

    def _write(self, image_id: ImageId, key: str, data: bytes) -> bool:
        """Write a variant to the disk; return whether it was written, as it can be rendered again."""
        directory = self._layout.variants_of(image_id)
        try:
            # Variants can be rendered again: they must not use the space that changes and deletions need.
            self._staging.require_free_space(len(data))
            with self._staging.temporary_path() as temporary, translate_disk_full():
                with open_owner_only(temporary, "xb") as file:
                    file.write(_encode(data))
                make_directory(directory, fsync=False)
                temporary.replace(directory / key)
            self._evict(directory)
        except InsufficientStorageError:
            log.warning("disk full, variant not cached on disk: image=%s key=%s", image_id, key)
            return False
        except OSError:
            log.warning("variant not cached on disk: image=%s key=%s", image_id, key, exc_info=True)
            return False
        return True

    def _evict(self, directory: Path) -> None:
        """Evict the least recently used variants of an image that has too many.

        Evicts below the limit, so that the variants are not sorted again for each further one.
        """
        limit = self._settings.variants_per_image
        if sum(1 for _ in directory.iterdir()) > limit:
            newest_first = sorted(directory.iterdir(), key=_last_used, reverse=True)
            count = size = 0
            for path in newest_first[limit - limit // _EVICT_SHARE :]:
                with suppress(FileNotFoundError):
                    size += path.lstat().st_size
                    path.unlink()
                    count += 1
            self._observe(VariantsEvicted("image", count, size))
            log.debug("variants evicted: image=%s count=%d bytes=%d", directory.name, count, size)


def _encode(data: bytes) -> bytes:
    """Return the content of the file of a variant."""
    return _HEADER.pack(_MAGIC, crc32(data), len(data)) + data


def _decode(content: bytes | memoryview, *, is_verified: bool = False) -> bytes | None:
    """Return the data of a variant file, or `None` if the file is corrupt, by its checksum if need be."""
    if len(content) < _HEADER.size:
        return None
    magic, checksum, size = _HEADER.unpack_from(content)
    if magic != _MAGIC or size != len(content) - _HEADER.size:
        return None
    data = bytes(content[_HEADER.size :])
    return data if is_verified or checksum == crc32(data) else None


def _verify(file: BinaryIO) -> bool:
    """Return whether a variant file at its beginning is intact; leave it at the beginning of the data."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return False
    magic, checksum, size = _HEADER.unpack(header)
    actual_checksum = actual_size = 0
    while piece := file.read(_PIECE_BYTES):
        actual_checksum = crc32(piece, actual_checksum)
        actual_size = actual_size + len(piece)
    file.seek(_HEADER.size)
    return bool(magic == _MAGIC and (size, checksum) == (actual_size, actual_checksum))


def _last_used(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _read_or_open(path: Path) -> bytes | BinaryIO | None:
    """Return the data of a variant file, a large file open at its data, or `None` if it is corrupt."""
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        if os.fstat(file.fileno()).st_size <= LARGE_VARIANT_BYTES:
            return _decode(file.read())
        if not _verify(file):
            return None
        stack.pop_all()
        return file


def _is_intact(path: Path) -> bool:
    """Return whether a variant file can be decoded, or was deleted meanwhile."""
    try:
        return _decode(path.read_bytes()) is not None
    except FileNotFoundError:
        return True
