"""Generations: a cache entry is valid only until any process changes its key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.coordination.generations import GenerationTable
from imagehost_core.coordination.locks import LockManager, stripe

if TYPE_CHECKING:
    from tests.programs import Program

KEY = "abCD0123456789xy"
CHANGE = """
    import sys
    from pathlib import Path
    from imagehost_core.coordination.generations import GenerationTable
    from imagehost_core.coordination.locks import LockManager
    folder, key = Path(sys.argv[1]), sys.argv[2]
    with LockManager(folder).acquire("image", key), GenerationTable(folder / "generations").bump(key):
        print("changing")
        sys.stdin.readline()
    print("changed")
    sys.stdin.readline()
"""


@pytest.fixture
def generations(tmp_path: Path) -> Iterator[GenerationTable]:
    table = GenerationTable(tmp_path / "generations")
    yield table
    table.close()


def test_a_generation_is_constant_between_changes(generations: GenerationTable) -> None:
    assert generations.read(KEY) == generations.read(KEY) is not None


@given(st.integers(1, 5))
def test_a_generation_from_before_a_change_never_comes_back(
    tmp_path_factory: pytest.TempPathFactory, changes: int
) -> None:
    generations = GenerationTable(tmp_path_factory.mktemp("generations") / "generations")
    seen = [generations.read(KEY)]
    for _ in range(changes):
        with generations.bump(KEY):
            assert generations.read(KEY) is None
        seen.append(generations.read(KEY))
    assert None not in seen
    assert len(set(seen)) == len(seen)
    generations.close()


def test_a_change_that_fails_increments_the_generation_too(generations: GenerationTable) -> None:
    before = generations.read(KEY)
    with pytest.raises(ValueError, match="no"), generations.bump(KEY):
        raise ValueError("no")
    assert generations.read(KEY) not in (None, before)


def test_another_process_sees_a_change_at_once(
    generations: GenerationTable, tmp_path: Path, program: Callable[..., Program]
) -> None:
    before = generations.read(KEY)
    other = program(CHANGE, tmp_path, KEY)
    assert other.read_line() == "changing"
    assert generations.read(KEY) is None
    other.write_line()
    assert other.read_line() == "changed"
    assert generations.read(KEY) not in (None, before)


def test_after_a_crash_during_a_change_nothing_is_valid_until_the_repair(
    generations: GenerationTable, tmp_path: Path, program: Callable[..., Program]
) -> None:
    before = generations.read(KEY)
    other = program(CHANGE, tmp_path, KEY)
    assert other.read_line() == "changing"
    other.kill()
    assert generations.read(KEY) is None
    generations.repair(LockManager(tmp_path), "image")
    assert generations.read(KEY) not in (None, before)


def test_the_next_change_after_a_crash_repairs_the_generation_too(
    generations: GenerationTable, tmp_path: Path, program: Callable[..., Program]
) -> None:
    before = generations.read(KEY)
    other = program(CHANGE, tmp_path, KEY)
    assert other.read_line() == "changing"
    other.kill()
    with generations.bump(KEY):
        assert generations.read(KEY) is None
    assert generations.read(KEY) not in (None, before)


def test_a_change_in_progress_is_not_repaired(
    generations: GenerationTable, tmp_path: Path, program: Callable[..., Program]
) -> None:
    other = program(CHANGE, tmp_path, KEY)
    assert other.read_line() == "changing"
    generations.repair(LockManager(tmp_path), "image")
    assert generations.read(KEY) is None
    other.write_line()
    assert other.read_line() == "changed"
    assert generations.read(KEY) is not None


def test_the_disk_space_of_the_file_is_allocated_when_it_is_created(
    generations: GenerationTable, tmp_path: Path
) -> None:
    """Writing to a mapped page of a sparse file on a full disk kills the process."""
    status = (tmp_path / "generations").stat()
    assert status.st_blocks * 512 >= status.st_size > 0


def test_generations_are_kept_when_the_file_is_opened_again(tmp_path: Path) -> None:
    first = GenerationTable(tmp_path / "generations")
    with first.bump(KEY):
        pass
    after = first.read(KEY)
    first.close()
    second = GenerationTable(tmp_path / "generations")
    assert second.read(KEY) == after
    assert second.read("another key") == 0 or stripe("another key") == stripe(KEY)
    second.close()


@given(st.lists(st.text(), min_size=1, max_size=40))
def test_a_change_of_several_keys_invalidates_each_of_them_also_those_of_one_stripe(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str]
) -> None:
    generations = GenerationTable(tmp_path_factory.mktemp("several") / "generations")
    before = {key: generations.read(key) for key in keys}
    with generations.bump(*keys, *keys):
        assert {generations.read(key) for key in keys} == {None}
    for key, generation in before.items():
        assert generations.read(key) not in (None, generation)
    generations.close()


def test_a_change_of_everything_invalidates_every_key_and_repairs_what_a_crash_left(
    generations: GenerationTable, tmp_path: Path, program: Callable[..., Program]
) -> None:
    keys = [f"key {number}" for number in range(2_000)]
    crashed = program(CHANGE, tmp_path, keys[0])
    crashed.read_line()
    crashed.kill()
    before = [generations.read(key) for key in keys]
    assert before[0] is None
    generations.bump_all(LockManager(tmp_path), "image")
    after = [generations.read(key) for key in keys]
    assert None not in after
    assert not any(old == new for old, new in zip(before, after, strict=True))


def test_a_change_of_everything_waits_for_a_change_in_progress(
    generations: GenerationTable, tmp_path: Path, program: Callable[..., Program]
) -> None:
    change = program(CHANGE, tmp_path, "key")
    change.read_line()
    thread = threading.Thread(target=generations.bump_all, args=(LockManager(tmp_path), "image"))
    thread.start()
    thread.join(0.1)
    assert (thread.is_alive(), generations.read("key")) == (True, None)
    change.write_line()
    thread.join(10)
    assert not thread.is_alive()
    assert generations.read("key") is not None
