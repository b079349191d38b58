"""Results of reads in memory: as current as a read, also after commits of other processes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core import ImageHost
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database, ReadCache
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.errors import NotFoundError
from imagehost_core.testing import make_image

Opened = Callable[..., ImageHost]
NAMES = "SELECT name FROM accounts ORDER BY name"


def open_database(directory: Path) -> Database:
    return SqliteDatabase(directory / "imagehost.sqlite3", LockManager(directory / "locks"))


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Database]]:
    """Two connections to one file, as two processes have."""
    directory = tmp_path_factory.mktemp("database")
    with closing(open_database(directory)) as ours, closing(open_database(directory)) as other:
        yield ours, other


class Reader:
    """A read of all names, which counts how often the database was read."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.cache: ReadCache[str, list[object]] = ReadCache(database, 10, len)
        self.reads = 0

    def names(self) -> list[object]:
        return self.cache.get("names", self._read)

    def _read(self) -> list[object]:
        self.reads += 1
        return self.uncached()

    def uncached(self) -> list[object]:
        return [row["name"] for row in self.database.fetch_all(NAMES, {})]


def replace_names(database: Database, name: str) -> None:
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM accounts", {})
        transaction.insert("accounts", {"name": name, "signing_secret": b"", "created_at": 0})


def commit_by_another_program(directory: Path, name: str) -> None:
    """Commit without any code of the host, as the shell of SQLite does."""
    with closing(sqlite3.connect(directory / "imagehost.sqlite3")) as connection, connection:
        connection.execute("UPDATE accounts SET name = ?", (name,))


def roll_back(database: Database) -> None:
    with suppress(ZeroDivisionError), database.transaction() as transaction:
        transaction.execute("DELETE FROM accounts", {})
        raise ZeroDivisionError


def test_a_commit_of_another_program_is_seen_at_once(tmp_path: Path) -> None:
    with closing(open_database(tmp_path)) as database:
        replace_names(database, "before")
        reader = Reader(database)
        assert reader.names() == ["before"]
        commit_by_another_program(tmp_path, "after")
        assert reader.names() == ["after"]


@given(st.lists(st.sampled_from(["commit here", "commit elsewhere", "roll back", "read"]), max_size=12))
def test_a_result_in_memory_equals_one_that_is_read_now(
    databases: tuple[Database, Database], steps: list[str]
) -> None:
    ours, other = databases
    reader = Reader(ours)
    for number, step in enumerate(steps):
        if step == "commit here":
            replace_names(ours, f"ours {number}")
        elif step == "commit elsewhere":
            replace_names(other, f"other {number}")
        elif step == "roll back":
            roll_back(ours)
        assert reader.names() == reader.uncached()


def test_a_result_is_read_once_until_the_next_commit(databases: tuple[Database, Database]) -> None:
    ours, other = databases
    reader = Reader(ours)
    replace_names(ours, "first")
    assert [reader.names() for _ in range(3)] == [["first"]] * 3
    assert reader.reads == 1
    replace_names(other, "second")
    assert [reader.names() for _ in range(3)] == [["second"]] * 3
    assert reader.reads == 2


def test_a_commit_during_a_read_makes_its_result_outdated(databases: tuple[Database, Database]) -> None:
    ours, other = databases
    reader = Reader(ours)
    replace_names(ours, "before")

    def read_and_commit() -> list[object]:
        names = reader.uncached()
        replace_names(other, "after")
        return names

    assert reader.cache.get("names", read_and_commit) == ["before"]
    assert reader.names() == ["after"]


def test_an_error_is_not_kept(databases: tuple[Database, Database]) -> None:
    reader = Reader(databases[0])
    with pytest.raises(ZeroDivisionError):
        reader.cache.get("names", lambda: [1 / 0])
    assert reader.names() == reader.uncached()


def test_the_version_is_read_without_keeping_a_snapshot(databases: tuple[Database, Database]) -> None:
    ours, other = databases
    versions = [ours.version()]
    for number in range(3):
        replace_names(other, f"name {number}")
        assert ours.version() == ours.version()
        versions.append(ours.version())
    assert len(set(versions)) == len(versions)


def test_a_change_of_another_host_of_the_directory_is_in_records_and_lists_at_once(opened: Opened) -> None:
    host, other = opened(), opened()
    image = host.upload(make_image(4, 4), owner="admin", filename="cat.png")
    assert host.images.get(image, owner="admin") == image
    assert [each.id for each in host.gallery()] == [image.id]
    renamed = other.images.update(image, owner="admin", filename="dog.png", is_public=False)
    assert host.images.get(image, owner="admin") == renamed
    assert list(host.images.list(owner="admin")) == [renamed]
    assert list(host.gallery()) == []
    other.images.delete(image, owner="admin")
    with pytest.raises(NotFoundError):
        host.images.get(image, owner="admin")
    assert list(host.images.list(owner="admin")) == []
