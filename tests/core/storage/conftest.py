"""What the tests of the storage share: a data folder, and what is asked of the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagehost_core.storage import DataLayout, StagingArea


@pytest.fixture
def folders(tmp_path: Path) -> DataLayout:
    """An empty data folder."""
    return DataLayout(tmp_path)


@pytest.fixture
def staging(folders: DataLayout) -> Iterator[StagingArea]:
    """The staging folder of this process, with no floor under the disk."""
    made = StagingArea(folders.staging, 0)
    yield made
    made.close()


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
