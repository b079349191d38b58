"""Where bytes wait until they are either stored or thrown away.

Each process has a folder of its own, which it keeps locked; a folder whose lock can be taken belongs
to a process that is gone, and is removed by the next one that opens the data folder. So a crash in
the middle of an upload leaves nothing behind here. It may have left files in their place for which there is
no record yet; of that a *sign* remains, until somebody has looked for them.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import BinaryIO
from uuid import uuid4

from imagehost_core.limits import MAX_FILE_BYTES, require_file_size
from imagehost_core.storage.durable import (
    OWNER_ONLY_DIR,
    OWNER_ONLY_FILE,
    make_folder,
    open_owner_only,
    remove_folder,
    remove_tree,
    require_free_bytes,
    sync_folder,
    translate_disk_full,
)
from imagehost_core.storage.locks import lock_file, unlock_file

CHUNK = 2**20
"""How many bytes are moved at a time: 1 MiB."""
_LOCK = "lock"
_NEW = ".new"
_OLD_SECONDS = 3_600
"""A folder that is still being made after an hour is a dead process's."""
_TRASH = "grave-"
"""How a folder's name begins that is being removed; the rest of it tells which."""
_MARKER = ".incomplete"
"""How the name of a sign ends."""


class StagedFile:
    """A file that is being received.

    It grows by `write`, is hashed as it grows, and vanishes when its `with` block ends. Bytes beyond
    the limit are counted and not kept, so that the error can tell the whole size.

    Args:
        path: Where it is.
        limit: The most bytes that are kept.
    """

    def __init__(self, path: Path, limit: int = MAX_FILE_BYTES) -> None:
        self.path = path
        self.size = 0
        self._limit = limit
        self._hash = sha256()
        self._file: BinaryIO = open_owner_only(path, "xb")

    def write(self, data: bytes | memoryview) -> None:
        """Take the next bytes.

        Raises:
            InsufficientStorageError: The disk has no room.
        """
        self.size += len(data)
        if self.size <= self._limit:
            self._hash.update(data)
            with translate_disk_full():
                self._file.write(data)

    def finish(self) -> None:
        """Take no more bytes; let what was received be read.

        Raises:
            PayloadTooLargeError: It is larger than the limit.
            InsufficientStorageError: The disk has no room.
        """
        require_file_size("the file", self.size, self._limit)
        with translate_disk_full():
            self._file.close()

    @property
    def sha256(self) -> str:
        """The SHA-256 of all bytes that were received, 64 hexadecimal digits."""
        return self._hash.hexdigest()

    def close(self) -> None:
        """Throw away what is left. That the rest of it could not be written does not matter any more."""
        with suppress(OSError):
            self._file.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> StagedFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class StagingArea:
    """The staging folder of this process.

    Args:
        folder: The folder that holds those of all processes.
        floor: Bytes of the disk that must stay free.
    """

    def __init__(self, folder: Path, floor: int) -> None:
        make_folder(folder, fsync=False)
        self._min_free_bytes = floor
        self._root = folder
        # Made under another name and locked before it gets its own: nobody can take it for a dead one.
        self._process_dir = folder / uuid4().hex
        making = folder / f"{self._process_dir.name}{_NEW}"
        making.mkdir(OWNER_ONLY_DIR)
        self._lock = lock_file(making / _LOCK)
        making.rename(self._process_dir)
        # After a power cut too it shall tell that there was a process.
        sync_folder(folder)

    def stage(self) -> StagedFile:
        """Return an empty file to be received.

        Raises:
            InsufficientStorageError: The disk has less room than its floor.
        """
        self.require_free_space(0)
        with translate_disk_full():
            return StagedFile(self._process_dir / uuid4().hex)

    def require_free_space(self, more: int) -> None:
        """Let a write of `more` bytes pass.

        Raises:
            InsufficientStorageError: It would leave less of the disk free than its floor.
        """
        require_free_bytes(self._process_dir, more, self._min_free_bytes)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield an empty folder to build something in; what is left of it vanishes."""
        path = self._process_dir / uuid4().hex
        with translate_disk_full():
            path.mkdir(OWNER_ONLY_DIR)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def temporary_path(self) -> Iterator[Path]:
        """Yield a path for a file that is moved away when it is whole; what is left of it vanishes."""
        path = self._process_dir / uuid4().hex
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def remove_tree_atomically(self, path: Path) -> None:
        """Remove a folder of an image at once; when it returns, a power cut cannot bring it back.

        What an attempt that failed has left of it, in whatever process, goes as well.

        Args:
            path: The folder; the caller holds the image's lock.

        Raises:
            OSError: Some of it is still there; another attempt will find it.
        """
        grave = f"{_TRASH}{path.parent.parent.name}-{path.name}"
        for folder in self._root.iterdir():
            remove_tree(folder / grave)
        remove_folder(path, self._process_dir / grave)

    def remove_stale(self) -> None:
        """Remove the folders of processes that are gone, and what others could not remove.

        Of each process that is gone a sign remains.
        """
        for folder in self._root.iterdir():
            if folder.suffix == _NEW and not _is_old(folder):
                continue
            descriptor = None if folder == self._process_dir else _try_lock(folder / _LOCK)
            if descriptor is not None:
                self.mark_incomplete(folder.name)
                shutil.rmtree(folder, ignore_errors=True)
                unlock_file(descriptor)
            else:
                for grave in folder.glob(f"{_TRASH}*"):
                    shutil.rmtree(grave, ignore_errors=True)

    def mark_incomplete(self, name: str) -> None:
        """Leave a sign that there may be files without a record; on a full disk there is none."""
        with suppress(OSError):
            (self._root / f"{name}{_MARKER}").touch(OWNER_ONLY_FILE)

    def incomplete_markers(self) -> tuple[Path, ...]:
        """Return all signs that there may be files without a record."""
        return tuple(self._root.glob(f"*{_MARKER}"))

    def close(self) -> None:
        """Remove this process's folder."""
        shutil.rmtree(self._process_dir, ignore_errors=True)
        if self._lock is not None:
            unlock_file(self._lock)
            self._lock = None


def _is_old(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime > _OLD_SECONDS
    except FileNotFoundError:
        return False


def _try_lock(path: Path) -> int | None:
    try:
        return lock_file(path, wait=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
