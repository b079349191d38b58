"""Migrations to PostgreSQL and an object store, and back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.core.services.conftest import ONE_WORKER
from tests.core.services.furnished_host import LARGE, furnish
from tests.core.services.test_migration import KILL, at, content
from tests.object_store import S3Server
from tests.postgres import PostgresServer

from imagehost_core import (
    ConflictError,
    ImageFilter,
    ImageHost,
    PageRequest,
    UnavailableError,
    ValidationError,
)
from imagehost_core.services.migration import MigrationProgress, MigrationStage, migrate
from imagehost_core.settings import Settings, StorageSettings
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from tests.core.conftest import Program

pytestmark = pytest.mark.external


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory, samples: Mapping[str, bytes]) -> Path:
    """Return a data directory with rows in every table, and images of every kind."""
    data = tmp_path_factory.mktemp("furnished") / "data"
    with ImageHost.open(data, settings=ONE_WORKER) as host:
        furnish(host, lambda host: host._context, samples)
    return data


@pytest.fixture
def source(furnished: Path, tmp_path: Path) -> Path:
    """Return a copy of that data directory."""
    return Path(shutil.copytree(furnished, tmp_path / "source"))


def shared_settings(database: str, storage: str = "folder") -> Settings:
    return Settings(database=database, storage=StorageSettings(url=storage), rendering=ONE_WORKER.rendering)


def test_a_host_that_was_migrated_there_and_back_is_the_same(
    source: Path, postgres_url: str, s3_server: S3Server, tmp_path: Path
) -> None:
    expected, bucket = content(source), s3_server.url()
    there = migrate(at(source), at(postgres_url, bucket))
    assert (there.damaged, there.incomplete) == ((), ())
    back = migrate(at(postgres_url, bucket), at(tmp_path / "back"))
    assert back.row_count == there.row_count
    assert content(tmp_path / "back") == expected
    with ImageHost.open(tmp_path / "back", settings=ONE_WORKER) as host:
        assert list(host.check()) == []


def test_a_host_on_postgres_and_an_object_store_is_sound_and_signs_as_the_source(
    source: Path, postgres_url: str, s3_server: S3Server, tmp_path: Path
) -> None:
    with ImageHost.open(source, settings=ONE_WORKER) as host:
        image = host.upload(LARGE, owner="admin", is_public=False, filename="café au lait.png")
        url = host.images.signed_url(image.id, "w=20")
        token = host.keys.create(owner="admin").token
    bucket = s3_server.url()
    migrate(at(source), at(postgres_url, bucket))
    with ImageHost.open(tmp_path / "scratch", settings=shared_settings(postgres_url, bucket)) as host:
        assert list(host.check()) == []
        path, _, query = url.rpartition("/")[2].partition("?")
        assert host.delivery.resolve(path, query).image.id == image.id
        assert host.authenticate(token).account.name == "admin"
        found = host.images.list(owner="admin", filters=ImageFilter(q="café lait"))
        assert [each.id for each in found] == [image.id]
        new = host.upload(make_image(40, 30), owner="admin")
        assert host.render(new.id, "w=20").width == 20
        assert host.accounts.create("third").id == 5


def test_files_stay_where_they_are_if_only_the_database_moves(
    source: Path, postgres_url: str, tmp_path: Path
) -> None:
    result = migrate(at(source), at(source, postgres_url))
    assert (result.copied, result.present) == (0, 0)
    with ImageHost.open(source, settings=shared_settings(postgres_url)) as host:
        assert list(host.check()) == []
        host.upload(LARGE, owner="admin")
    with pytest.raises(ConflictError, match="was migrated to postgresql://"):
        ImageHost.open(source, settings=ONE_WORKER)


def test_the_cleanup_of_a_migrated_host_removes_no_files_that_the_new_host_has_too(
    source: Path, postgres_server: PostgresServer
) -> None:
    with postgres_server.empty_database() as first, postgres_server.empty_database() as second:
        with ImageHost.open(source, settings=ONE_WORKER) as old:
            migrate(at(source), at(source, first))
            with ImageHost.open(source, settings=shared_settings(first)) as new:
                image = new.upload(make_image(40, 30), owner="admin")
                assert collect_orphans(old) == ()
                assert new.render(image.id).data
        with ImageHost.open(source, settings=shared_settings(first)) as old:
            migrate(at(source, first), at(source, second))
            with ImageHost.open(source, settings=shared_settings(second)) as new:
                image = new.upload(make_image(40, 31), owner="admin")
                assert collect_orphans(old) == ()
                assert new.render(image.id).data


def collect_orphans(host: ImageHost) -> tuple[str, ...]:
    """Remove files without a record, as after the crash of a process."""
    host._context.staging.mark_incomplete("crashed")
    return host.maintenance.cleanup()


def test_a_migration_to_postgres_that_is_killed_anywhere_can_be_repeated(
    tmp_path: Path, postgres_server: PostgresServer, program: Callable[..., Program]
) -> None:
    original = tmp_path / "original"
    with ImageHost.open(original, settings=ONE_WORKER) as host:
        host.upload(LARGE, owner="admin")
    expected = content(original)
    kills = program(KILL, tmp_path)
    outcomes = set()
    number, outcome = 0, "died"
    while outcome == "died":
        number += 1
        source, back = tmp_path / "source", tmp_path / "back"
        shutil.copytree(original, source)
        with postgres_server.empty_database() as url:
            kills.write_line(f"{number} {source} {url} {source}")
            outcome = kills.read_line()
            is_migrated = (source / "migrated").exists()
            with psycopg.connect(url) as connection:
                query = (
                    "SELECT to_regclass('images') IS NOT NULL AND to_regclass('unfinished_migration') IS NULL"
                )
                row = connection.execute(query).fetchone()
            assert row is not None
            outcomes.add((is_migrated, row[0]))
            migrate(at(source), at(source, url))
            migrate(at(url, source), at(back))
            assert content(back) == expected
        shutil.rmtree(source)
        shutil.rmtree(back)
    assert (True, False) in outcomes
    assert (True, True) in outcomes
    assert number > 10


def test_a_migration_to_an_object_store_continues_after_each_of_several_kills(
    source: Path,
    tmp_path: Path,
    postgres_url: str,
    s3_server: S3Server,
    program: Callable[..., Program],
) -> None:
    expected, bucket = content(source), s3_server.url()
    kills = program(KILL, tmp_path)
    number, outcome = 3, "died"
    while outcome == "died":
        # The files of the first events are verified in the object store, so each attempt comes further.
        number += 8
        kills.write_line(f"{number} {source} {postgres_url} {bucket}")
        outcome = kills.read_line()
    assert number > 20
    migrate(at(postgres_url, bucket), at(tmp_path / "back"))
    assert content(tmp_path / "back") == expected


def test_hosts_on_postgres_refuse_changes_after_a_migration_and_reading_goes_on(
    postgres_url: str, tmp_path: Path
) -> None:
    settings = shared_settings(postgres_url)
    with ImageHost.open(tmp_path / "data", settings=settings) as host:
        image = host.upload(make_image(40, 30), owner="admin")
        migrate(at(postgres_url, tmp_path / "data"), at(tmp_path / "target"))
        with pytest.raises(UnavailableError):
            host.images.delete(image.id)
        with pytest.raises(UnavailableError):
            host.upload(make_image(40, 31), owner="admin")
        assert host.images.get(image.id) == image
    with pytest.raises(ConflictError, match=f"was migrated to {tmp_path}/target"):
        ImageHost.open(tmp_path / "data", settings=settings)
    with ImageHost.open(tmp_path / "target", settings=ONE_WORKER) as host:
        assert host.images.get(image.id) == image


def test_a_host_on_postgres_is_used_again_after_its_marks_are_dropped(
    postgres_url: str, tmp_path: Path
) -> None:
    settings = shared_settings(postgres_url)
    with ImageHost.open(tmp_path / "data", settings=settings) as host:
        image = host.upload(make_image(40, 30), owner="admin")
    migrate(at(postgres_url, tmp_path / "data"), at(tmp_path / "target"))
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP TABLE migrated_to")
        connection.execute("DROP FUNCTION refuse_migrated CASCADE")
    with ImageHost.open(tmp_path / "data", settings=settings) as host:
        host.images.delete(image.id)


def test_an_interrupted_migration_to_postgres_and_an_object_store_is_continued(
    source: Path, postgres_url: str, s3_server: S3Server, tmp_path: Path
) -> None:
    bucket = s3_server.url()

    class InterruptError(Exception):
        pass

    def interrupt_at(stage: MigrationStage, done: int) -> Callable[[MigrationProgress], None]:
        def interrupt(progress: MigrationProgress) -> None:
            if progress.stage is stage and progress.done >= done:
                raise InterruptError

        return interrupt

    for progress in (interrupt_at(MigrationStage.FILES, 4), interrupt_at(MigrationStage.RECORDS, 60)):
        with pytest.raises(InterruptError):
            migrate(at(source), at(postgres_url, bucket), progress=progress, threads=2)
        with pytest.raises(ConflictError, match="in progress or was interrupted"):
            ImageHost.open(tmp_path / "scratch", settings=shared_settings(postgres_url, bucket))
        with ImageHost.open(source, settings=ONE_WORKER) as host:
            host.images.delete(next(host.images.iter(owner="admin")))
    result = migrate(at(source), at(postgres_url, bucket))
    assert result.present >= 4
    expected = content(source)
    migrate(at(postgres_url, bucket), at(tmp_path / "back"))
    assert content(tmp_path / "back") == expected


def test_a_database_or_bucket_that_is_not_empty_is_refused(
    source: Path, postgres_server: PostgresServer, s3_server: S3Server, tmp_path: Path
) -> None:
    bucket = s3_server.url()
    with postgres_server.empty_database() as used, postgres_server.empty_database() as unused:
        with ImageHost.open(tmp_path / "data", settings=shared_settings(used, bucket)) as host:
            host.upload(make_image(40, 30), owner="admin")
        with pytest.raises(ConflictError, match="has accounts or images"):
            migrate(at(source), at(used, s3_server.url()))
        with pytest.raises(ConflictError, match="has files of images"):
            migrate(at(source), at(unused, bucket))
    with ImageHost.open(source, settings=ONE_WORKER) as host:
        host.upload(make_image(40, 30), owner="admin")


def test_a_database_without_a_host_is_no_source(postgres_url: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="no key of signed URLs"):
        migrate(at(postgres_url, tmp_path / "data"), at(tmp_path / "target"))
    assert not (tmp_path / "target").exists()


def test_writes_of_a_running_host_are_migrated_from_postgres_or_refused(
    postgres_url: str, tmp_path: Path
) -> None:
    acknowledged, refused = set[int](), list[UnavailableError]()
    started = Event()
    with ImageHost.open(tmp_path / "data", settings=shared_settings(postgres_url)) as host:

        def write(name: str) -> None:
            while not refused:
                try:
                    acknowledged.add(host.albums.create(owner="admin", name=name).id)
                    started.set()
                except UnavailableError as error:
                    refused.append(error)

        with ThreadPoolExecutor(3) as threads:
            writers = [threads.submit(write, f"writer {number}") for number in range(3)]
            started.wait(30)
            migrate(at(postgres_url, tmp_path / "data"), at(tmp_path / "target"))
            for writer in writers:
                writer.result()
    with ImageHost.open(tmp_path / "target", settings=ONE_WORKER) as host:
        page = host.albums.list(owner="admin", page=PageRequest(per_page=100))
        assert page.total == len(acknowledged)
