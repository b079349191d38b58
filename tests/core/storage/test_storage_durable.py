"""Writes that survive a power cut: what is synced, in which order, and what a full disk means."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from imagehost_core.errors import InsufficientStorageError
from imagehost_core.storage.durable import (
    free_bytes,
    make_folder,
    remove_folder,
    require_free_bytes,
    sync_folder,
    translate_disk_full,
)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_or_a_used_up_share_of_it_is_507(number: int) -> None:
    expected = "expected room for the file for the disk"
    with pytest.raises(InsufficientStorageError, match=expected) as caught, translate_disk_full():
        raise OSError(number, "full")
    assert isinstance(caught.value.__cause__, OSError)


def test_any_other_fault_of_the_disk_stays_what_it_is() -> None:
    with pytest.raises(PermissionError), translate_disk_full():
        raise PermissionError(errno.EACCES, "no")


def test_a_really_full_disk_is_507(small_disk: Callable[..., Path]) -> None:
    disk = small_disk()
    with pytest.raises(InsufficientStorageError), translate_disk_full():
        (disk / "large").write_bytes(bytes(2**21))


def test_a_write_passes_while_it_leaves_the_floor_free(tmp_path: Path) -> None:
    require_free_bytes(tmp_path, 1_000, 1_000)
    with pytest.raises(InsufficientStorageError, match="bytes left free after writing 7 for the disk"):
        require_free_bytes(tmp_path, 7, free_bytes(tmp_path) * 2)


def test_the_write_counts_against_the_floor(small_disk: Callable[..., Path]) -> None:
    disk = small_disk()
    free = free_bytes(disk)
    require_free_bytes(disk, free, 0)
    require_free_bytes(disk, free - 10, 10)
    with pytest.raises(InsufficientStorageError):
        require_free_bytes(disk, free - 10, 11)


def test_every_folder_that_is_made_is_synced_into_its_parent(
    tmp_path: Path, asked_of_disk: list[str]
) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert asked_of_disk == [f"sync {tmp_path.name}", "sync a"]


def test_a_folder_that_is_removed_goes_by_one_rename_which_is_synced_before_anything_else(
    tmp_path: Path, asked_of_disk: list[str]
) -> None:
    home = tmp_path / "shelf" / "home"
    home.mkdir(parents=True)
    (home / "file").write_bytes(b"x")
    assert remove_folder(home, tmp_path / "grave") is True
    assert asked_of_disk == ["rename home grave", "sync shelf"]
    assert [path.name for path in tmp_path.rglob("*")] == ["shelf"]


def test_removing_a_folder_that_is_gone_waits_for_the_disk_all_the_same(
    tmp_path: Path, asked_of_disk: list[str]
) -> None:
    assert remove_folder(tmp_path / "home", tmp_path / "grave") is False
    assert asked_of_disk == ["rename home grave", f"sync {tmp_path.name}"]


def test_removing_a_folder_that_never_had_a_place_is_no_error(tmp_path: Path) -> None:
    assert remove_folder(tmp_path / "shelf" / "home", tmp_path / "grave") is False


def test_a_folder_that_is_there_and_cannot_be_moved_away_is_not_taken_for_gone(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with pytest.raises(FileNotFoundError):
        remove_folder(tmp_path / "home", tmp_path / "nowhere" / "grave")


def test_a_failed_sync_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is broken"):
        sync_folder(tmp_path)
