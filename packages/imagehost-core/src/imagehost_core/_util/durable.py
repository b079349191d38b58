"""Durable and private writes, and the error of a full disk.

A file is durable when it *and the directory that names it* are synced: without the directory's sync,
every measured power failure lost a renamed file. A failed sync is never retried on the same descriptor:
the kernel may have dropped the pages and would report success.

A data directory holds password hashes and private images. Its files are accessible to their owner only,
regardless of the umask and of who can enter the directory.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from imagehost_core.errors import InsufficientStorageError, InternalError

OWNER_ONLY_DIR, OWNER_ONLY_FILE = 0o700, 0o600
"""The modes of directories and files that only their owner can access."""
OPEN_FILES_STAY = sys.platform == "win32"
"""Whether the system refuses to rename or delete a file that is open, and a directory with such a file."""
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DISK_FAILED = frozenset({errno.EIO, errno.EROFS, errno.ENXIO, errno.ESTALE})
"""Errors of a disk, and of a file system that was remounted read-only after one or is on a lost server."""


@contextmanager
def translate_disk_full() -> Iterator[None]:
    """Translate the operating system's errors for a full disk.

    Raises:
        InsufficientStorageError: The disk, or the user's disk quota, is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        raise InsufficientStorageError.of("the disk", "space for the file", "none") from error


@contextmanager
def translate_disk_errors() -> Iterator[None]:
    """Translate the operating system's errors for a disk that is full or fails; others stay as they are.

    Raises:
        InsufficientStorageError: The disk, or the user's disk quota, is full.
        InternalError: The disk cannot be read or written.
    """
    with translate_disk_full():
        try:
            yield
        except OSError as error:
            if error.errno not in _DISK_FAILED:
                raise
            raise InternalError(f"expected a disk that works but received: {error.strerror}") from error


def require_free_bytes(path: Path, size: int, min_free_bytes: int) -> None:
    """Raise InsufficientStorageError if a write would leave too little disk space free.

    Args:
        path: A directory on the file system.
        size: Bytes to write.
        min_free_bytes: Bytes that must stay free.

    Raises:
        InsufficientStorageError: Fewer than `min_free_bytes` would stay free.
    """
    free = free_bytes(path)
    if free - size < min_free_bytes:
        written = f" after writing {size}" if size else ""
        expected = f"{min_free_bytes} bytes left free{written}"
        raise InsufficientStorageError.of("the disk", expected, f"{free} bytes free")


def free_bytes(path: Path) -> int:
    """Return the free bytes of the file system that holds a directory."""
    return shutil.disk_usage(path).free


if sys.platform == "darwin":
    import fcntl

    _NO_FULL_SYNC = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY})
    """Errors of file systems without this operation, such as network file systems."""

    def _sync(descriptor: int) -> None:
        """Wait until the drive has written its cache, which fsync(2) of macOS does not wait for."""
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
            os.fsync(descriptor)
else:

    def _sync(descriptor: int) -> None:
        os.fsync(descriptor)


def read_file(path: Path) -> bytes | None:
    """Return the content of a small file, or `None` if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def write_file(path: Path, data: bytes) -> None:
    """Write a small file that survives a power failure, whole or not at all, in place of another."""
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with open_owner_only(part, "wb") as file:
        file.write(data)
    sync_file(part)
    part.replace(path)
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Wait until a file's content is on the disk. Windows syncs only files that are open for writing."""
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Wait until a directory's entries are on the disk. Windows has no call for that and needs none."""
    if sys.platform != "win32":
        sync_file(path)


def sync_tree(path: Path) -> None:
    """Wait until all files and directories below a directory are on the disk.

    On Linux this is one call for the whole file system (syncfs(2)), on a busy disk twenty times as fast for
    10,000 images as a call for each file.

    Raises:
        OSError: Some of it could not be written.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None, use_errno=True), "syncfs"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if library.syncfs(descriptor):
                raise OSError(ctypes.get_errno(), "cannot write to the disk", str(path))
        finally:
            os.close(descriptor)
        return
    for directory, _, names in os.walk(path, topdown=False):
        for name in names:
            sync_file(Path(directory, name))
        sync_directory(Path(directory))


def make_directory(path: Path, *, fsync: bool = True) -> None:
    """Create a directory and its parents, accessible to their owner only.

    Args:
        path: The directory; an existing one stays as it is.
        fsync: Whether each created directory survives a power failure when this returns.
    """
    if path.is_dir():
        return
    make_directory(path.parent, fsync=fsync)
    path.mkdir(OWNER_ONLY_DIR, exist_ok=True)
    if fsync:
        sync_directory(path.parent)


def open_owner_only(path: Path, mode: str) -> BinaryIO:
    """Open a file in a binary mode of `open`; a file that it creates is accessible to its owner only."""
    file = open(path, mode, opener=lambda name, flags: os.open(name, flags, OWNER_ONLY_FILE))  # noqa: SIM115
    return cast("BinaryIO", file)


def remove_directory(path: Path, trash: Path) -> bool:
    """Remove a directory atomically and durably: move it away by one rename, then delete its files.

    Args:
        path: The directory. If it does not exist, its parent is synced all the same, because another
            process may have moved it away without waiting for the disk.
        trash: A free path on the same file system.

    Returns:
        Whether the directory existed.

    Raises:
        OSError: Some of it still exists, at one path or the other.
    """
    try:
        path.rename(trash)
    except FileNotFoundError:
        if path.exists():
            raise
        existed = False
    else:
        existed = True
    with suppress(FileNotFoundError):
        sync_directory(path.parent)
    if existed:
        remove_tree(trash)
    return existed


def remove_tree(path: Path) -> None:
    """Delete a file or a directory, if it exists, that other processes may be deleting as well.

    Of a symbolic link the link is deleted, and not the directory that it leads to.

    Raises:
        OSError: Some of it still exists.
    """
    if path.is_symlink():
        path.unlink(missing_ok=True)
    while path.exists():
        with suppress(FileNotFoundError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def read_nowait(descriptor: int, buffer: bytearray, offset: int) -> int:
    """Read from the page cache as `os.preadv` does, and return the number of bytes; never wait for the disk.

    Raises:
        OSError: The bytes are not in the page cache (`BlockingIOError`), the file system cannot tell (tmpfs),
            or the system is not Linux.
    """
    if sys.platform == "linux":
        return os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT)
    raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
