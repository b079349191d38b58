"""What the tests of the storage share: a data folder, and a disk that is small enough to be filled."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagehost_core.storage import Folders, Staging


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """An empty data folder."""
    return Folders(tmp_path)


@pytest.fixture
def staging(folders: Folders) -> Iterator[Staging]:
    """The staging folder of this process, with no floor under the disk."""
    made = Staging(folders.staging, 0)
    yield made
    made.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte and a hundred files; skips where this user may not mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=100", "imagehost-test", str(disk)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("NOT TESTED: a really full disk, for want of the right to mount one")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def asked_of_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the operating system, in order: `sync NAME` and `rename NAME NAME`."""
    log: list[str] = []
    fsync, rename = os.fsync, os.rename

    def record_fsync(descriptor: int) -> None:
        log.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def record_rename(source: Path, target: Path) -> None:
        log.append(f"rename {source.name} {target.name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record_rename)
    return log
