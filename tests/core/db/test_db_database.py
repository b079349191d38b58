"""The database: what is committed stays, readers never wait, writers queue."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from imagehost_core.db import Database
from imagehost_core.db.database import Transaction
from imagehost_core.errors import InsufficientStorageError, UnavailableError
from imagehost_core.storage import LockManager

if TYPE_CHECKING:
    from tests.core.conftest import Program

WRITE = """
    import sys
    from pathlib import Path
    from imagehost_core.db import Database
    from imagehost_core.storage import LockManager
    folder = Path(sys.argv[1])
    catalog = Database(folder / "imagehost.sqlite3", LockManager(folder / "locks"))
    with catalog.transaction() as transaction:
        row = {"name": sys.argv[2], "created_at": 0}
        transaction.insert("accounts", row)
        print("writing")
        sys.stdin.readline()
    print("written")
    sys.stdin.readline()
"""
PATIENCE = 30


def names(asked: Database | Transaction) -> list[object]:
    return [row["name"] for row in asked.fetch_all("SELECT name FROM accounts ORDER BY name", {})]


def insert(catalog: Database, name: str) -> int:
    with catalog.transaction() as transaction:
        return transaction.insert("accounts", {"name": name, "created_at": 0})


def test_what_is_committed_survives_a_power_cut_by_the_settings_that_were_measured(catalog: Database) -> None:
    assert catalog.fetch_one("PRAGMA journal_mode", {}) == {"journal_mode": "wal"}
    assert catalog.fetch_one("PRAGMA synchronous", {}) == {"synchronous": 2}
    with catalog.transaction() as transaction:
        assert transaction.fetch_one("PRAGMA synchronous", {}) == {"synchronous": 2}
        assert transaction.fetch_one("PRAGMA foreign_keys", {}) == {"foreign_keys": 1}


def test_a_transaction_reads_its_own_writes_and_others_see_them_when_it_ends(catalog: Database) -> None:
    with catalog.transaction() as transaction:
        number = transaction.insert("accounts", {"name": "new", "created_at": 0})
        assert names(transaction) == ["new"]
        assert names(catalog) == []
    assert catalog.fetch_one("SELECT id FROM accounts WHERE name = :name", {"name": "new"}) == {"id": number}
    assert catalog.fetch_one("SELECT id FROM accounts WHERE name = :name", {"name": "other"}) is None


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_of_a_transaction_that_fails_has_happened_and_the_next_one_works(
    catalog: Database, error: type[BaseException]
) -> None:
    def fail() -> None:
        with catalog.transaction() as transaction:
            transaction.insert("accounts", {"name": "lost", "created_at": 0})
            raise error

    with pytest.raises(error):
        fail()
    assert names(catalog) == []
    insert(catalog, "kept")
    assert names(catalog) == ["kept"]


def test_a_mistake_of_ours_in_a_transaction_stays_what_it_is(catalog: Database) -> None:
    def fail() -> None:
        with catalog.transaction() as transaction:
            transaction.execute("DELETE FROM nowhere", {})

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        fail()


def test_a_statement_tells_how_many_rows_it_changed(catalog: Database) -> None:
    insert(catalog, "a")
    insert(catalog, "b")
    with catalog.transaction() as transaction:
        assert transaction.execute("UPDATE accounts SET created_at = :at", {"at": 1}) == 2
        assert transaction.execute("DELETE FROM accounts WHERE name = :name", {"name": "c"}) == 0


def test_a_read_cannot_write(catalog: Database) -> None:
    insert(catalog, "a")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        catalog.fetch_all("DELETE FROM accounts RETURNING id", {})
    assert names(catalog) == ["a"]


def test_a_read_that_fails_does_not_harm_the_next(catalog: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        catalog.fetch_all("SELECT * FROM nowhere", {})
    assert names(catalog) == []


def test_readers_do_not_wait_for_the_writer_of_another_process(
    catalog: Database, tmp_path: Path, program: Callable[..., Program]
) -> None:
    insert(catalog, "before")
    other = program(WRITE, tmp_path, "other")
    assert other.hear() == "writing"
    with ThreadPoolExecutor(4) as readers:
        reads = [readers.submit(names, catalog) for _ in range(40)]
        assert [read.result(PATIENCE) for read in reads] == [["before"]] * 40
    other.tell()
    assert other.hear() == "written"
    assert names(catalog) == ["before", "other"]


def test_a_writer_waits_for_that_of_another_process(
    catalog: Database, tmp_path: Path, program: Callable[..., Program]
) -> None:
    other = program(WRITE, tmp_path, "other")
    assert other.hear() == "writing"
    with ThreadPoolExecutor(1) as writers:
        ours = writers.submit(insert, catalog, "ours")
        assert names(catalog) == []
        assert not ours.done()
        other.tell()
        assert ours.result(PATIENCE) > 0
    assert names(catalog) == ["other", "ours"]


def test_a_writer_that_has_waited_too_long_is_503(tmp_path: Path, program: Callable[..., Program]) -> None:
    catalog = Database(tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks"), busy_timeout=0.05)
    other = program(WRITE, tmp_path, "other")
    assert other.hear() == "writing"
    with pytest.raises(UnavailableError, match="other processes are writing"):
        insert(catalog, "ours")
    other.kill()
    insert(catalog, "ours")
    assert names(catalog) == ["ours"]
    catalog.close()


def test_what_a_killed_process_had_not_committed_never_was(
    catalog: Database, tmp_path: Path, program: Callable[..., Program]
) -> None:
    committed = program(WRITE, tmp_path, "committed")
    assert committed.hear() == "writing"
    committed.tell()
    assert committed.hear() == "written"
    committed.kill()
    cut = program(WRITE, tmp_path, "cut")
    assert cut.hear() == "writing"
    cut.kill()
    assert names(catalog) == ["committed"]


def test_two_processes_may_open_a_fresh_folder_at_once(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    text = """
        import sys
        from pathlib import Path
        from imagehost_core.db import Database
        from imagehost_core.storage import LockManager
        print("ready")
        folders = [Path(line.strip()) for line in iter(sys.stdin.readline, "\\n")]
        for folder in folders:
            Database(folder / "imagehost.sqlite3", LockManager(folder / "locks")).close()
        print("done")
    """
    both = [program(text), program(text)]
    for other in both:
        assert other.hear() == "ready"
    folders = [tmp_path / f"{number}" for number in range(4)]
    for folder in folders:
        folder.mkdir()
        for other in both:
            other.tell(str(folder))
    for other in both:
        other.tell("")
    assert [other.hear() for other in both] == ["done", "done"]
    for folder in folders:
        catalog = Database(folder / "imagehost.sqlite3", LockManager(folder / "locks"))
        insert(catalog, "usable")
        assert names(catalog) == ["usable"]
        catalog.close()


def test_threads_that_come_and_go_leave_no_connections_behind(catalog: Database) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    names(catalog)
    before = descriptors()
    for _ in range(20):
        thread = threading.Thread(target=names, args=(catalog,))
        thread.start()
        thread.join()
    assert descriptors() <= before


def test_a_full_disk_is_507_and_when_there_is_room_again_writes_go_on(
    small_disk: Callable[..., Path],
) -> None:
    disk = small_disk()
    catalog = Database(disk / "imagehost.sqlite3", LockManager(disk / "locks"))
    insert(catalog, "before")
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)) == 4096:
            pass
    with pytest.raises(InsufficientStorageError, match="the disk"):
        insert(catalog, "x" * 2**16)
    assert names(catalog) == ["before"]
    ballast.unlink()
    insert(catalog, "after")
    assert names(catalog) == ["after", "before"]
    catalog.close()
