"""Fixtures of the storage tests: an empty data directory, and a record of system calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imagehost_core.storage import DataLayout, StagingArea


@pytest.fixture
def layout(tmp_path: Path) -> DataLayout:
    """An empty data directory."""
    return DataLayout(tmp_path)


@pytest.fixture
def staging(layout: DataLayout) -> Iterator[StagingArea]:
    """The staging area of this process, without a limit on free disk space."""
    area = StagingArea(layout.staging, 0)
    yield area
    area.close()


@pytest.fixture
def system_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of `fsync`, `rename` and `replace`, in order: `sync NAME` and `rename NAME NAME`."""
    calls: list[str] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def record_fsync(descriptor: int) -> None:
        calls.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def record(rename: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def record_rename(source: Path, target: Path) -> None:
            calls.append(f"rename {source.name} {target.name}")
            rename(source, target)

        return record_rename

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record(rename))
    monkeypatch.setattr(os, "replace", record(replace))
    return calls
