"""The SQLite engine: commits are durable, readers never wait, writers queue."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.waiting import PATIENCE

from imagehost_core import InternalError
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database, Queryable
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.errors import InsufficientStorageError, UnavailableError

if TYPE_CHECKING:
    from tests.programs import Program

WRITE = """
    import sys
    from pathlib import Path
    from imagehost_core.db.engines.sqlite_database import SqliteDatabase
    from imagehost_core.coordination.locks import LockManager
    directory = Path(sys.argv[1])
    database = SqliteDatabase(directory / "imagehost.sqlite3", LockManager(directory / "locks"))
    with database.transaction() as transaction:
        row = {"name": sys.argv[2], "signing_secret": b"", "created_at": 0}
        transaction.insert("accounts", row)
        print("writing")
        sys.stdin.readline()
    print("committed")
    sys.stdin.readline()
"""


def names(reader: Queryable) -> list[object]:
    return [row["name"] for row in reader.fetch_all("SELECT name FROM accounts ORDER BY name", {})]


def insert(database: Database, name: str) -> int:
    with database.transaction() as transaction:
        return transaction.insert_numbered(
            "accounts", {"name": name, "signing_secret": b"", "created_at": 0}, "id"
        )


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty SQLite database."""
    with closing(SqliteDatabase(tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks"))) as database:
        yield database


def test_commits_are_synced_to_the_write_ahead_log(database: Database) -> None:
    assert database.fetch_one("PRAGMA journal_mode", {}) == {"journal_mode": "wal"}
    assert database.fetch_one("PRAGMA synchronous", {}) == {"synchronous": 2}
    with database.transaction() as transaction:
        assert transaction.fetch_one("PRAGMA synchronous", {}) == {"synchronous": 2}
        assert transaction.fetch_one("PRAGMA foreign_keys", {}) == {"foreign_keys": 1}


def test_a_transaction_reads_its_own_writes_and_readers_see_them_after_the_commit(database: Database) -> None:
    with database.transaction() as transaction:
        number = transaction.insert_numbered(
            "accounts", {"name": "new", "signing_secret": b"", "created_at": 0}, "id"
        )
        assert names(transaction) == ["new"]
        assert names(database) == []
    assert database.fetch_one("SELECT id FROM accounts WHERE name = :name", {"name": "new"}) == {"id": number}
    assert database.fetch_one("SELECT id FROM accounts WHERE name = :name", {"name": "other"}) is None


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_transaction_is_rolled_back_and_the_next_one_works(
    database: Database, error: type[BaseException]
) -> None:
    def fail() -> None:
        with database.transaction() as transaction:
            transaction.insert("accounts", {"name": "rolled back", "signing_secret": b"", "created_at": 0})
            raise error

    with pytest.raises(error):
        fail()
    assert names(database) == []
    insert(database, "committed")
    assert names(database) == ["committed"]


def test_callbacks_of_a_transaction_run_once_it_is_durable_and_not_if_it_is_rolled_back(
    database: Database,
) -> None:
    seen: list[list[object]] = []

    def read_and_write() -> None:
        seen.append(names(database))
        insert(database, f"after {len(seen)}")

    with database.transaction() as transaction:
        transaction.on_commit(read_and_write)
        transaction.insert("accounts", {"name": "a", "signing_secret": b"", "created_at": 0})
        assert seen == []
    assert seen == [["a"]]

    def fail() -> None:
        with database.transaction() as transaction:
            transaction.on_commit(read_and_write)
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        fail()
    insert(database, "b")
    assert seen == [["a"]]


def test_an_invalid_statement_in_a_transaction_raises_the_error_of_sqlite(database: Database) -> None:
    def fail() -> None:
        with database.transaction() as transaction:
            transaction.execute("DELETE FROM missing", {})

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        fail()


def test_execute_returns_the_number_of_changed_rows(database: Database) -> None:
    insert(database, "a")
    insert(database, "b")
    with database.transaction() as transaction:
        assert transaction.execute("UPDATE accounts SET created_at = :at", {"at": 1}) == 2
        assert transaction.execute("DELETE FROM accounts WHERE name = :name", {"name": "c"}) == 0


def test_a_read_cannot_write(database: Database) -> None:
    insert(database, "a")
    with pytest.raises(InternalError, match="readonly"):
        database.fetch_all("DELETE FROM accounts RETURNING id", {})
    assert names(database) == ["a"]


def test_a_failed_read_does_not_affect_the_next(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        database.fetch_all("SELECT * FROM missing", {})
    assert names(database) == []


def test_readers_do_not_wait_for_a_writer_in_another_process(
    database: Database, tmp_path: Path, program: Callable[..., Program]
) -> None:
    insert(database, "before")
    other = program(WRITE, tmp_path, "other")
    assert other.read_line() == "writing"
    with ThreadPoolExecutor(4) as executor:
        reads = [executor.submit(names, database) for _ in range(40)]
        assert [read.result(PATIENCE) for read in reads] == [["before"]] * 40
    other.write_line()
    assert other.read_line() == "committed"
    assert names(database) == ["before", "other"]


def test_a_writer_waits_for_a_writer_in_another_process(
    database: Database, tmp_path: Path, program: Callable[..., Program]
) -> None:
    other = program(WRITE, tmp_path, "other")
    assert other.read_line() == "writing"
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(insert, database, "ours")
        assert names(database) == []
        assert not future.done()
        other.write_line()
        assert future.result(PATIENCE) > 0
    assert names(database) == ["other", "ours"]


def test_a_writer_that_exceeds_the_busy_timeout_is_503(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    database = SqliteDatabase(
        tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks"), busy_timeout=0.05
    )
    other = program(WRITE, tmp_path, "other")
    assert other.read_line() == "writing"
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(insert, database, "ours")
        try:
            with pytest.raises(UnavailableError, match="other processes are writing"):
                waiting.result(PATIENCE)
        finally:
            other.kill()
    insert(database, "ours")
    assert names(database) == ["ours"]
    database.close()


def test_an_uncommitted_transaction_of_a_killed_process_is_rolled_back(
    database: Database, tmp_path: Path, program: Callable[..., Program]
) -> None:
    committed = program(WRITE, tmp_path, "committed")
    assert committed.read_line() == "writing"
    committed.write_line()
    assert committed.read_line() == "committed"
    committed.kill()
    killed = program(WRITE, tmp_path, "killed")
    assert killed.read_line() == "writing"
    killed.kill()
    assert names(database) == ["committed"]


def test_two_processes_can_create_the_same_database_at_once(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    text = """
        import sys
        from pathlib import Path
        from imagehost_core.db.engines.sqlite_database import SqliteDatabase
        from imagehost_core.coordination.locks import LockManager
        print("ready")
        directories = [Path(line.strip()) for line in iter(sys.stdin.readline, "\\n")]
        for directory in directories:
            SqliteDatabase(directory / "imagehost.sqlite3", LockManager(directory / "locks")).close()
        print("done")
    """
    programs = [program(text), program(text)]
    for other in programs:
        assert other.read_line() == "ready"
    directories = [tmp_path / f"{number}" for number in range(4)]
    for directory in directories:
        directory.mkdir()
        for other in programs:
            other.write_line(str(directory))
    for other in programs:
        other.write_line("")
    assert [other.read_line() for other in programs] == ["done", "done"]
    for directory in directories:
        database = SqliteDatabase(directory / "imagehost.sqlite3", LockManager(directory / "locks"))
        insert(database, "usable")
        assert names(database) == ["usable"]
        database.close()


def test_threads_that_end_leave_no_connections_open(database: Database) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    names(database)
    before = descriptors()
    for _ in range(20):
        thread = threading.Thread(target=names, args=(database,))
        thread.start()
        thread.join()
    assert descriptors() <= before


def test_a_full_disk_is_507_and_writes_succeed_when_space_is_freed(
    small_disk: Callable[..., Path],
) -> None:
    disk = small_disk()
    database = SqliteDatabase(disk / "imagehost.sqlite3", LockManager(disk / "locks"))
    insert(database, "before")
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)) == 4096:
            pass
    with pytest.raises(InsufficientStorageError, match="the disk"):
        insert(database, "x" * 2**16)
    assert names(database) == ["before"]
    ballast.unlink()
    insert(database, "after")
    assert names(database) == ["after", "before"]
    database.close()
