"""The local blob store: durability, several processes, other file systems and full disks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from imagehost_core.errors import InsufficientStorageError
from imagehost_core.ids import ImageId
from imagehost_core.storage import MASTER, DataLayout, LocalBlobStore, StagingArea

if TYPE_CHECKING:
    from tests.programs import Program

ID = ImageId("abCD0123456789xy")
STORE = """
    import sys
    from pathlib import Path
    from imagehost_core.ids import ImageId
    from imagehost_core.storage import LocalBlobStore
    blobs = LocalBlobStore(sys.argv[1])
    print("open")
    sys.stdin.readline()
"""


@pytest.fixture
def blobs(layout: DataLayout, staging: StagingArea) -> LocalBlobStore:
    return LocalBlobStore(layout.images, staging)


def put(blobs: LocalBlobStore, staging: StagingArea, image_id: ImageId, **content: bytes) -> None:
    with staging.temporary_directory() as files:
        for name, data in content.items():
            (files / name).write_bytes(data)
        blobs.put(image_id, files)


def test_files_and_directories_are_synced_before_and_after_one_rename(
    blobs: LocalBlobStore, staging: StagingArea, system_calls: list[str]
) -> None:
    with staging.temporary_directory() as files:
        (files / "master").write_bytes(b"1")
        (files / "derivative-512").write_bytes(b"2")
        blobs.put(ID, files)
    assert sorted(system_calls[:2]) == ["sync derivative-512", "sync master"]
    assert system_calls[2:] == [
        f"sync {files.name}",
        "sync images",
        f"rename {files.name} {ID}",
        f"sync {ID[:2]}",
    ]


def test_each_process_syncs_a_shard_once_though_another_process_created_it(
    blobs: LocalBlobStore, staging: StagingArea, layout: DataLayout, system_calls: list[str]
) -> None:
    """That it exists does not mean that it is durable: the other process may still be waiting."""
    (layout.images / ID[:2]).mkdir()
    put(blobs, staging, ID, master=b"1")
    assert "sync images" in system_calls
    system_calls.clear()
    put(blobs, staging, ImageId("ab" + "0" * 14), master=b"2")
    assert "sync images" not in system_calls, "the shard has been synced"


def test_a_deletion_is_one_rename_and_a_sync(
    blobs: LocalBlobStore, staging: StagingArea, system_calls: list[str]
) -> None:
    put(blobs, staging, ID, master=b"1")
    system_calls.clear()
    blobs.delete(ID)
    assert system_calls == [f"rename {ID} trash-images-{ID}", f"sync {ID[:2]}"]


def test_a_file_that_replaces_another_is_synced_before_and_after_one_rename(
    blobs: LocalBlobStore, staging: StagingArea, system_calls: list[str]
) -> None:
    put(blobs, staging, ID, master=b"1")
    with staging.temporary_path() as file:
        file.write_bytes(b"2")
        system_calls.clear()
        blobs.replace_file(ID, MASTER, file)
        assert system_calls == [f"sync {file.name}", f"rename {file.name} {MASTER}", f"sync {ID}"]


def test_a_deletion_removes_a_symbolic_link_and_nothing_behind_it(
    blobs: LocalBlobStore, staging: StagingArea, layout: DataLayout, tmp_path: Path
) -> None:
    put(blobs, staging, ID, master=b"1")
    directory, elsewhere = layout.images / ID[:2] / ID, tmp_path / "elsewhere"
    directory.rename(elsewhere)
    directory.symlink_to(elsewhere)
    blobs.delete(ID)
    assert not directory.is_symlink()
    assert (elsewhere / "master").read_bytes() == b"1"
    blobs.delete(ID)


def test_other_entries_of_the_directory_are_ignored(
    blobs: LocalBlobStore, staging: StagingArea, layout: DataLayout
) -> None:
    """File managers and file systems create entries, and none of them may be taken for an image."""
    put(blobs, staging, ID, master=b"1")
    (layout.images / ".DS_Store").write_bytes(b"")
    (layout.images / "lost+found").mkdir()
    (layout.images / "lost+found" / "#1234").mkdir()
    (layout.images / "zz").mkdir()
    (layout.images / "zz" / ID).mkdir()
    assert list(blobs.ids()) == [ID]


def test_stored_images_are_there_when_the_directory_is_opened_again(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / MASTER).write_bytes(b"1")
    with LocalBlobStore(tmp_path / "new" / "blobs") as blobs:
        blobs.put(ID, files)
    with LocalBlobStore(str(tmp_path / "new" / "blobs")) as blobs, blobs.open(ID) as master:
        assert master.read() == b"1"
        assert list(blobs.ids()) == [ID]
    assert (tmp_path / "new" / "blobs").stat().st_mode & 0o777 == 0o700


def test_closing_leaves_nothing_but_the_images(tmp_path: Path) -> None:
    with LocalBlobStore(tmp_path / "blobs"):
        assert list((tmp_path / "blobs" / ".staging").iterdir()) != []
    assert list((tmp_path / "blobs" / ".staging").iterdir()) == []


def test_the_staging_files_of_a_killed_process_are_removed_when_the_directory_is_opened(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    other = program(STORE, tmp_path / "blobs")
    assert other.read_line() == "open"
    (killed,) = (tmp_path / "blobs" / ".staging").iterdir()
    with LocalBlobStore(tmp_path / "blobs"):
        assert killed.is_dir(), "its process is running"
    other.kill()
    with LocalBlobStore(tmp_path / "blobs"):
        assert not killed.exists()


def test_files_on_another_file_system_are_copied(small_disk: Callable[..., Path], tmp_path: Path) -> None:
    files = small_disk() / "files"
    files.mkdir()
    (files / MASTER).write_bytes(b"1")
    with LocalBlobStore(tmp_path / "blobs") as blobs:
        blobs.put(ID, files)
        assert not files.exists()
        with blobs.open(ID) as master:
            assert master.read() == b"1"


def test_a_full_disk_is_507_and_stores_nothing(small_disk: Callable[..., Path]) -> None:
    disk = small_disk()
    layout = DataLayout(disk)
    staging = StagingArea(layout.staging, 0)
    blobs = LocalBlobStore(layout.images, staging)
    with staging.temporary_directory() as files:
        (files / MASTER).write_bytes(b"1")
        with suppress(OSError):
            for number in range(1_000):
                (disk / f"{number}").mkdir()
        with pytest.raises(InsufficientStorageError):
            blobs.put(ID, files)
    assert list(blobs.ids()) == []
    staging.close()


def test_an_empty_directory_in_an_images_place_is_not_replaced(
    blobs: LocalBlobStore, staging: StagingArea
) -> None:
    put(blobs, staging, ID)
    with pytest.raises(FileExistsError):
        put(blobs, staging, ID, master=b"1")
    assert blobs.has(ID)
