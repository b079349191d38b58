"""Backups of hosts on PostgreSQL and an object store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from imagehost_core import ImageHost
from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.maintenance.snapshot import Snapshot
from imagehost_core.settings import Settings

pytestmark = pytest.mark.external


def test_a_copy_of_a_database_on_postgres_is_of_one_instant(tmp_path: Path, postgres_url: str) -> None:
    stop = Event()
    with ImageHost.open(tmp_path / "data", settings=Settings(database=postgres_url)) as host:

        def write() -> None:
            while not stop.is_set():
                host.albums.create(owner="admin", name="album")

        with ThreadPoolExecutor(2) as threads:
            writers = [threads.submit(write) for _ in range(2)]
            try:
                with closing(PostgresDatabase(postgres_url)) as database:
                    for number in range(5):
                        copy = tmp_path / f"copy-{number}"
                        database.copy_to(copy)
                        assert_counts_are_right(copy)
            finally:
                stop.set()
            for writer in writers:
                writer.result()


def assert_counts_are_right(copy: Path) -> None:
    """Assert that the counter of an account, which is copied first, is that of the albums."""
    with closing(Snapshot(copy)) as snapshot:
        sql = "SELECT album_count, (SELECT count(*) FROM albums) AS albums FROM accounts"
        [row] = snapshot._connection.execute(sql).fetchall()
    assert row[0] == row[1]
