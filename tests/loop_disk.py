"""An ext4 file system on a loop device that can lose its power.

The file system is shut down at once (`EXT4_IOC_SHUTDOWN`) without flushing its journal: what was not synced
is lost, as in a power failure.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

EXT4_IOC_SHUTDOWN = 0x8004587D
"""`_IOR('X', 125, __u32)` (Linux, fs/ext4/ext4.h)."""
NO_LOG_FLUSH = (2).to_bytes(4, sys.byteorder)
UNMOUNT_SECONDS = 30.0


class LoopDisk:
    """A mounted file system.

    Args:
        folder: The directory of its image and of its mount point.
        megabytes: Its size.

    Attributes:
        root: The mount point.
    """

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._image, self.root = folder / "disk.img", folder / "disk"
        self.root.mkdir()
        with self._image.open("wb") as file:
            file.truncate(megabytes * 2**20)
        self._run("mkfs.ext4", "-q", "-F", str(self._image))
        self.mount()

    def mount(self) -> None:
        """Mount the file system."""
        self._run("mount", "-o", "loop", str(self._image), str(self.root))

    def cut(self) -> None:
        """Lose all that was not synced."""
        descriptor = os.open(self.root, os.O_RDONLY)
        fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH)
        os.close(descriptor)

    def unmount(self) -> None:
        """Unmount the file system, as soon as killed processes have closed their files."""
        deadline = monotonic() + UNMOUNT_SECONDS
        while True:
            try:
                self._run("umount", str(self.root))
                return
            except subprocess.CalledProcessError:
                if monotonic() >= deadline:
                    raise
                sleep(0.1)

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)


@contextmanager
def loop_disk(folder: Path, megabytes: int = 32) -> Iterator[LoopDisk]:
    """Yield a new file system in a directory; skip the test without the right to make one."""
    try:
        disk = LoopDisk(folder, megabytes)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"NOT TESTED: power cuts, for want of the right to make a file system ({error})")
    try:
        yield disk
    finally:
        disk.unmount()
