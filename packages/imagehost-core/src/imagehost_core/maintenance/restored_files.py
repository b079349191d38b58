"""The files of images during a restore: in the directory that is being restored, in an object store, or kept.

Until a host is whole, the record of the store says that it is being restored. So images of an interrupted
restore can be told from those of a host, and no host is opened on them.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from imagehost_core._util.durable import make_directory, write_file
from imagehost_core.coordination.locks import LockManager
from imagehost_core.engines import open_image_store
from imagehost_core.errors import InstallationError
from imagehost_core.ids import ImageId
from imagehost_core.installation import RECORD_NAME, InstallationRecord, RecordState, parse_record
from imagehost_core.settings import StorageSettings, parse_storage_url
from imagehost_core.storage import MASTER, BlobStore, DataLayout, StagingArea
from imagehost_core.storage.layout import shard

_THREADS = 8
"""Images that are uploaded at a time."""
_QUEUE = 2 * _THREADS
"""Images on the disk that wait for their upload."""


class RestoredFiles:
    """The files of restored images, none by default. Those of one image are written one after the other."""

    def begin(self, record: InstallationRecord) -> None:
        """Record that a restore of an installation begins.

        Raises:
            ConflictError: The store is that of another installation.
        """

    def directory(self, image_id: ImageId) -> Path | None:  # noqa: ARG002
        """Return the directory to write the files of an image to; `None` if they are not written."""
        return None

    def complete(self) -> None:
        """Store what was written."""

    def has_master(self, image_id: ImageId) -> bool:  # noqa: ARG002
        """Return whether the master of an image was restored, or need not be."""
        return True

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of the images of which files were restored."""
        return iter(())

    def delete(self, image_id: ImageId) -> None:
        """Delete the files of an image."""

    def keep(self, record: InstallationRecord) -> None:
        """Keep the files whatever happens: the records are stored next."""

    def finish(self, record: InstallationRecord) -> None:
        """Record that the host is whole."""


@contextmanager
def open_restored_files(
    staged: DataLayout, layout: DataLayout, settings: StorageSettings, *, records_only: bool
) -> Iterator[RestoredFiles]:
    """Yield the files of images that are restored, in a directory or the object store of the settings.

    If the block raises, those that it has stored in an object store are deleted, unless they are to be kept.

    Args:
        staged: The directory that is being restored.
        layout: The data directory.
        settings: The settings of storage.
        records_only: Whether the files stay as they are.

    Raises:
        ConflictError: The object store has images.
    """
    is_folder = parse_storage_url(settings.url) is None
    if is_folder and not records_only:
        yield DirectoryFiles(staged.images, layout.images)
        return
    if is_folder and not layout.images.is_dir():
        raise InstallationError(
            f"expected images that stay in {layout.images} but there is no such directory"
        )
    scratch = DataLayout(staged.root / "upload")
    staging = StagingArea(scratch.staging, 0)
    try:
        opened = layout if is_folder else scratch
        blobs = open_image_store(opened, staging, LockManager(scratch.locks), settings, lambda _: False)
        if records_only:
            yield KeptFiles(blobs)
            return
        _require_restorable(blobs, settings.url)
        files = StoredFiles(blobs, scratch.images)
        try:
            yield files
        except BaseException:
            files.delete_all()
            raise
        finally:
            files.close()
    finally:
        staging.close()
        shutil.rmtree(scratch.root, ignore_errors=True)


def _require_restorable(blobs: BlobStore, url: str) -> None:
    """Raise ConflictError if an object store has images, except for those of an interrupted restore."""
    data = blobs.read_record()
    if data is None:
        if next(blobs.ids(), None) is not None:
            raise InstallationError(f"expected no images in {url} but there are some")
    elif (record := parse_record(data, url)).state is not RecordState.RESTORING:
        raise InstallationError(f"expected no host in {url} but it is that of {record}")


class DirectoryFiles(RestoredFiles):
    """Restored files in the directory of images.

    Args:
        images: The directory to restore in.
        published: The directory that it becomes.
    """

    def __init__(self, images: Path, published: Path) -> None:
        self._images, self._published = images, published
        make_directory(images, fsync=False)

    def begin(self, record: InstallationRecord) -> None:
        """Record that a restore of an installation begins."""
        write_file(self._images / RECORD_NAME, record.with_state(RecordState.RESTORING).to_json().encode())

    def directory(self, image_id: ImageId) -> Path:
        """Return the directory of an image, which is created."""
        directory = self._images / shard(image_id) / image_id
        make_directory(directory, fsync=False)
        return directory

    def has_master(self, image_id: ImageId) -> bool:
        """Return whether the master of an image was restored."""
        return (self._images / shard(image_id) / image_id / MASTER).is_file()

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of the images of which files were restored."""
        for parent in self._images.glob("??"):
            yield from (ImageId(path.name) for path in parent.iterdir())

    def delete(self, image_id: ImageId) -> None:
        """Delete the files of an image."""
        shutil.rmtree(self._images / shard(image_id) / image_id)

    def finish(self, record: InstallationRecord) -> None:
        """Record that the host is whole."""
        write_file(self._published / RECORD_NAME, record.to_json().encode())


class KeptFiles(RestoredFiles):
    """The files of a store that stay as they are, while the records are restored.

    Args:
        blobs: The store.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def begin(self, record: InstallationRecord) -> None:
        """Raise ConflictError unless the store is that of the installation."""
        data = self._blobs.read_record()
        found = None if data is None else parse_record(data, "the image store")
        if found is None or found.id != record.id or found.state is not RecordState.COMPLETE:
            received = "none" if found is None else str(found)
            raise InstallationError(
                f"expected the images of installation {record.id} in the image store but received {received}"
            )

    def keep(self, record: InstallationRecord) -> None:
        """Write the record of the new incarnation: other hosts collect nothing from now on."""
        self._blobs.write_record(record.to_json().encode())


class StoredFiles(RestoredFiles):
    """Restored files on their way to a blob store, several images at a time.

    Args:
        blobs: The blob store.
        scratch: A directory for the files that wait.
    """

    def __init__(self, blobs: BlobStore, scratch: Path) -> None:
        self._blobs = blobs
        self._scratch = scratch
        self._stored: set[ImageId] = set()
        self._current: ImageId | None = None
        self._threads = ThreadPoolExecutor(_THREADS, "restore")
        self._pending: deque[Future[None]] = deque()
        self._is_kept = self._is_repeated = False

    def begin(self, record: InstallationRecord) -> None:
        """Record that a restore of an installation begins."""
        self._is_repeated = self._blobs.read_record() is not None
        self._blobs.write_record(record.with_state(RecordState.RESTORING).to_json().encode())

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
        """Store no other files."""
        self._threads.shutdown(cancel_futures=True)

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

    def keep(self, record: InstallationRecord) -> None:  # noqa: ARG002
        """Keep the files whatever happens."""
        self._is_kept = True

    def finish(self, record: InstallationRecord) -> None:
        """Record that the host is whole."""
        self._blobs.write_record(record.to_json().encode())

    def delete_all(self) -> None:
        """Delete all files that were stored, after an error, unless they are to be kept."""
        self._threads.shutdown(cancel_futures=True)
        if self._is_kept:
            return
        for image_id in tuple(self._stored):
            self.delete(image_id)
        if not self._is_repeated:
            self._blobs.write_record(None)

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
