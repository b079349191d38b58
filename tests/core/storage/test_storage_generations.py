"""Stamps: what is remembered of an image is believed only while nobody has changed it, in any process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.storage import GenerationTable, LockManager
from imagehost_core.storage.locks import stripe

if TYPE_CHECKING:
    from tests.core.conftest import Program

KEY = "abCD0123456789xy"
CHANGE = """
    import sys
    from pathlib import Path
    from imagehost_core.storage import LockManager, GenerationTable
    folder, key = Path(sys.argv[1]), sys.argv[2]
    with LockManager(folder).acquire("image", key), GenerationTable(folder / "generations").bump(key):
        print("changing")
        sys.stdin.readline()
    print("changed")
    sys.stdin.readline()
"""


@pytest.fixture
def stamps(tmp_path: Path) -> Iterator[GenerationTable]:
    made = GenerationTable(tmp_path / "generations")
    yield made
    made.close()


def test_a_stamp_stays_while_nothing_changes(stamps: GenerationTable) -> None:
    assert stamps.read(KEY) == stamps.read(KEY) is not None


@given(st.integers(1, 5))
def test_no_stamp_from_before_a_change_is_ever_seen_again(
    tmp_path_factory: pytest.TempPathFactory, changes: int
) -> None:
    stamps = GenerationTable(tmp_path_factory.mktemp("generations") / "generations")
    seen = [stamps.read(KEY)]
    for _ in range(changes):
        with stamps.bump(KEY):
            assert stamps.read(KEY) is None
        seen.append(stamps.read(KEY))
    assert None not in seen
    assert len(set(seen)) == len(seen)
    stamps.close()


def test_a_change_that_fails_moves_the_stamp_as_well(stamps: GenerationTable) -> None:
    before = stamps.read(KEY)
    with pytest.raises(ValueError, match="no"), stamps.bump(KEY):
        raise ValueError("no")
    assert stamps.read(KEY) not in (None, before)


def test_another_process_sees_a_change_at_once(
    stamps: GenerationTable, tmp_path: Path, program: Callable[..., Program]
) -> None:
    before = stamps.read(KEY)
    other = program(CHANGE, tmp_path, KEY)
    assert other.hear() == "changing"
    assert stamps.read(KEY) is None
    other.tell()
    assert other.hear() == "changed"
    assert stamps.read(KEY) not in (None, before)


def test_after_a_death_in_the_middle_nothing_is_believed_until_it_is_set_right(
    stamps: GenerationTable, tmp_path: Path, program: Callable[..., Program]
) -> None:
    before = stamps.read(KEY)
    other = program(CHANGE, tmp_path, KEY)
    assert other.hear() == "changing"
    other.kill()
    assert stamps.read(KEY) is None
    stamps.repair(LockManager(tmp_path), "image")
    assert stamps.read(KEY) not in (None, before)


def test_the_next_change_after_a_death_sets_it_right_too(
    stamps: GenerationTable, tmp_path: Path, program: Callable[..., Program]
) -> None:
    before = stamps.read(KEY)
    other = program(CHANGE, tmp_path, KEY)
    assert other.hear() == "changing"
    other.kill()
    with stamps.bump(KEY):
        assert stamps.read(KEY) is None
    assert stamps.read(KEY) not in (None, before)


def test_a_change_that_is_really_under_way_is_not_mended_away(
    stamps: GenerationTable, tmp_path: Path, program: Callable[..., Program]
) -> None:
    other = program(CHANGE, tmp_path, KEY)
    assert other.hear() == "changing"
    stamps.repair(LockManager(tmp_path), "image")
    assert stamps.read(KEY) is None
    other.tell()
    assert other.hear() == "changed"
    assert stamps.read(KEY) is not None


def test_the_counters_have_their_room_on_the_disk_from_the_start(
    stamps: GenerationTable, tmp_path: Path
) -> None:
    """A mapped page for which there is no room, when it is first written to, ends the process."""
    status = (tmp_path / "generations").stat()
    assert status.st_blocks * 512 >= status.st_size > 0


def test_the_counters_outlive_the_process(tmp_path: Path) -> None:
    first = GenerationTable(tmp_path / "generations")
    with first.bump(KEY):
        pass
    after = first.read(KEY)
    first.close()
    second = GenerationTable(tmp_path / "generations")
    assert second.read(KEY) == after
    assert second.read("another key") == 0 or stripe("another key") == stripe(KEY)
    second.close()
