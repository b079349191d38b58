"""The staging area: files that are being received or built, before they are stored or discarded.

Each process has a directory, which it keeps locked. A directory whose lock is free belongs to a process
that has exited, and is removed by the next process that opens the data directory, so a crash during an
upload leaves no files here. It may have left stored files without a record: a *marker* records that,
until such files have been searched for and removed.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from imagehost_core._util.durable import (
    OPEN_FILES_STAY,
    OWNER_ONLY_DIR,
    OWNER_ONLY_FILE,
    make_directory,
    open_owner_only,
    remove_directory,
    remove_tree,
    require_free_bytes,
    sync_directory,
    translate_disk_errors,
)
from imagehost_core.coordination.locks import lock_existing_file, lock_file, unlock_file
from imagehost_core.limits import MAX_FILE_BYTES, require_file_size

CHUNK_BYTES = 2**20
"""Bytes to copy at a time: 1 MiB."""
_LOCK = "lock"
_NEW = ".new"
_NEW_MAX_AGE_SECONDS = 3_600
"""A process directory that is still being created after an hour belongs to a process that has exited."""
_TRASH = "trash-"
"""The prefix of directories that are being deleted."""
_MARKER = ".incomplete"
"""The suffix of markers."""

log = logging.getLogger(__name__)


class StagedFile:
    """A file that is being received.

    It is hashed while it grows, and deleted when its `with` block ends. Bytes beyond the limit are
    counted but not stored, so that the error can state the whole size.

    Args:
        path: The path of the file; it must not exist.
        limit: The most bytes to store.
        remove: Deletes it.

    Attributes:
        path: The path of the file.
        size: The number of bytes received.
    """

    def __init__(
        self, path: Path, limit: int = MAX_FILE_BYTES, remove: Callable[[Path], object] = remove_tree
    ) -> None:
        self.path = path
        self.size = 0
        self._limit = limit
        self._remove = remove
        self._hash = sha256()
        self._file: BinaryIO = open_owner_only(path, "xb")

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes.

        Raises:
            InsufficientStorageError: The disk is full.
        """
        self.size += len(data)
        if self.size <= self._limit:
            self._hash.update(data)
            with translate_disk_errors():
                self._file.write(data)

    def finish(self, name: str = "the file") -> None:
        """Flush and close the file, so that it can be read.

        Args:
            name: The name of the file in errors.

        Raises:
            PayloadTooLargeError: The file exceeds the limit.
            InsufficientStorageError: The disk is full.
        """
        require_file_size(name, self.size, self._limit)
        with translate_disk_errors():
            self._file.close()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes received, 64 hexadecimal digits."""
        return self._hash.hexdigest()

    def close(self) -> None:
        """Delete the file. An error of writing buffered bytes is ignored: they are discarded."""
        with suppress(OSError):
            self._file.close()
        self._remove(self.path)

    def __enter__(self) -> StagedFile:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class StagingArea:
    """The staging area of this process.

    Args:
        path: The directory that holds the staging areas of all processes.
        min_free_bytes: Bytes of the disk that must stay free.
    """

    def __init__(self, path: Path, min_free_bytes: int) -> None:
        make_directory(path, fsync=False)
        self._min_free_bytes = min_free_bytes
        self._root = path
        self._undeleted: set[Path] = set()
        # Locked before it is renamed to its final name, so that no other process treats it as stale. Where it
        # cannot be renamed then, another process that does so leaves it, because the lock file is open.
        self._process_dir = path / uuid4().hex
        new = self._process_dir if OPEN_FILES_STAY else path / f"{self._process_dir.name}{_NEW}"
        new.mkdir(OWNER_ONLY_DIR)
        self._lock = lock_file(new / _LOCK)
        if new != self._process_dir:
            new.rename(self._process_dir)
        # Durable, so that a power failure leaves a trace of the process, which becomes a marker.
        sync_directory(path)

    def stage(self) -> StagedFile:
        """Create an empty staged file.

        Raises:
            InsufficientStorageError: The disk has less free space than must stay free.
        """
        self.require_free_space(0)
        with translate_disk_errors():
            return StagedFile(self._process_dir / uuid4().hex, remove=self._remove)

    def require_free_space(self, size: int) -> None:
        """Raise InsufficientStorageError if a write would leave too little disk space free.

        Args:
            size: Bytes to write.

        Raises:
            InsufficientStorageError: Less than the configured space would stay free.
        """
        require_free_bytes(self._process_dir, size, self._min_free_bytes)

    def disk_space(self) -> tuple[int, int]:
        """Return the size and the free bytes of the file system, the reserved space included."""
        usage = shutil.disk_usage(self._process_dir)
        return usage.total, usage.free

    @contextmanager
    def temporary_directory(self) -> Iterator[Path]:
        """Create an empty directory to build files in; it is deleted when the block ends."""
        path = self._process_dir / uuid4().hex
        with translate_disk_errors():
            path.mkdir(OWNER_ONLY_DIR)
        try:
            yield path
        finally:
            self._remove(path)

    @contextmanager
    def temporary_path(self) -> Iterator[Path]:
        """Yield a free path for a file that is moved away when complete, or else deleted."""
        path = self._process_dir / uuid4().hex
        try:
            yield path
        finally:
            self._remove(path)

    def remove_tree_atomically(self, path: Path) -> None:
        """Delete an image's directory at once; a power failure cannot bring it back when this returns.

        The remains of a failed attempt of any process are deleted too.

        Args:
            path: The directory; the caller holds the image's lock.

        Raises:
            OSError: Some of it still exists; another attempt will find it.
        """
        trash = f"{_TRASH}{path.parent.parent.name}-{path.name}"
        for process_dir in self._root.iterdir():
            remove_tree(process_dir / trash)
        remove_directory(path, self._process_dir / trash)

    def remove_stale(self) -> None:
        """Delete the directories of processes that have exited, and the trash of those that run.

        A marker is left for each process that has exited. What this process could not delete before is
        deleted too.
        """
        for path in tuple(self._undeleted):
            self._undeleted.discard(path)
            self._remove(path)
        for path in self._root.iterdir():
            if not path.is_symlink() and not self.remove_one_stale(path.name):
                for trash in path.glob(f"{_TRASH}*"):
                    shutil.rmtree(trash, ignore_errors=True)

    def remove_one_stale(self, name: str) -> bool:
        """Delete the directory of a process if the process has exited, and leave a marker.

        Returns:
            Whether the process has exited.
        """
        path = self._root / name
        if path == self._process_dir or (path.suffix == _NEW and not _is_old(path)):
            return False
        descriptor = _try_lock(path / _LOCK)
        if descriptor is None:
            return False
        self.mark_incomplete(name)
        _remove_with_lock(path, descriptor)
        return True

    def stale(self) -> tuple[str, ...]:
        """Return the names of the directories of processes that have exited; removes and creates nothing."""
        return tuple(
            path.name
            for path in self._root.iterdir()
            if path != self._process_dir and path.is_dir() and not path.is_symlink() and _is_stale(path)
        )

    def mark_incomplete(self, name: str) -> None:
        """Create a marker: there may be stored files without a record. Does nothing on a full disk."""
        with suppress(OSError):
            (self._root / f"{name}{_MARKER}").touch(OWNER_ONLY_FILE)

    def incomplete_markers(self, min_age_seconds: float = 0) -> tuple[Path, ...]:
        """Return the paths of all markers of an age."""
        markers = self._root.glob(f"*{_MARKER}")
        return tuple(path for path in markers if not min_age_seconds or _is_older(path, min_age_seconds))

    def _remove(self, path: Path) -> None:
        """Delete a file or a directory of this process; if that fails, `remove_stale` does it.

        An error would become that of an operation which has succeeded.
        """
        try:
            remove_tree(path)
        except OSError as error:
            log.warning("cannot delete a staged file, will retry: path=%s error=%r", path, error)
            self._undeleted.add(path)

    def close(self) -> None:
        """Delete this process's directory."""
        if self._lock is not None:
            _remove_with_lock(self._process_dir, self._lock)
            self._lock = None


def _remove_with_lock(path: Path, descriptor: int) -> None:
    """Delete a directory while its lock is held, and release the lock."""
    shutil.rmtree(path, ignore_errors=True)
    unlock_file(descriptor)
    if OPEN_FILES_STAY:
        # The lock file was open.
        shutil.rmtree(path, ignore_errors=True)


def _is_old(path: Path) -> bool:
    return _is_older(path, _NEW_MAX_AGE_SECONDS)


def _is_older(path: Path, seconds: float) -> bool:
    try:
        return time.time() - path.stat().st_mtime > seconds
    except FileNotFoundError:
        return False


def _is_stale(path: Path) -> bool:
    """Return whether the process of a directory has exited without removing it.

    One without a lock file is being created or removed, unless it is old.
    """
    if path.suffix == _NEW and not _is_old(path):
        return False
    try:
        with lock_existing_file(path / _LOCK) as is_free:
            return is_free
    except (FileNotFoundError, NotADirectoryError):
        return _is_old(path)


def _try_lock(path: Path) -> int | None:
    try:
        return lock_file(path, wait=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
