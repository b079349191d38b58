"""Installations, and moves between engines, on PostgreSQL and an object store."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import attrs
import psycopg
import pytest
from tests.core.services.conftest import ONE_WORKER
from tests.core.services.furnished_host import furnish
from tests.core.services.host_content import content
from tests.core.services.orphans import store_orphan
from tests.core.test_installation import OPENED
from tests.object_store import S3Server, open_url
from tests.postgres import PostgresServer

from imagehost_core import ConflictError, ImageHost, UnavailableError, restore
from imagehost_core.installation import RECORD_NAME, InstallationRecord, RecordState, parse_record
from imagehost_core.maintenance.installation import adopt
from imagehost_core.settings import Settings, StorageSettings
from imagehost_core.testing import DEFAULT_NOW, make_image

pytestmark = pytest.mark.external

PNG = make_image(40, 30)
ENDED = {"sessions", "tombstones", "webhook_deliveries"}
"""The tables that a restore changes."""


def settings_of(database: str, storage: str) -> Settings:
    return Settings(
        base_url="https://img.example/v1",
        database=database,
        storage=StorageSettings(url=storage),
        rendering=ONE_WORKER.rendering,
    )


@pytest.fixture
def other_database(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.empty_database() as url:
        yield url


def objects(url: str) -> dict[str, bytes]:
    """Return the objects of a store of images."""
    store = open_url(url)
    return {
        entry["path"]: bytes(store.get(entry["path"]).bytes())
        for page in store.list()
        for entry in page
        if entry["path"] != "probe"
    }


def write_object_record(url: str, record: InstallationRecord | None) -> None:
    store = open_url(url)
    if record is None:
        store.delete([RECORD_NAME])
    else:
        store.put(RECORD_NAME, record.to_json().encode())


def write_database_record(url: str, record: InstallationRecord | None) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM installation")
        if record is not None:
            connection.execute("INSERT INTO installation VALUES (1, %s)", [record.to_json()])


def test_no_combination_of_what_belongs_to_several_hosts_is_opened_or_loses_an_image(
    postgres_url: str, other_database: str, s3_server: S3Server, tmp_path: Path
) -> None:
    used, empty, data = s3_server.url(), s3_server.url(), tmp_path / "data"
    with ImageHost.open(tmp_path / "first", settings=settings_of(postgres_url, used)) as host:
        image = host.upload(PNG, owner="admin")
        own = host._context.installation.record
    records = {
        "own": own,
        "older": own.begin(DEFAULT_NOW),
        "foreign": InstallationRecord(created_at=DEFAULT_NOW),
        "newer": attrs.evolve(own, format=99, writer="9.0.0"),
        "restoring": own.with_state(RecordState.RESTORING),
        "creating": own.with_state(RecordState.CREATING),
    }
    combinations = set(
        product(
            ("empty", "own", "older"),
            ("own", "foreign", "newer", "creating", "unrecorded"),
            ("empty", "own", "foreign", "restoring", "unrecorded"),
        )
    ) | {("empty", "empty", "own"), ("own", "empty", "unrecorded")}
    for states in sorted(combinations):
        directory, database, store = states
        data.mkdir()
        if directory != "empty":
            (data / RECORD_NAME).write_text(records[directory].to_json())
        write_database_record(postgres_url, records.get(database))
        write_object_record(used, records.get(store))
        write_object_record(empty, None)
        database_url = other_database if database == "empty" else postgres_url
        settings = settings_of(database_url, empty if store == "empty" else used)
        before = {name for name in objects(used) if name.startswith("images/")}
        if states in OPENED:
            with ImageHost.open(data, settings=settings) as host:
                host.maintenance.collect_garbage()
        else:
            with pytest.raises(ConflictError):
                ImageHost.open(data, settings=settings)
        assert before <= set(objects(used)), states
        shutil.rmtree(data)
    assert any(image.id in name for name in before)


def test_a_new_host_on_an_empty_database_and_a_used_prefix_deletes_nothing(
    postgres_url: str, other_database: str, s3_server: S3Server, tmp_path: Path
) -> None:
    used = s3_server.url()
    with ImageHost.open(tmp_path / "first", settings=settings_of(postgres_url, used)) as host:
        host.upload(PNG, owner="admin")
    before = objects(used)
    with pytest.raises(ConflictError, match="it is empty; check IMAGEHOST_DATABASE"):
        ImageHost.open(tmp_path / "second", settings=settings_of(other_database, used))
    with pytest.raises(ConflictError, match="it is empty; check IMAGEHOST_STORAGE"):
        ImageHost.open(tmp_path / "second", settings=settings_of(postgres_url, s3_server.url()))
    assert objects(used) == before
    # An empty directory joins, and has its record from then on.
    with ImageHost.open(tmp_path / "second", settings=settings_of(postgres_url, used)) as host:
        assert len(list(host.images.iter(owner="admin"))) == 1
    assert parse_record((tmp_path / "second" / RECORD_NAME).read_bytes(), "") == parse_record(
        before[RECORD_NAME], ""
    )


def test_a_host_whose_store_is_another_while_it_runs_collects_nothing(
    postgres_url: str, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imagehost_core.cluster.object.object_blob_store.UPLOAD_GRACE_SECONDS", 0)
    used = s3_server.url()
    with ImageHost.open(tmp_path / "first", settings=settings_of(postgres_url, used)) as host:
        store_orphan(host._context)
        write_object_record(used, host._context.installation.record.begin(DEFAULT_NOW))
        host._context.files.staging.mark_incomplete("crashed")
        before = objects(used)
        assert host.maintenance.cleanup() == ()
        with pytest.raises(ConflictError, match="nothing is collected"):
            host.maintenance.collect_garbage()
        assert objects(used) == before


def test_a_host_moves_to_postgres_and_an_object_store_and_back(
    postgres_url: str, s3_server: S3Server, tmp_path: Path, samples: Mapping[str, bytes]
) -> None:
    source, bucket, there = tmp_path / "source", s3_server.url(), io.BytesIO()
    with ImageHost.open(source, settings=ONE_WORKER) as host:
        furnish(host, lambda host: host._context, samples)
        private = host.upload(PNG, owner="admin", is_public=False)
        url = host.images.signed_url(private.id, "w=20")
        token = host.keys.create(owner="admin").token
        host.backups.write(there, move=True)
    expected = content(source)
    there.seek(0)
    settings = settings_of(postgres_url, bucket)
    restore([there], tmp_path / "new", settings=settings)
    assert not (tmp_path / "new" / "imagehost.sqlite3").exists()
    back = io.BytesIO()
    with ImageHost.open(tmp_path / "new", settings=settings) as host:
        assert list(host.check()) == []
        path, _, query = url.url.rpartition("/")[2].partition("?")
        assert host.delivery.resolve(path, query).image.id == private.id
        host.backups.write(back, move=True)
        with pytest.raises(UnavailableError):
            host.upload(PNG, owner="admin")
        with pytest.raises(UnavailableError):
            host.images.delete(private.id)
        assert host.render(private.id, "w=20").width == 20
    with pytest.raises(ConflictError, match="take the move back with `imagehost adopt`"):
        ImageHost.open(tmp_path / "new", settings=settings)
    back.seek(0)
    restore([back], tmp_path / "back")
    restored = content(tmp_path / "back")
    assert {name: value for name, value in restored.items() if name not in ENDED} == {
        name: value for name, value in expected.items() if name not in ENDED
    }
    with ImageHost.open(tmp_path / "back", settings=ONE_WORKER) as host:
        assert host.authenticate(token).account.name == "admin"
    adopt(tmp_path / "new", settings=settings)
    with ImageHost.open(tmp_path / "new", settings=settings) as host:
        host.images.delete(private.id)


def test_records_move_to_postgres_and_the_images_stay_in_their_store(
    postgres_url: str, s3_server: S3Server, tmp_path: Path
) -> None:
    bucket, stream = s3_server.url(), io.BytesIO()
    with ImageHost.open(tmp_path / "old", settings=settings_of("sqlite", bucket)) as old:
        image = old.upload(PNG, owner="admin")
        old.backups.write(stream, records_only=True, move=True)
        stream.seek(0)
        settings = settings_of(postgres_url, bucket)
        restore([stream], tmp_path / "new", settings=settings, records_only=True)
        with ImageHost.open(tmp_path / "new", settings=settings) as new:
            assert new.render(image.id).data
            new.upload(make_image(40, 31), owner="admin")
            with pytest.raises(ConflictError, match="nothing is collected"):
                old.maintenance.collect_garbage()
            assert list(new.check()) == []


def test_a_database_that_has_a_host_is_not_restored_into(
    postgres_url: str, s3_server: S3Server, tmp_path: Path
) -> None:
    settings, stream = settings_of(postgres_url, s3_server.url()), io.BytesIO()
    with ImageHost.open(tmp_path / "data", settings=settings) as host:
        host.upload(PNG, owner="admin")
        host.backups.write(stream)
    stream.seek(0)
    bucket = s3_server.url()
    with pytest.raises(ConflictError, match="expected no records in postgresql://"):
        restore([stream], tmp_path / "new", settings=settings_of(postgres_url, bucket))
    assert objects(bucket) == {}
    assert not (tmp_path / "new").exists()
