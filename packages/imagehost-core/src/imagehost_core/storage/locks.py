"""Locks that hold between threads and between processes alike.

A lock is an advisory lock of the operating system on one of a fixed number of files: a key falls on
one by its hash, so two keys may share one, which costs a wait and never correctness. The system lets
go of it when its holder dies.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

from imagehost_core.storage.durable import make_folder

STRIPES = 256
"""How many files there are; with a few dozen holders at a time, two seldom meet."""

_POLL_SECONDS = 0.02

if sys.platform == "win32":
    import msvcrt

    def _acquire(descriptor: int, wait: bool) -> bool:
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            except OSError:
                if not wait:
                    return False
                time.sleep(0.005)
            else:
                return True

    def _release(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _acquire(descriptor: int, wait: bool) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def _release(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def unlock_file(descriptor: int) -> None:
    """Let a lock go. Closing alone would not do where a fork has a copy of the descriptor."""
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def stripe(key: str) -> int:
    """Return the number of the lock that a key falls on, below `STRIPES`."""
    return crc32(key.encode()) % STRIPES


def lock_file(path: Path, *, wait: bool = True) -> int | None:
    """Take the lock of a file; `unlock_file` lets it go.

    Args:
        path: The file; it is made if there is none.
        wait: Whether to wait while another holds it.

    Returns:
        A descriptor, or `None` where another holds the lock and `wait` is false.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if _acquire(descriptor, wait):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


class LockManager:
    """The locks of a data folder.

    Args:
        folder: Where their files are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_folder(folder, fsync=False)

    @contextmanager
    def acquire(self, purpose: str, key: str) -> Iterator[None]:
        """Hold the lock of a key, waiting for it.

        Not reentrant: a thread that asks for a stripe which it holds waits for ever, so nobody takes
        a second lock of one purpose.

        Args:
            purpose: What it is about; the same key may be held for different purposes.
            key: What is locked.
        """
        descriptor = lock_file(self._path(purpose, stripe(key)))
        assert descriptor is not None
        try:
            yield
        finally:
            unlock_file(descriptor)

    @contextmanager
    def try_acquire(self, purpose: str, number: int = 0) -> Iterator[bool]:
        """Hold a lock unless another does; tells which.

        Args:
            purpose: What it is about.
            number: Which of its locks: the stripe of a key, or 0 where the purpose has but one.
        """
        descriptor = lock_file(self._path(purpose, number), wait=False)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                unlock_file(descriptor)

    @contextmanager
    def acquire_with_timeout(self, purpose: str, key: str, seconds: float) -> Iterator[bool]:
        """Hold the lock of a key, waiting no longer than some seconds; tells whether it is held.

        The lock is no thread's: the block may end in another thread than it began in.

        Args:
            purpose: What it is about.
            key: What is locked.
            seconds: How long to wait for it.
        """
        until = time.monotonic() + seconds
        path = self._path(purpose, stripe(key))
        while (descriptor := lock_file(path, wait=False)) is None and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                unlock_file(descriptor)

    def named_lock(self, purpose: str) -> FileLock:
        """Return a lock for something of which there is one, and which is asked for all the time."""
        return FileLock(self._path(purpose, stripe("")))

    def _path(self, purpose: str, number: int) -> Path:
        return self._folder / f"{purpose}-{number:02x}"


class FileLock:
    """One lock whose file stays open, which saves half of what holding it costs.

    Args:
        path: Its file; it is made if there is none.
    """

    def __init__(self, path: Path) -> None:
        # To the system all threads of a process are one holder of a descriptor.
        self._threads = threading.Lock()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Hold the lock, waiting for it. Not reentrant."""
        with self._threads:
            _acquire(self._descriptor, wait=True)
            try:
                yield
            finally:
                _release(self._descriptor)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
