"""Striped locks between threads and processes, as advisory locks of the operating system on files.

A key's hash selects one of a fixed number of lock files, so two keys may share one: that costs a wait,
never correctness. The operating system releases a lock when the process that holds it dies.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from zlib import crc32

from imagehost_core._util.durable import OWNER_ONLY_FILE, make_directory, translate_disk_errors

STRIPES = 256
"""The number of lock files for a purpose; with a few dozen locks held at a time, two rarely collide."""

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
    """Release the lock of a file. Closing alone would not if a fork has a copy of the descriptor."""
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def stripe(key: str) -> int:
    """Return the stripe of a key, from 0 to `STRIPES` - 1."""
    return crc32(key.encode()) % STRIPES


def lock_file(path: Path, *, wait: bool = True) -> int | None:
    """Acquire the lock of a file; `unlock_file` releases it.

    Args:
        path: The file; it is created if needed.
        wait: Whether to wait until the lock is free.

    Returns:
        A file descriptor, or `None` if the lock is held elsewhere and `wait` is false.

    Raises:
        InsufficientStorageError: The disk is full.
        InternalError: The disk cannot be read or written.
    """
    with translate_disk_errors():
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY_FILE)
    try:
        if _acquire(descriptor, wait):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


@contextmanager
def lock_existing_file(path: Path) -> Iterator[bool]:
    """Hold the lock of a file that is not created, without waiting; yield whether it was acquired.

    It is not if the file was deleted by the process that held its lock.

    Raises:
        FileNotFoundError: There is no such file.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        acquired = _acquire(descriptor, wait=False)
        yield acquired and os.fstat(descriptor).st_nlink > 0
        if acquired:
            _release(descriptor)
    finally:
        os.close(descriptor)


class LockManager:
    """The locks of a data directory.

    Args:
        path: The directory of the lock files; it is created if needed.
    """

    def __init__(self, path: Path) -> None:
        self._root = path
        make_directory(path, fsync=False)

    @property
    def path(self) -> Path:
        """The directory of the lock files, which also has the files of counters that locks protect."""
        return self._root

    @contextmanager
    def acquire(self, purpose: str, *keys: str) -> Iterator[None]:
        """Hold the locks of some keys, waiting until they are free.

        Not reentrant: a thread that acquires a stripe which it holds waits forever, so a thread must not
        acquire a second lock of a purpose. Several are acquired in the order of their stripes, so that two
        threads cannot wait for each other.

        Args:
            purpose: The namespace of the keys; locks of different purposes are independent.
            keys: The resources to lock; none if the purpose has one lock.
        """
        with ExitStack() as stack:
            for number in sorted({stripe(key) for key in keys or ("",)}):
                stack.enter_context(self.acquire_stripe(purpose, number))
            yield

    @contextmanager
    def acquire_stripe(self, purpose: str, number: int) -> Iterator[None]:
        """Hold the lock of a stripe, waiting until it is free.

        Args:
            purpose: The namespace of the stripes.
            number: The stripe, from 0 to `STRIPES` - 1.
        """
        descriptor = lock_file(self._path(purpose, number))
        assert descriptor is not None
        try:
            yield
        finally:
            unlock_file(descriptor)

    @contextmanager
    def try_acquire(self, purpose: str, number: int = 0, *, seconds: float = 0) -> Iterator[bool]:
        """Hold a lock if it is free, or becomes free in time; yield whether it was acquired.

        The lock belongs to no thread: the block may be left in another thread than it was entered in.

        Args:
            purpose: The namespace of the key.
            number: The stripe of a key, or 0 if the purpose has one lock.
            seconds: The longest time to wait.
        """
        deadline = time.monotonic() + seconds
        path = self._path(purpose, number)
        while (descriptor := lock_file(path, wait=False)) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                unlock_file(descriptor)

    def named_lock(self, purpose: str) -> FileLock:
        """Return the lock of a purpose that has one lock and is acquired often."""
        return FileLock(self._path(purpose, stripe("")))

    def _path(self, purpose: str, number: int) -> Path:
        return self._root / f"{purpose}-{number:02x}"


class FileLock:
    """A lock whose file stays open, which halves the cost of acquiring it.

    Args:
        path: The lock file; it is created if needed.
    """

    def __init__(self, path: Path) -> None:
        # flock(2) does not exclude the threads that share a descriptor.
        self._thread_lock = threading.Lock()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY_FILE)

    def __enter__(self) -> None:
        """Acquire the lock, waiting until it is free. Not reentrant."""
        self._thread_lock.acquire()
        try:
            _acquire(self._descriptor, wait=True)
        except BaseException:
            self._thread_lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self.release()

    def try_acquire(self) -> bool:
        """Acquire the lock if it is free, without waiting; return whether it was."""
        if not self._thread_lock.acquire(blocking=False):
            return False
        acquired = False
        try:
            acquired = _acquire(self._descriptor, wait=False)
        finally:
            if not acquired:
                self._thread_lock.release()
        return acquired

    def release(self) -> None:
        """Release the lock."""
        try:
            _release(self._descriptor)
        finally:
            self._thread_lock.release()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
