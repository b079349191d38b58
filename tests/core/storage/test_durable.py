"""Durable writes: which files are synced, in which order, and the error of a full disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from imagehost_core._util.durable import (
    free_bytes,
    make_directory,
    remove_directory,
    require_free_bytes,
    sync_directory,
    translate_disk_full,
)
from imagehost_core.errors import InsufficientStorageError


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_or_disk_quota_is_507(number: int) -> None:
    expected = "expected space for the file for the disk"
    with pytest.raises(InsufficientStorageError, match=expected) as caught, translate_disk_full():
        raise OSError(number, "full")
    assert isinstance(caught.value.__cause__, OSError)


def test_any_other_error_of_the_disk_is_raised_unchanged() -> None:
    with pytest.raises(PermissionError), translate_disk_full():
        raise PermissionError(errno.EACCES, "no")


def test_a_really_full_disk_is_507(small_disk: Callable[..., Path]) -> None:
    disk = small_disk()
    with pytest.raises(InsufficientStorageError), translate_disk_full():
        (disk / "large").write_bytes(bytes(2**21))


def test_a_write_is_allowed_while_enough_space_stays_free(tmp_path: Path) -> None:
    require_free_bytes(tmp_path, 1_000, 1_000)
    with pytest.raises(InsufficientStorageError, match="bytes left free after writing 7 for the disk"):
        require_free_bytes(tmp_path, 7, free_bytes(tmp_path) * 2)


def test_the_size_of_the_write_is_subtracted_from_the_free_space(small_disk: Callable[..., Path]) -> None:
    disk = small_disk()
    free = free_bytes(disk)
    require_free_bytes(disk, free, 0)
    require_free_bytes(disk, free - 10, 10)
    with pytest.raises(InsufficientStorageError):
        require_free_bytes(disk, free - 10, 11)


def test_the_parent_of_every_created_directory_is_synced(tmp_path: Path, system_calls: list[str]) -> None:
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert system_calls == [f"sync {tmp_path.name}", "sync a"]


def test_a_directory_is_removed_by_one_rename_which_is_synced_first(
    tmp_path: Path, system_calls: list[str]
) -> None:
    image = tmp_path / "shard" / "image"
    image.mkdir(parents=True)
    (image / "file").write_bytes(b"x")
    assert remove_directory(image, tmp_path / "trash") is True
    assert system_calls == ["rename image trash", "sync shard"]
    assert [path.name for path in tmp_path.rglob("*")] == ["shard"]


def test_removing_a_missing_directory_syncs_its_parent(tmp_path: Path, system_calls: list[str]) -> None:
    assert remove_directory(tmp_path / "image", tmp_path / "trash") is False
    assert system_calls == ["rename image trash", f"sync {tmp_path.name}"]


def test_removing_a_directory_whose_parent_is_missing_is_no_error(tmp_path: Path) -> None:
    assert remove_directory(tmp_path / "shard" / "image", tmp_path / "trash") is False


def test_a_directory_that_cannot_be_moved_away_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    with pytest.raises(FileNotFoundError):
        remove_directory(tmp_path / "image", tmp_path / "missing" / "trash")


def test_a_failed_sync_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="I/O error"):
        sync_directory(tmp_path)
