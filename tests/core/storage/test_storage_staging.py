"""Staging: what is received is hashed, bounded, and gone when nobody has stored it."""

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
    from tests.core.conftest import Program

STAGE = """
    import sys
    from pathlib import Path
    from imagehost_core.storage import StagingArea
    staging = StagingArea(Path(sys.argv[1]), 0)
    staged = staging.stage()
    staged.write(b"half a picture")
    print(staged.path.parent)
    sys.stdin.readline()
"""


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_bytes_up_to_the_limit_are_kept_and_hashed_and_beyond_it_only_counted(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    whole = b"".join(pieces)
    with StagedFile(tmp_path_factory.mktemp("staged") / "file", limit=100) as staged:
        for piece in pieces:
            staged.write(memoryview(piece))
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


def test_a_staged_file_vanishes_with_its_block_also_when_it_is_not_finished(staging: StagingArea) -> None:
    with staging.stage() as unfinished:
        unfinished.write(b"x")
    with pytest.raises(KeyError), staging.stage() as failed:
        raise KeyError
    assert not unfinished.path.exists()
    assert not failed.path.exists()


def test_a_folder_to_build_in_is_empty_and_vanishes(staging: StagingArea) -> None:
    with staging.folder() as folder:
        assert list(folder.iterdir()) == []
        (folder / "part").write_bytes(b"x")
    assert not folder.exists()


def test_a_discarded_folder_is_gone_and_one_that_is_not_there_is_no_error(
    staging: StagingArea, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "file").write_bytes(b"x")
    staging.remove_tree_atomically(tmp_path / "home")
    staging.remove_tree_atomically(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_less_room_than_the_floor_is_507(folders: DataLayout) -> None:
    staging = StagingArea(folders.staging, 2**62)
    with pytest.raises(InsufficientStorageError, match="bytes left free"):
        staging.stage()
    staging.close()


def test_a_disk_that_fills_up_is_507_and_what_was_written_gives_its_room_back(
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


def test_a_full_disk_does_not_hide_why_a_staged_file_is_thrown_away(small_disk: Callable[..., Path]) -> None:
    """A client that hangs up is no 507, though the rest of its bytes could not be written."""
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


def test_the_folder_of_a_dead_process_is_swept_and_that_of_a_live_one_stays(
    folders: DataLayout, staging: StagingArea, program: Callable[..., Program]
) -> None:
    alive, dead = program(STAGE, folders.staging), program(STAGE, folders.staging)
    living, left = Path(alive.hear()), Path(dead.hear())
    staging.remove_stale()
    assert living.is_dir()
    assert left.is_dir()
    assert staging.incomplete_markers() == ()
    dead.kill()
    with staging.stage() as own:
        staging.remove_stale()
        assert own.path.exists()
    assert living.is_dir()
    assert not left.exists()
    assert [sign.stem for sign in staging.incomplete_markers()] == [left.name]


def test_a_folder_that_is_just_being_made_is_left_alone_for_an_hour(
    folders: DataLayout, staging: StagingArea
) -> None:
    making = folders.staging / "0123.new"
    making.mkdir()
    staging.remove_stale()
    assert making.is_dir()
    long_ago = time.time() - 3_700
    os.utime(making, (long_ago, long_ago))
    staging.remove_stale()
    assert not making.exists()


def test_a_folder_that_vanishes_during_the_sweep_is_no_error(
    folders: DataLayout, staging: StagingArea
) -> None:
    """Two processes may sweep at once; links to nothing stand for what has just gone."""
    for name in ("gone.new", "gone"):
        (folders.staging / name).symlink_to(folders.staging / "nowhere")
    staging.remove_stale()


def test_stray_files_do_not_stop_the_sweep(folders: DataLayout, staging: StagingArea) -> None:
    (folders.staging / ".DS_Store").write_bytes(b"x")
    (folders.staging / "0000").mkdir()
    staging.remove_stale()
    stray = {path for path in folders.staging.iterdir() if not path.is_dir()} - set(
        staging.incomplete_markers()
    )
    assert [path.name for path in stray] == [".DS_Store"]
    assert not (folders.staging / "0000").exists()


def test_closing_removes_the_folder_and_closing_again_closes_nothing_of_others(folders: DataLayout) -> None:
    staging = StagingArea(folders.staging, 0)
    staging.close()
    assert list(folders.staging.iterdir()) == []
    with (folders.root / "of another").open("wb") as file:
        staging.close()
        file.write(b"still open")
