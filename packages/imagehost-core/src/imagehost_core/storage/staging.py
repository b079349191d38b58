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

from imagehost_core.limits import FILE_BYTES, check_file_size
from imagehost_core.storage.durable import (
    OWNERS_FILE,
    OWNERS_FOLDER,
    check_free,
    make_folder,
    open_private,
    remove_folder,
    remove_tree,
    room_on_disk,
    sync_folder,
)
from imagehost_core.storage.locks import lock_file, unlock_file

CHUNK = 2**20
"""How many bytes are moved at a time: 1 MiB."""
_LOCK = "lock"
_NEW = ".new"
_OLD_SECONDS = 3_600
"""A folder that is still being made after an hour is a dead process's."""
_GRAVE = "grave-"
"""How a folder's name begins that is being removed; the rest of it tells which."""
_SIGN = ".unfinished"
"""How the name of a sign ends."""


class Staged:
    """A file that is being received.

    It grows by `write`, is hashed as it grows, and vanishes when its `with` block ends. Bytes beyond
    the limit are counted and not kept, so that the error can tell the whole size.

    Args:
        path: Where it is.
        limit: The most bytes that are kept.
    """

    def __init__(self, path: Path, limit: int = FILE_BYTES) -> None:
        self.path = path
        self.size = 0
        self._limit = limit
        self._hash = sha256()
        self._file: BinaryIO = open_private(path, "xb")

    def write(self, data: bytes | memoryview) -> None:
        """Take the next bytes.

        Raises:
            InsufficientStorageError: The disk has no room.
        """
        self.size += len(data)
        if self.size <= self._limit:
            self._hash.update(data)
            with room_on_disk():
                self._file.write(data)

    def finish(self) -> None:
        """Take no more bytes; let what was received be read.

        Raises:
            PayloadTooLargeError: It is larger than the limit.
            InsufficientStorageError: The disk has no room.
        """
        check_file_size("the file", self.size, self._limit)
        with room_on_disk():
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

    def __enter__(self) -> Staged:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Staging:
    """The staging folder of this process.

    Args:
        folder: The folder that holds those of all processes.
        floor: Bytes of the disk that must stay free.
    """

    def __init__(self, folder: Path, floor: int) -> None:
        make_folder(folder, durably=False)
        self._floor = floor
        self._all = folder
        # Made under another name and locked before it gets its own: nobody can take it for a dead one.
        self._own = folder / uuid4().hex
        making = folder / f"{self._own.name}{_NEW}"
        making.mkdir(OWNERS_FOLDER)
        self._lock = lock_file(making / _LOCK)
        making.rename(self._own)
        # After a power cut too it shall tell that there was a process.
        sync_folder(folder)

    def stage(self) -> Staged:
        """Return an empty file to be received.

        Raises:
            InsufficientStorageError: The disk has less room than its floor.
        """
        self.check_room(0)
        with room_on_disk():
            return Staged(self._own / uuid4().hex)

    def check_room(self, more: int) -> None:
        """Let a write of `more` bytes pass.

        Raises:
            InsufficientStorageError: It would leave less of the disk free than its floor.
        """
        check_free(self._own, more, self._floor)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield an empty folder to build something in; what is left of it vanishes."""
        path = self._own / uuid4().hex
        with room_on_disk():
            path.mkdir(OWNERS_FOLDER)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def place(self) -> Iterator[Path]:
        """Yield a path for a file that is moved away when it is whole; what is left of it vanishes."""
        path = self._own / uuid4().hex
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def discard(self, path: Path) -> None:
        """Remove a folder of an image at once; when it returns, a power cut cannot bring it back.

        What an attempt that failed has left of it, in whatever process, goes as well.

        Args:
            path: The folder; the caller holds the image's lock.

        Raises:
            OSError: Some of it is still there; another attempt will find it.
        """
        grave = f"{_GRAVE}{path.parent.parent.name}-{path.name}"
        for folder in self._all.iterdir():
            remove_tree(folder / grave)
        remove_folder(path, self._own / grave)

    def sweep(self) -> None:
        """Remove the folders of processes that are gone, and what others could not remove.

        Of each process that is gone a sign remains.
        """
        for folder in self._all.iterdir():
            if folder.suffix == _NEW and not _is_old(folder):
                continue
            descriptor = None if folder == self._own else _try_lock(folder / _LOCK)
            if descriptor is not None:
                self.leave_sign(folder.name)
                shutil.rmtree(folder, ignore_errors=True)
                unlock_file(descriptor)
            else:
                for grave in folder.glob(f"{_GRAVE}*"):
                    shutil.rmtree(grave, ignore_errors=True)

    def leave_sign(self, name: str) -> None:
        """Leave a sign that there may be files without a record; on a full disk there is none."""
        with suppress(OSError):
            (self._all / f"{name}{_SIGN}").touch(OWNERS_FILE)

    def signs(self) -> tuple[Path, ...]:
        """Return all signs that there may be files without a record."""
        return tuple(self._all.glob(f"*{_SIGN}"))

    def close(self) -> None:
        """Remove this process's folder."""
        shutil.rmtree(self._own, ignore_errors=True)
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
