"""The store of masters: what is in it survives a power cut, and what is deleted is gone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from imagehost_core.errors import InsufficientStorageError, NotFoundError
from imagehost_core.ids import ImageId, new_image_id
from imagehost_core.storage import DataLayout, LocalBlobStore, StagingArea
from imagehost_core.storage.blob_store import MASTER, derivative_name

ID = ImageId("abCD0123456789xy")


@pytest.fixture
def files(folders: DataLayout, staging: StagingArea) -> LocalBlobStore:
    return LocalBlobStore(folders, staging)


def put(files: LocalBlobStore, staging: StagingArea, image_id: ImageId, **content: bytes) -> None:
    with staging.folder() as built:
        for name, data in content.items():
            (built / name).write_bytes(data)
        files.put(image_id, built)


def test_what_was_put_can_be_read(files: LocalBlobStore, staging: StagingArea) -> None:
    with staging.folder() as built:
        (built / MASTER).write_bytes(b"the master")
        (built / derivative_name(512)).write_bytes(b"a reduction")
        files.put(ID, built)
    with files.open(ID) as master, files.open(ID, derivative_name(512)) as rung:
        assert (master.read(), rung.read()) == (b"the master", b"a reduction")
    assert files.has(ID)
    assert list(files.ids()) == [ID]


def test_each_file_then_its_folder_then_the_new_place_is_synced_around_one_rename(
    files: LocalBlobStore, staging: StagingArea, asked_of_disk: list[str]
) -> None:
    with staging.folder() as built:
        (built / "master").write_bytes(b"1")
        (built / "derivative-512").write_bytes(b"2")
        files.put(ID, built)
    assert sorted(asked_of_disk[:2]) == ["sync derivative-512", "sync master"]
    assert asked_of_disk[2:] == [
        f"sync {built.name}",
        "sync images",
        f"rename {built.name} {ID}",
        f"sync {ID[:2]}",
    ]


def test_a_shelf_that_another_process_has_just_made_is_synced_by_us_as_well(
    files: LocalBlobStore, staging: StagingArea, folders: DataLayout, asked_of_disk: list[str]
) -> None:
    """That it is there does not say that it survives a power cut: its maker may still be waiting."""
    (folders.images / ID[:2]).mkdir()
    put(files, staging, ID, master=b"1")
    assert "sync images" in asked_of_disk
    asked_of_disk.clear()
    put(files, staging, ImageId("ab" + "0" * 14), master=b"2")
    assert "sync images" not in asked_of_disk, "it has waited for this shelf once, which is enough"


def test_a_file_that_is_not_there_is_404(files: LocalBlobStore, staging: StagingArea) -> None:
    put(files, staging, ID, master=b"1")
    with pytest.raises(NotFoundError):
        files.open(ID, "derivative-512")
    with pytest.raises(NotFoundError):
        files.open(new_image_id())


def test_deleting_removes_all_files_of_an_image_and_none_of_another(
    files: LocalBlobStore, staging: StagingArea
) -> None:
    beside = ImageId("ab" + "0" * 14)
    put(files, staging, ID, master=b"1", rung=b"2")
    put(files, staging, beside, master=b"3")
    files.delete(ID)
    files.delete(ID)
    files.delete(new_image_id())
    assert not files.has(ID)
    assert list(files.ids()) == [beside]


def test_an_open_file_outlives_its_deletion(files: LocalBlobStore, staging: StagingArea) -> None:
    put(files, staging, ID, master=b"whole")
    with files.open(ID) as master:
        files.delete(ID)
        assert master.read() == b"whole"


def test_what_is_not_ours_in_the_folder_is_passed_over(
    files: LocalBlobStore, staging: StagingArea, folders: DataLayout
) -> None:
    """File managers and file systems leave things: none of them may be taken for an orphan."""
    put(files, staging, ID, master=b"1")
    (folders.images / ".DS_Store").write_bytes(b"")
    (folders.images / "lost+found").mkdir()
    (folders.images / "lost+found" / "#1234").mkdir()
    (folders.images / "zz").mkdir()
    (folders.images / "zz" / ID).mkdir()
    assert list(files.ids()) == [ID]


def test_a_disk_without_room_is_507(small_disk: Callable[..., Path]) -> None:
    disk = small_disk()
    folders = DataLayout(disk)
    staging = StagingArea(folders.staging, 0)
    files = LocalBlobStore(folders, staging)
    with staging.folder() as built:
        (built / MASTER).write_bytes(b"1")
        with suppress(OSError):
            for number in range(1_000):
                (disk / f"{number}").mkdir()
        with pytest.raises(InsufficientStorageError):
            files.put(ID, built)
    assert list(files.ids()) == []
    staging.close()
