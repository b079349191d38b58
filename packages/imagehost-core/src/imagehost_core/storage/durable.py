"""Writes that survive a power cut and that nobody else can read, and what a full disk means.

A file is durable once it *and the folder that names it* are synced: without the folder's sync a
renamed file was lost in every cut that was measured. A failed sync is never tried again on the same
descriptor: the kernel may have dropped the pages and would report success.

A data folder holds hashes of passwords and private pictures. Whatever the umask, and whoever may enter the
folder, its files are their owner's alone.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from imagehost_core.errors import FieldError, InsufficientStorageError

OWNER_ONLY_DIR, OWNER_ONLY_FILE = 0o700, 0o600
"""The modes of what its owner alone may enter, and read and write."""
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def translate_disk_full() -> Iterator[None]:
    """Turn the operating system's refusal for lack of room into ours.

    Raises:
        InsufficientStorageError: The disk, or the user's share of it, is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        fault = FieldError("the disk", "room for the file", "none")
        raise InsufficientStorageError(errors=[fault]) from error


def require_free_bytes(folder: Path, more: int, floor: int) -> None:
    """Let a write of `more` bytes below a folder pass.

    Args:
        folder: Any folder of the file system.
        more: Bytes to be written.
        floor: Bytes that must stay free.

    Raises:
        InsufficientStorageError: Fewer than `floor` bytes would stay free.
    """
    free = free_bytes(folder)
    if free - more < floor:
        expected = f"{floor} bytes left free after writing {more}"
        raise InsufficientStorageError(errors=[FieldError("the disk", expected, f"{free} bytes free")])


def free_bytes(folder: Path) -> int:
    """Return how many bytes may still be written below a folder."""
    return shutil.disk_usage(folder).free


def sync_file(path: Path) -> None:
    """Wait until a file's bytes are on the disk."""
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Wait until a folder's names are on the disk. Windows does so by itself, and has no call for it."""
    if os.name == "posix":
        sync_file(path)


def make_folder(path: Path, *, fsync: bool = True) -> None:
    """Make a folder and its parents, for their owner alone.

    Args:
        path: The folder; those that are there stay as they are.
        fsync: Whether each survives a power cut when this returns.
    """
    if path.is_dir():
        return
    make_folder(path.parent, fsync=fsync)
    path.mkdir(OWNER_ONLY_DIR, exist_ok=True)
    if fsync:
        sync_folder(path.parent)


def open_owner_only(path: Path, mode: str) -> BinaryIO:
    """Return a file opened in a binary mode of `open`; if it is made now, for its owner alone."""
    file = open(path, mode, opener=lambda name, flags: os.open(name, flags, OWNER_ONLY_FILE))  # noqa: SIM115
    return cast("BinaryIO", file)


def remove_folder(path: Path, trash: Path) -> bool:
    """Remove a folder at once and for good: out of its place by one rename, then file by file.

    Args:
        path: The folder. There may be none: then somebody may have taken it away without having
            waited for the disk, which is made up for.
        trash: A path beside, on the same file system, that nothing has.

    Returns:
        Whether there was such a folder.

    Raises:
        OSError: Some of it is still there, at the one path or at the other.
    """
    try:
        path.rename(trash)
    except FileNotFoundError:
        if path.exists():
            raise
        found = False
    else:
        found = True
    with suppress(FileNotFoundError):
        sync_folder(path.parent)
    if found:
        remove_tree(trash)
    return found


def remove_tree(path: Path) -> None:
    """Remove a folder, if there is one, which others may be removing as well; it is gone when this returns.

    Raises:
        OSError: Some of it is still there.
    """
    while path.exists():
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
