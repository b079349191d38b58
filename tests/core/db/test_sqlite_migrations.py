"""The migration of SQLite files, and when it needs sqlite-utils."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from imagehost_core import ImageHost
from imagehost_core.db.engines.sqlite_database import applied_migrations, migrate
from imagehost_core.db.schema import sqlite_migrations

OPEN = """
import sys
from imagehost_core import ImageHost
with ImageHost.open(sys.argv[1]) as host:
    host.accounts.list()
print("sqlite_utils" in sys.modules)
"""


def test_a_file_gets_each_migration_once_and_keeps_those_of_newer_versions(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "file")) as connection:
        assert applied_migrations(connection) == set()
        migrate(connection, tmp_path / "file")
        connection.execute("INSERT INTO _sqlite_migrations VALUES (99, 'imagehost', 'newer', '')")
        connection.commit()
        for _ in range(2):
            migrate(connection, tmp_path / "file")
            assert applied_migrations(connection) == {*sqlite_migrations, "newer"}


def test_only_the_process_that_migrates_a_file_imports_sqlite_utils(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN, str(tmp_path)]
    outputs = [subprocess.run(command, capture_output=True, check=True, text=True).stdout for _ in range(2)]
    assert [output.strip() for output in outputs] == ["True", "False"]
    with ImageHost.open(tmp_path) as host:
        assert list(host.check()) == []
