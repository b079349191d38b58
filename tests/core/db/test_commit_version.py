"""The number of the last commit: exact, and read from SQLite only if something may have been committed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imagehost_core.db.engines.commit_version import RECHECK_SECONDS, CommitVersion
from imagehost_core.storage import LockManager

NOW = 1_000.0


class Opened:
    """A version of a file with one table, the statements that it has executed, and the time."""

    def __init__(self, path: Path, locks: LockManager) -> None:
        self.now, self.statements = NOW, list[str]()
        connection = sqlite3.connect(path, isolation_level=None)
        connection.set_trace_callback(self.statements.append)
        self.after_row: Callable[[], object] = lambda: None
        connection.row_factory = self._made_row
        self._version = CommitVersion(connection, locks, lambda: self.now)
        self._writer = sqlite3.connect(path, isolation_level=None)
        self.read, self.committing = self._version.read, self._version.committing

    def insert(self) -> None:
        """Commit a row without telling other processes."""
        self._writer.execute("INSERT INTO rows VALUES (1)")

    def _made_row(self, _: sqlite3.Cursor, row: tuple[object, ...]) -> tuple[object, ...]:
        self.after_row()
        return row

    def close(self) -> None:
        self._version.close()
        self._writer.close()


@pytest.fixture
def open_version(tmp_path: Path) -> Iterator[Callable[[], Opened]]:
    path, versions = tmp_path / "rows.sqlite3", list[Opened]()
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE rows (value INTEGER)")

    def opened() -> Opened:
        versions.append(Opened(path, LockManager(tmp_path / "locks")))
        return versions[-1]

    yield opened
    for version in versions:
        version.close()
    writer.close()


def test_sqlite_is_asked_once_between_two_commits(open_version: Callable[[], Opened]) -> None:
    version, other = open_version(), open_version()
    numbers = set()
    for commits in range(1, 4):
        with other.committing():
            other.insert()
        numbers |= {version.read() for _ in range(5)}
        assert len(numbers) == len(version.statements) == commits


def test_a_commit_is_seen_before_it_is_complete(open_version: Callable[[], Opened]) -> None:
    version, other = open_version(), open_version()
    before = version.read()
    with other.committing():
        # It may not be visible yet, so the number must not be remembered.
        assert version.read() == before
        other.insert()
        assert version.read() != before


def test_a_commit_while_the_number_is_read_is_seen_next_time(open_version: Callable[[], Opened]) -> None:
    version, other = open_version(), open_version()

    def commit() -> None:
        version.after_row = lambda: None
        with other.committing():
            other.insert()

    version.after_row = commit
    before = version.read()
    assert version.read() != before


def test_a_commit_that_fails_leaves_the_number(open_version: Callable[[], Opened]) -> None:
    version, other = open_version(), open_version()
    before = version.read()
    with pytest.raises(sqlite3.OperationalError), other.committing():
        raise sqlite3.OperationalError
    assert version.read() == before


def test_a_commit_of_another_program_is_seen_within_the_recheck_time(
    open_version: Callable[[], Opened],
) -> None:
    version, other = open_version(), open_version()
    before = version.read()
    other.insert()
    version.now += RECHECK_SECONDS
    assert version.read() != before
