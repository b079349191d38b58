"""Backups of hosts on PostgreSQL and an object store."""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from tests.core.services.conftest import ONE_WORKER
from tests.core.services.furnished_host import furnish
from tests.core.services.test_migration import at, content
from tests.object_store import S3Server

from imagehost_core import ImageHost, migrate, restore
from imagehost_core.db.postgres_database import PostgresDatabase
from imagehost_core.db.snapshot import Snapshot
from imagehost_core.settings import Settings, StorageSettings

pytestmark = pytest.mark.external


def test_a_backup_of_postgres_and_an_object_store_restores_the_host(
    tmp_path: Path, samples: Mapping[str, bytes], postgres_url: str, s3_server: S3Server
) -> None:
    source, data, bucket = tmp_path / "source", tmp_path / "data", s3_server.url()
    with ImageHost.open(source, settings=ONE_WORKER) as host:
        furnish(host, lambda host: host._context, samples)
    migrate(at(source), at(postgres_url, bucket))
    settings = Settings(
        database=postgres_url, storage=StorageSettings(url=bucket), rendering=ONE_WORKER.rendering
    )
    stream = io.BytesIO()
    with ImageHost.open(data, settings=settings) as host:
        result = host.backups.write(stream)
        assert (result.deleted, result.damaged) == ((), ())
    stream.seek(0)
    restore([stream], tmp_path / "restored")
    # What a restore ends.
    ended = {"sessions", "tombstones", "webhook_deliveries"}
    expected = {name: value for name, value in content(source).items() if name not in ended}
    restored = content(tmp_path / "restored")
    assert {name: value for name, value in restored.items() if name not in ended} == expected
    with ImageHost.open(tmp_path / "restored", settings=ONE_WORKER) as host:
        assert list(host.check()) == []
    shutil.rmtree(data)


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
