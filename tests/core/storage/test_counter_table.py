"""The table of counters in shared memory: growth, other processes and damaged files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.coordination.counter_table import COUNTERS, INITIAL_CAPACITY, CounterTable
from imagehost_core.errors import InsufficientStorageError

ALL = range(10**9)
KEYS = [f"account:{number}" for number in range(3_000)]


def fill(table: CounterTable, keys: list[str], start: int = 60) -> None:
    for number, key in enumerate(keys):
        table.write(key, {(1, start): number, (2, 0): 7}, in_use=ALL)


def test_all_counters_are_kept_when_the_table_grows_and_another_process_reads_them(tmp_path: Path) -> None:
    table, other = CounterTable(tmp_path / "counters"), CounterTable(tmp_path / "counters")
    fill(table, KEYS)
    for opened in (table, other, CounterTable(tmp_path / "counters")):
        assert len(opened) == len(KEYS)
        assert [opened.read(key) for key in KEYS] == [{(1, 60): n, (2, 0): 7} for n in range(len(KEYS))]
        assert opened.read("unknown") == {}
        opened.close()


def test_keys_that_are_not_in_use_are_left_out_when_the_table_grows(tmp_path: Path) -> None:
    table = CounterTable(tmp_path / "counters")
    for round_number in range(1, 20):
        start = 100 * round_number
        for number in range(INITIAL_CAPACITY // 2):
            table.write(f"{round_number}:{number}", {(1, start): 1}, in_use=range(start, start + 100))
    assert table.read("19:0") == {(1, 1_900): 1}
    assert "1:0" not in table
    assert len(table) <= INITIAL_CAPACITY
    # The space of earlier tables is used again.
    assert (tmp_path / "counters").stat().st_size < 5 * INITIAL_CAPACITY * 272
    table.close()


def test_counters_are_found_after_another_process_has_replaced_the_table_in_the_same_place(
    tmp_path: Path,
) -> None:
    table, other = CounterTable(tmp_path / "counters"), CounterTable(tmp_path / "counters")
    kept = KEYS[: INITIAL_CAPACITY // 4 - 1]
    unused = (f"unused:{number}" for number in range(INITIAL_CAPACITY))
    # Keys that are left out when the table grows have taken the places of others.
    for _ in range(INITIAL_CAPACITY // 4 + 1):
        other.write(next(unused), {(1, 60): 1}, in_use=range(60, 600))
    fill(other, kept, start=120)
    expected = [other.read(key) for key in kept]
    assert [table.read(key) for key in kept] == expected
    # It grows into the space behind it, and then into that before it.
    for _ in range(INITIAL_CAPACITY // 4 + 4):
        other.write(next(unused), {(1, 60): 1}, in_use=range(120, 600))
    assert len(other) < INITIAL_CAPACITY // 2
    assert [table.read(key) for key in kept] == expected
    table.close()
    other.close()


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 12), st.integers(1, 10), st.integers(1, 2**40)),
        max_size=60,
    )
)
def test_a_key_has_the_counters_that_were_written_last_first(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, int, int, int]]
) -> None:
    table = CounterTable(tmp_path_factory.mktemp("table") / "counters")
    for key, counter, start, count in writes:
        expected = {(counter, start): count} | table.read(key) | {(counter, start): count}
        table.write(key, expected, in_use=ALL)
        assert list(table.read(key).items()) == list(expected.items())[:COUNTERS]
    table.close()


def test_keys_of_a_clock_that_was_far_ahead_are_left_out_when_the_table_grows(tmp_path: Path) -> None:
    table = CounterTable(tmp_path / "counters")
    for key in KEYS[: INITIAL_CAPACITY // 2]:
        table.write(key, {(1, 10**6): 1}, in_use=range(10**6, 10**6 + 600))
    table.write("now", {(1, 60): 1}, in_use=range(60, 600))
    assert len(table) == 1
    table.close()


@pytest.mark.parametrize("damage", [b"", b"counter2", b"another file" * 10, None])
def test_a_damaged_file_is_replaced_by_an_empty_table(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "counters"
    table = CounterTable(path)
    fill(table, KEYS[:10])
    table.close()
    path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    table = CounterTable(path)
    assert len(table) == 0
    fill(table, KEYS[:10])
    assert table.read(KEYS[3]) == {(1, 60): 3, (2, 0): 7}
    table.close()


def test_on_a_full_disk_new_keys_are_counted_until_the_table_is_nearly_full(
    small_disk: Callable[..., Path],
) -> None:
    disk = small_disk("4m")
    table = CounterTable(disk / "counters")
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    with pytest.raises(InsufficientStorageError):
        fill(table, KEYS)
    assert len(table) > 0.8 * INITIAL_CAPACITY
    assert table.read(KEYS[0]) == {(1, 60): 0, (2, 0): 7}
    table.write(KEYS[0], {(1, 60): 1}, in_use=ALL)
    filler.unlink()
    fill(table, KEYS)
    assert len(table) == len(KEYS)
    table.close()
