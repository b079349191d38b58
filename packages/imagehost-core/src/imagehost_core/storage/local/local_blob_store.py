"""The blob store in a local directory."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from imagehost_core._util.durable import (
    OWNER_ONLY_DIR,
    make_directory,
    read_file,
    sync_directory,
    sync_file,
    translate_disk_full,
    write_file,
)
from imagehost_core.errors import NotFoundError
from imagehost_core.ids import ImageId, delivery_not_found_text, parse_image_id
from imagehost_core.installation import RECORD_NAME
from imagehost_core.storage.blob_store import MASTER, BlobStore, is_file_name
from imagehost_core.storage.layout import file_sizes, misplaced_paths, shard
from imagehost_core.storage.staging import StagingArea

_STAGING = ".staging"


class LocalBlobStore(BlobStore):
    """A blob store in a local directory: one subdirectory per image, published by one rename.

    It is durable: what `put` has stored survives a power failure, and what `delete` has deleted does not
    come back after one. Several processes may use the same directory.

    ```python
    with LocalBlobStore("blobs") as blobs:
        blobs.put(image_id, files)
        with blobs.open(image_id, "master") as master:
            data = master.read()
    ```

    Args:
        path: The directory; it is created if needed, for its owner alone.
        staging: The staging area of this process on the same file system; by default one is opened in
            the directory and closed with the store.
    """

    def __init__(self, path: str | os.PathLike[str], staging: StagingArea | None = None) -> None:
        self._root = Path(path)
        self._synced_shards: set[Path] = set()
        make_directory(self._root)
        self._owns_staging = staging is None
        self._staging = staging or StagingArea(self._root / _STAGING, 0)
        if self._owns_staging:
            self._staging.remove_stale()

    def put(self, image_id: ImageId, files: Path) -> None:
        """Store the files of an image; they survive a power failure when this returns.

        A directory on another file system is copied first.

        Args:
            image_id: The id under which nothing is stored yet.
            files: A directory of files without subdirectories. It is moved or deleted.

        Raises:
            FileExistsError: Files are stored under the id already; they stay as they are.
            InsufficientStorageError: The disk is full; nothing is stored under the id.
        """
        with translate_disk_full():
            try:
                self._publish(image_id, files)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                with self._staging.temporary_directory() as copy:
                    for path in files.iterdir():
                        shutil.copyfile(path, copy / path.name)
                    self._publish(image_id, copy)
                shutil.rmtree(files)

    def open(
        self,
        image_id: ImageId,
        name: str = MASTER,
        *,
        checksum: str | int | None = None,  # noqa: ARG002
        fresh: bool = False,  # noqa: ARG002
    ) -> BinaryIO:
        """Open one of an image's files for reading. The file stays readable if the image is deleted.

        Args:
            image_id: The image.
            name: The name that the file had when it was put.
            checksum: Not verified: the file is not copied.
            fresh: Without effect: nothing is cached.

        Raises:
            NotFoundError: The image has no such file, or nothing is stored under the id.
        """
        if not is_file_name(name):
            raise NotFoundError(delivery_not_found_text(image_id))
        try:
            return (self._directory(image_id) / name).open("rb")
        except FileNotFoundError as error:
            raise NotFoundError(delivery_not_found_text(image_id)) from error

    def delete(self, image_id: ImageId) -> None:
        """Delete all files of an image; a power failure cannot bring them back when this returns.

        Raises:
            OSError: Some of them could not be deleted; try again.
        """
        self._staging.remove_tree_atomically(self._directory(image_id))

    def replace_file(self, image_id: ImageId, name: str, file: Path) -> None:
        """Store one of the files of an image; it survives a power failure when this returns."""
        with translate_disk_full():
            sync_file(file)
            file.replace(self._directory(image_id) / name)
            sync_directory(self._directory(image_id))

    def delete_file(self, image_id: ImageId, name: str) -> None:
        """Delete one of an image's files, if it is there."""
        if is_file_name(name):
            (self._directory(image_id) / name).unlink(missing_ok=True)

    def has(self, image_id: ImageId) -> bool:
        """Return whether files are stored under an id."""
        return self._directory(image_id).is_dir()

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images, in any order. Directories with other names are ignored."""
        for directory in self._root.glob("*/*"):
            with suppress(NotFoundError):
                image_id = parse_image_id(directory.name)
                if directory == self._directory(image_id) and directory.is_dir():
                    yield image_id

    def sizes(self, image_id: ImageId) -> Mapping[str, int]:
        """Return the size of each of an image's files in bytes, by name; empty if nothing is stored."""
        return file_sizes(self._directory(image_id))

    def check_ready(self) -> None:
        """Raise OSError unless the directory can be read."""
        with os.scandir(self._root):
            pass

    def unknown_paths(self) -> Iterator[str]:
        """Yield the paths, relative to the store, of what is in it but can belong to no image."""
        for path in misplaced_paths(self._root):
            # A kill leaves a part of the record under a name with that of the record in it.
            if RECORD_NAME not in path and (path != _STAGING or not self._owns_staging):
                yield path

    def modified_at(self, image_id: ImageId) -> datetime | None:
        """Return when a file of an image was stored last, or `None`."""
        paths = (self._directory(image_id) / name for name in self.sizes(image_id))
        with suppress(FileNotFoundError):
            seconds = max((path.stat().st_mtime for path in paths), default=None)
            return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
        return None

    def read_record(self) -> bytes | None:
        """Return the record of the installation that the directory belongs to, or `None`."""
        return read_file(self._root / RECORD_NAME)

    def write_record(self, data: bytes | None) -> None:
        """Store the record of the installation durably, in place of another; `None` deletes it."""
        if data is None:
            (self._root / RECORD_NAME).unlink(missing_ok=True)
        else:
            write_file(self._root / RECORD_NAME, data)

    def close(self) -> None:
        """Close the store's own staging area. The store must not be used any more."""
        if self._owns_staging:
            self._staging.close()

    def __enter__(self) -> LocalBlobStore:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _directory(self, image_id: ImageId) -> Path:
        return self._root / shard(image_id) / image_id

    def _publish(self, image_id: ImageId, files: Path) -> None:
        directory = self._directory(image_id)
        for path in files.iterdir():
            sync_file(path)
        sync_directory(files)
        self._ensure_shard(directory.parent)
        # Checked because a rename replaces an empty directory; a full one fails with ENOTEMPTY.
        if directory.exists():
            raise FileExistsError(errno.EEXIST, "files are stored already", str(directory))
        try:
            files.rename(directory)
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                raise FileExistsError(errno.EEXIST, "files are stored already", str(directory)) from error
            raise
        sync_directory(directory.parent)

    def _ensure_shard(self, directory: Path) -> None:
        """Create the parent directory of an image's directory, and sync it.

        A directory that exists need not be durable: another process may have created it just now and
        still be waiting for its sync. So each process syncs each shard once.
        """
        if directory not in self._synced_shards:
            directory.mkdir(OWNER_ONLY_DIR, exist_ok=True)
            sync_directory(directory.parent)
            self._synced_shards.add(directory)
