"""The staging area: received files are hashed, limited, and deleted unless they are stored."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import InsufficientStorageError, PayloadTooLargeError
from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_core.storage import DataLayout, StagedFile, StagingArea

if TYPE_CHECKING:
    from tests.programs import Program

STAGE = """
    import sys
    from pathlib import Path
    from imagehost_core.storage import StagingArea
    staging = StagingArea(Path(sys.argv[1]), 0)
    staged = staging.stage()
    staged.write(b"half an image")
    print(staged.path.parent)
    sys.stdin.readline()
"""


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_bytes_up_to_the_limit_are_stored_and_hashed_and_bytes_beyond_it_counted(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes]
) -> None:
    whole = b"".join(chunks)
    with StagedFile(tmp_path_factory.mktemp("staged") / "file", limit=100) as staged:
        for chunk in chunks:
            staged.write(memoryview(chunk))
        assert staged.size == len(whole)
        if len(whole) > 100:
            with pytest.raises(PayloadTooLargeError, match=f"at most 100 bytes .* {len(whole)} bytes"):
                staged.finish()
            staged.close()
        else:
            staged.finish()
            assert staged.path.read_bytes() == whole
            assert staged.sha256 == sha256(whole).hexdigest()


def test_exactly_fifty_megabytes_are_accepted_and_one_byte_more_is_413(staging: StagingArea) -> None:
    block = bytes(2**20)
    with staging.stage() as staged:
        for _ in range(MAX_FILE_BYTES // len(block)):
            staged.write(block)
        staged.finish()
        assert staged.path.stat().st_size == MAX_FILE_BYTES == 52_428_800
    with staging.stage() as staged:
        for _ in range(MAX_FILE_BYTES // len(block)):
            staged.write(block)
        staged.write(b"x")
        with pytest.raises(PayloadTooLargeError, match=r"52428800 bytes .* 52428801 bytes"):
            staged.finish()


def test_a_staged_file_is_deleted_with_its_block_finished_or_not(staging: StagingArea) -> None:
    with staging.stage() as unfinished:
        unfinished.write(b"x")
    with pytest.raises(KeyError), staging.stage() as failed:
        raise KeyError
    assert not unfinished.path.exists()
    assert not failed.path.exists()


def test_a_build_directory_is_empty_and_deleted_with_its_block(staging: StagingArea) -> None:
    with staging.temporary_directory() as folder:
        assert list(folder.iterdir()) == []
        (folder / "part").write_bytes(b"x")
    assert not folder.exists()


def test_a_directory_is_removed_and_a_missing_one_is_no_error(staging: StagingArea, tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "file").write_bytes(b"x")
    staging.remove_tree_atomically(tmp_path / "image")
    staging.remove_tree_atomically(tmp_path / "image")
    assert not (tmp_path / "image").exists()


def test_less_free_space_than_the_minimum_is_507(layout: DataLayout) -> None:
    staging = StagingArea(layout.staging, 2**62)
    with pytest.raises(InsufficientStorageError, match="bytes left free"):
        staging.stage()
    staging.close()


def test_a_disk_that_fills_up_is_507_and_the_file_is_deleted(
    small_disk: Callable[..., Path],
) -> None:
    disk = small_disk()
    staging = StagingArea(disk / "staging", 0)
    with staging.stage() as staged, pytest.raises(InsufficientStorageError):
        staged.write(bytes(2**21))
    with staging.stage() as again:
        again.write(bytes(2**19))
        again.finish()
    staging.close()


def test_a_full_disk_does_not_hide_the_error_that_discards_a_staged_file(
    small_disk: Callable[..., Path],
) -> None:
    """A client that disconnects is no 507, though its last bytes cannot be written."""
    disk = small_disk()
    staging = StagingArea(disk / "staging", 0)

    def receive(staged: StagedFile) -> None:
        staged.write(b"in the buffer, not on the disk yet")
        with pytest.raises(OSError, match="No space"):
            (disk / "ballast").write_bytes(bytes(2**21))
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError), staging.stage() as staged:
        receive(staged)
    assert not staged.path.exists()
    staging.close()


def test_the_directory_of_a_killed_process_is_removed_and_that_of_a_running_one_stays(
    layout: DataLayout, staging: StagingArea, program: Callable[..., Program]
) -> None:
    running, killed = program(STAGE, layout.staging), program(STAGE, layout.staging)
    running_dir, killed_dir = Path(running.read_line()), Path(killed.read_line())
    staging.remove_stale()
    assert running_dir.is_dir()
    assert killed_dir.is_dir()
    assert staging.incomplete_markers() == ()
    killed.kill()
    with staging.stage() as staged:
        staging.remove_stale()
        assert staged.path.exists()
    assert running_dir.is_dir()
    assert not killed_dir.exists()
    assert [marker.stem for marker in staging.incomplete_markers()] == [killed_dir.name]


def test_a_directory_that_is_being_created_is_not_stale_for_an_hour(
    layout: DataLayout, staging: StagingArea
) -> None:
    new = layout.staging / "0123.new"
    new.mkdir()
    staging.remove_stale()
    assert new.is_dir()
    long_ago = time.time() - 3_700
    os.utime(new, (long_ago, long_ago))
    staging.remove_stale()
    assert not new.exists()


def test_a_directory_that_another_process_removes_meanwhile_is_no_error(
    layout: DataLayout, staging: StagingArea
) -> None:
    """Two processes may clean up at once; dangling links stand for directories that were just removed."""
    for name in ("removed.new", "removed"):
        (layout.staging / name).symlink_to(layout.staging / "missing")
    staging.remove_stale()


def test_unknown_files_are_ignored(layout: DataLayout, staging: StagingArea) -> None:
    (layout.staging / ".DS_Store").write_bytes(b"x")
    (layout.staging / "0000").mkdir()
    staging.remove_stale()
    stray = {path for path in layout.staging.iterdir() if not path.is_dir()} - set(
        staging.incomplete_markers()
    )
    assert [path.name for path in stray] == [".DS_Store"]
    assert not (layout.staging / "0000").exists()


def test_a_symbolic_link_is_no_stale_directory(layout: DataLayout, staging: StagingArea) -> None:
    elsewhere = layout.root / "elsewhere"
    (elsewhere / "trash-images").mkdir(parents=True)
    (layout.staging / "link").symlink_to(elsewhere)
    assert staging.stale() == ()
    staging.remove_stale()
    assert [path.name for path in elsewhere.iterdir()] == ["trash-images"]


def test_closing_twice_removes_the_directory_and_closes_no_other_file(layout: DataLayout) -> None:
    staging = StagingArea(layout.staging, 0)
    staging.close()
    assert list(layout.staging.iterdir()) == []
    with (layout.root / "other").open("wb") as file:
        staging.close()
        file.write(b"still open")


def test_the_directory_of_a_process_is_durable_so_that_a_power_failure_leaves_a_trace_of_it(
    layout: DataLayout, system_calls: list[str]
) -> None:
    StagingArea(layout.staging, 0).close()
    *_, renamed, synced = system_calls
    assert renamed.startswith("rename ")
    assert synced == "sync staging"
