"""The eviction of the least recently used files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imagehost_core.storage.cache.eviction import Eviction, evict_least_recently_used


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("batch", [1, 2, 3, 50])
def test_the_same_files_are_evicted_however_few_of_them_are_held_in_memory(
    tmp_path: Path, batch: int, dry_run: bool
) -> None:
    for turn in range(6):
        file = tmp_path / f"{turn % 2}" / f"{turn}"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(100))
        # Some were used at the same time.
        os.utime(file, (turn // 2, turn // 2))
    assert evict_least_recently_used(tmp_path, 250, dry_run=dry_run, batch=batch) == Eviction(4, 400, 200)
    left = {path.name for path in tmp_path.glob("*/*")}
    assert left == (set("012345") if dry_run else set("45"))


def test_of_a_directory_that_does_not_exist_nothing_is_evicted(tmp_path: Path) -> None:
    assert evict_least_recently_used(tmp_path / "missing", 0) == Eviction(0, 0, 0)
