"""The blob cache: copies of an object store's files in the data directory, shared by the host's processes.

A file is published by one rename when it is complete, verified and synced, so a cached file is whole even
after a power failure. It is published under a lock and only while the image exists, and evicted under the
same lock: a download in progress cannot bring back the files of a deleted image.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from imagehost_core._util.durable import make_directory, sync_file
from imagehost_core.coordination.locks import LockManager, stripe
from imagehost_core.errors import InsufficientStorageError, NotFoundError, UnavailableError
from imagehost_core.ids import ImageId, delivery_not_found_text, is_image_id
from imagehost_core.storage.cache.background_sweep import BackgroundSweep
from imagehost_core.storage.cache.eviction import evict_least_recently_used, never
from imagehost_core.storage.layout import shard
from imagehost_core.storage.staging import StagingArea

log = logging.getLogger(__name__)


class BlobCache:
    """The blob cache of a data directory.

    Args:
        path: The directory; it is created if needed.
        staging: This process's staging area.
        locks: The locks of the data directory.
        limit_bytes: The size of the cache; each process may exceed it by a tenth and two files.
        exists: Returns whether an image exists now.
    """

    def __init__(
        self,
        path: Path,
        staging: StagingArea,
        locks: LockManager,
        limit_bytes: int,
        exists: Callable[[ImageId], bool] = lambda _: True,
    ) -> None:
        self._root = path
        self._staging = staging
        self._locks = locks
        self._limit_bytes = limit_bytes
        self._exists = exists
        self._background_sweep = BackgroundSweep(self.sweep, limit_bytes)
        make_directory(path, fsync=False)

    def open(
        self, image_id: ImageId, name: str, download: Callable[[Path], int], wait_seconds: float
    ) -> BinaryIO:
        """Open a file of an image, downloaded now if it is not cached; concurrent requests download it once.

        Never waits for a sweep: the file is not cached if there is no space for it before its end.

        Args:
            image_id: The image.
            name: The name of the file.
            download: Writes the complete, verified file to a path that does not exist; returns its bytes.
            wait_seconds: The longest time to wait for the download of another request.

        Raises:
            NotFoundError: The image was deleted meanwhile.
            UnavailableError: The download of another request took too long, or the disk is full.
        """
        path = self._directory(image_id) / name
        if (file := _open_cached(path)) is not None:
            return file
        number = stripe(f"{image_id}/{name}")
        with self._locks.try_acquire("download", number, seconds=wait_seconds) as acquired:
            if (file := _open_cached(path)) is not None:
                return file
            if not acquired:
                raise UnavailableError("expected the image from its store but received none in time")
            with self._staging.temporary_path() as temporary:
                size = self._download(download, temporary)
                if not self._background_sweep.may_write():
                    return temporary.open("rb")
                file = self._publish(image_id, path, temporary)
        self._background_sweep.add(size)
        return file

    def open_uncached(self, download: Callable[[Path], int]) -> BinaryIO:
        """Open a file that is downloaded now and not cached.

        Args:
            download: As for `open`.

        Raises:
            UnavailableError: The disk is full.
        """
        with self._staging.temporary_path() as temporary:
            self._download(download, temporary)
            return temporary.open("rb")

    def evict(self, image_id: ImageId) -> None:
        """Delete the cached files of an image; a power failure cannot bring them back when this returns.

        Call it when the image's record is deleted, so that no download in progress is cached afterwards.

        Raises:
            OSError: Some of them could not be deleted; try again.
        """
        with self._locks.acquire("cached-files", image_id):
            self._staging.remove_tree_atomically(self._directory(image_id))

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images with cached files, in any order."""
        for directory in self._root.glob("*/*"):
            if is_image_id(directory.name) and directory == self._directory(directory.name):
                yield directory.name

    def sweep(self, is_stopped: Callable[[], bool] = never) -> None:
        """Evict the least recently used files down to the limit, unless another process does so.

        Args:
            is_stopped: Returns whether to stop now.

        Raises:
            EvictionStopped: `is_stopped` has returned true.
        """
        with self._locks.try_acquire("sweep-files") as acquired:
            if acquired:
                evict_least_recently_used(self._root, self._limit_bytes, is_stopped=is_stopped)

    def flush(self) -> None:
        """Wait until the sweep ends that is in progress in the background."""
        self._background_sweep.wait()

    def close(self) -> None:
        """Stop the sweep that is in progress in the background."""
        self._background_sweep.close()

    def _download(self, download: Callable[[Path], int], temporary: Path) -> int:
        try:
            # Files can be downloaded again: they must not use the space that changes and deletions need.
            self._staging.require_free_space(0)
            return download(temporary)
        except InsufficientStorageError as error:
            log.warning("disk full, cannot copy files from the object store: %s", error)
            raise UnavailableError("expected disk space for the image but there is none") from error

    def _publish(self, image_id: ImageId, path: Path, temporary: Path) -> BinaryIO:
        sync_file(temporary)
        with self._locks.acquire("cached-files", image_id):
            if not self._exists(image_id):
                raise NotFoundError(delivery_not_found_text(image_id))
            make_directory(path.parent, fsync=False)
            temporary.replace(path)
            return path.open("rb")

    def _directory(self, image_id: ImageId) -> Path:
        return self._root / shard(image_id) / image_id


def _open_cached(path: Path) -> BinaryIO | None:
    """Open a cached file and mark it as used now; return `None` if it is not cached."""
    with suppress(FileNotFoundError):
        file = path.open("rb")
        with suppress(FileNotFoundError):
            os.utime(path)
        return file
    return None
