"""The files of images during a restore: in the directory that is being restored, or in an object store."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from imagehost_core.errors import ConflictError
from imagehost_core.ids import ImageId
from imagehost_core.settings import StorageSettings, parse_storage_url
from imagehost_core.storage import MASTER, BlobStore, DataLayout, LockManager, StagingArea
from imagehost_core.storage.durable import make_directory
from imagehost_core.storage.image_store import open_image_store
from imagehost_core.storage.layout import shard

_THREADS = 8
"""Images that are uploaded at a time."""
_QUEUE = 2 * _THREADS
"""Images on the disk that wait for their upload."""


class RestoredFiles(Protocol):
    """The files of restored images. Those of one image are written one after the other."""

    def directory(self, image_id: ImageId) -> Path:
        """Return the directory to write the files of an image to."""
        ...

    def complete(self) -> None:
        """Store what was written."""
        ...

    def close(self) -> None:
        """Remove what only the restore has used."""
        ...

    def has_master(self, image_id: ImageId) -> bool:
        """Return whether the master of an image was restored."""
        ...

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of the images of which files were restored."""
        ...

    def delete(self, image_id: ImageId) -> None:
        """Delete the files of an image."""
        ...


@contextmanager
def open_restored_files(
    layout: DataLayout, settings: StorageSettings, *, may_have_images: bool
) -> Iterator[RestoredFiles]:
    """Yield the files of images that are restored, in a directory or the object store of the settings.

    If the block raises, those that it has stored in an object store are deleted.

    Args:
        layout: The directory that is being restored.
        settings: The settings of storage.
        may_have_images: Whether an interrupted restore may have left images in the object store.

    Raises:
        ConflictError: The object store has images.
    """
    if parse_storage_url(settings.url) is None:
        yield DirectoryFiles(layout.images)
        return
    scratch = DataLayout(layout.root / "upload")
    staging = StagingArea(scratch.staging, 0)
    blobs = open_image_store(scratch, staging, LockManager(scratch.locks), settings, lambda _: False)
    if not may_have_images and next(blobs.ids(), None) is not None:
        staging.close()
        raise ConflictError(f"expected no images in {settings.url} but there are some")
    files = StoredFiles(blobs, scratch.images, staging)
    try:
        yield files
    except BaseException:
        files.delete_all()
        raise
    finally:
        files.close()


class DirectoryFiles:
    """Restored files in the directory of images.

    Args:
        images: The directory.
    """

    def __init__(self, images: Path) -> None:
        self._images = images
        make_directory(images, fsync=False)

    def directory(self, image_id: ImageId) -> Path:
        """Return the directory of an image, which is created."""
        directory = self._images / shard(image_id) / image_id
        make_directory(directory, fsync=False)
        return directory

    def complete(self) -> None:
        """Do nothing: the files are in their place."""

    def close(self) -> None:
        """Do nothing."""

    def has_master(self, image_id: ImageId) -> bool:
        """Return whether the master of an image was restored."""
        return (self._images / shard(image_id) / image_id / MASTER).is_file()

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of the images of which files were restored."""
        for parent in self._images.iterdir():
            yield from (ImageId(path.name) for path in parent.iterdir())

    def delete(self, image_id: ImageId) -> None:
        """Delete the files of an image."""
        shutil.rmtree(self._images / shard(image_id) / image_id)


class StoredFiles:
    """Restored files on their way to a blob store, several images at a time.

    Args:
        blobs: The blob store.
        scratch: A directory for the files that wait, whose parent is deleted in the end.
        staging: The staging area of the blob store.
    """

    def __init__(self, blobs: BlobStore, scratch: Path, staging: StagingArea) -> None:
        self._staging = staging
        self._blobs = blobs
        self._scratch = scratch
        self._stored: set[ImageId] = set()
        self._current: ImageId | None = None
        self._threads = ThreadPoolExecutor(_THREADS, "restore")
        self._pending: deque[Future[None]] = deque()

    def directory(self, image_id: ImageId) -> Path:
        """Return the directory to write the files of an image to; those of the image before are stored."""
        directory = self._scratch / image_id
        if image_id != self._current:
            self._store_current(_QUEUE)
            self._current = image_id
            make_directory(directory, fsync=False)
        return directory

    def complete(self) -> None:
        """Wait until all files are stored.

        Raises:
            UnavailableError: The store did not respond in time.
        """
        self._store_current(0)

    def close(self) -> None:
        """Remove the files that waited, and the cache of the store."""
        self._threads.shutdown(cancel_futures=True)
        self._staging.close()
        shutil.rmtree(self._scratch.parent, ignore_errors=True)

    def has_master(self, image_id: ImageId) -> bool:
        """Return whether files of an image were stored, of which the master is one."""
        return image_id in self._stored

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of the images of which files were stored."""
        yield from tuple(self._stored)

    def delete(self, image_id: ImageId) -> None:
        """Delete the files of an image."""
        self._blobs.delete(image_id)
        self._stored.discard(image_id)

    def delete_all(self) -> None:
        """Delete all files that were stored, after an error."""
        self._threads.shutdown(cancel_futures=True)
        for image_id in tuple(self._stored):
            self.delete(image_id)

    def _store_current(self, limit: int) -> None:
        """Store the image that was written last, and wait until no more than some images wait."""
        if self._current is not None and (self._scratch / self._current / MASTER).is_file():
            self._stored.add(self._current)
            self._pending.append(self._threads.submit(self._store, self._current))
        self._current = None
        while len(self._pending) > limit:
            self._pending.popleft().result()

    def _store(self, image_id: ImageId) -> None:
        files = self._scratch / image_id
        # An increment has images of the backup before it again; an interrupted restore may have left some.
        if self._blobs.has(image_id):
            self._blobs.delete(image_id)
        self._blobs.put(image_id, files)
