"""Migrations: what the new host has, what the old one refuses, and what an interrupted one leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from tests.core.services.conftest import ONE_WORKER
from tests.core.services.furnished_host import LARGE, furnish

from imagehost_core import ConflictError, FindingKind, ImageHost, UnavailableError, ValidationError
from imagehost_core.db import Database, SqliteDatabase
from imagehost_core.db.database import SqlValue
from imagehost_core.db.table_copy import copied_tables
from imagehost_core.services.migration import (
    HostLocation,
    MigrationProgress,
    MigrationStage,
    migrate,
    parse_host_location,
)
from imagehost_core.storage import DataLayout, LockManager
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from tests.core.conftest import Program

Content = dict[str, object]
"""Everything that two equal hosts have in common: rows by their table, files by their path, the secret."""


def at(*parts: object) -> HostLocation:
    return parse_host_location(map(str, parts), "the location")


def rows_of(database: Database) -> dict[str, list[tuple[SqlValue, ...]]]:
    """Return all rows, but for the sender slots of leases, which are released."""
    rows: dict[str, list[tuple[SqlValue, ...]]] = {}
    for table in copied_tables():
        hidden = {"leased_by"} if table.name == "webhook_deliveries" else set()
        rows[table.name] = [
            tuple(value for name, value in zip(table.columns, values, strict=True) if name not in hidden)
            for batch in table.batches(database)
            for values in batch
        ]
    return rows


def content(data: Path) -> Content:
    """Return the content of a data directory that no host has open."""
    layout = DataLayout(data)
    with TemporaryDirectory() as directory:
        for path in data.glob(f"{layout.database.name}*"):
            # With the write-ahead log of a process that was killed.
            shutil.copy(path, directory)
        copy = Path(directory, layout.database.name)
        with closing(SqliteDatabase(copy, LockManager(Path(directory, "locks")))) as database:
            rows = rows_of(database)
    files = {
        str(path.relative_to(data)): path.read_bytes() for path in layout.images.rglob("*") if path.is_file()
    }
    return {**rows, "files": files, "secret": layout.secret.read_bytes()}


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


@contextmanager
def opened(data: Path) -> Iterator[ImageHost]:
    with ImageHost.open(data, settings=ONE_WORKER) as host:
        yield host


def test_the_furnished_host_has_rows_in_every_table(furnished: Path) -> None:
    empty = {name for name, rows in content(furnished).items() if not rows}
    assert empty <= {"list_buckets", "bucket_versions"}


def test_a_migrated_host_has_all_rows_and_files_of_the_source(source: Path, tmp_path: Path) -> None:
    expected, target = content(source), tmp_path / "target"
    result = migrate(at(source), at(target))
    assert content(target) == expected
    assert (result.damaged, result.incomplete, result.present) == ((), (), 0)
    assert result.copied == result.image_count
    assert len(list((target / "images").rglob("master"))) == result.image_count
    with opened(target) as host:
        # The tombstone of the furnished host.
        assert [finding.kind for finding in host.check()] == []


def test_signed_urls_and_tokens_of_the_source_are_valid_on_the_new_host(tmp_path: Path) -> None:
    with opened(tmp_path / "source") as host:
        image = host.upload(make_image(40, 30), owner="admin", is_public=False)
        url = host.images.signed_url(image.id, "w=20")
        token = host.keys.create(owner="admin").token
        principal = host.authenticate(token)
        migrate(at(tmp_path / "source"), at(tmp_path / "target"))
    with opened(tmp_path / "target") as host:
        assert host.authenticate(token) == principal
        path, _, query = url.rpartition("/")[2].partition("?")
        assert host.delivery.resolve(path, query).image == image


def test_a_migrated_host_refuses_changes_at_once_and_goes_on_to_serve_images(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with opened(source) as host, opened(source) as other:
        image = host.upload(make_image(40, 30), owner="admin")
        migrate(at(source), at(target))
        for each in (host, other):
            with pytest.raises(UnavailableError, match="was migrated"):
                each.images.delete(image.id)
            with pytest.raises(UnavailableError, match="was migrated"):
                each.upload(make_image(40, 31), owner="admin")
            assert each.render(image.id, "w=20").width == 20
    with pytest.raises(ConflictError, match=f"was migrated to {target}"):
        ImageHost.open(source, settings=ONE_WORKER)


def test_a_host_is_used_again_after_its_marker_is_deleted(tmp_path: Path) -> None:
    source = tmp_path / "source"
    with opened(source) as host:
        image = host.upload(make_image(40, 30), owner="admin")
    migrate(at(source), at(tmp_path / "target"))
    (source / "migrated").unlink()
    with opened(source) as host:
        host.images.delete(image.id)


def test_writes_wait_while_the_records_are_copied_and_reads_do_not(source: Path, tmp_path: Path) -> None:
    with closing(
        SqliteDatabase(DataLayout(source).database, LockManager(tmp_path / "locks"), busy_timeout=0)
    ) as other:
        seen = []

        def try_to_write(progress: MigrationProgress) -> None:
            if progress.stage is MigrationStage.RECORDS and progress.done:
                seen.append(other.fetch_one("SELECT count(*) AS number FROM accounts", {}))
                with pytest.raises(UnavailableError, match="write lock"), other.transaction():
                    pass

        migrate(at(source), at(tmp_path / "target"), progress=try_to_write)
    assert len(seen) > len(copied_tables()) - 3


def test_what_changes_while_the_files_are_copied_is_migrated(source: Path, tmp_path: Path) -> None:
    with opened(source) as host:
        changes: list[Callable[[], object]] = [
            lambda: host.upload(LARGE, owner="admin"),
            lambda: host.images.delete(next(host.images.iter(owner="admin"))),
            lambda: host.images.update(next(host.images.iter(owner="admin")), description="new"),
            lambda: host.albums.create(owner="second", name="new"),
            lambda: host.accounts.delete("suspended"),
        ]

        def change(progress: MigrationProgress) -> None:
            if progress.stage is MigrationStage.FILES and changes:
                changes.pop(0)()

        migrate(at(source), at(tmp_path / "target"), progress=change, threads=1)
        assert changes == []
    assert content(tmp_path / "target") == content(source)


def test_what_is_uploaded_after_the_second_pass_is_copied_while_writes_wait(
    source: Path, tmp_path: Path
) -> None:
    with opened(source) as host:
        count = len(list(source.rglob("master")))
        events: list[MigrationProgress] = []

        def upload_after_two_passes(progress: MigrationProgress) -> None:
            events.append(progress)
            # One for each image, and one at the end of each pass.
            if len(events) == count + 2:
                host.upload(LARGE, owner="admin")

        result = migrate(at(source), at(tmp_path / "target"), progress=upload_after_two_passes)
    assert result.copied == result.image_count == count + 1
    assert content(tmp_path / "target") == content(source)


def test_damaged_images_are_reported_and_their_files_are_not_copied(source: Path, tmp_path: Path) -> None:
    with opened(source) as host:
        images = sorted(host.images.iter(owner="admin"), key=lambda image: len(image.derivatives))
        missing, corrupt, *_, incomplete = images
        images_directory = DataLayout(source).images
        (images_directory / missing.id[:2] / missing.id / "master").unlink()
        (images_directory / corrupt.id[:2] / corrupt.id / "master").write_bytes(b"other")
        derivative = next((images_directory / incomplete.id[:2] / incomplete.id).glob("derivative-*"))
        derivative.write_bytes(b"other")
    result = migrate(at(source), at(tmp_path / "target"))
    assert set(result.damaged) == {missing.id, corrupt.id}
    assert result.incomplete == (incomplete.id,)
    with opened(tmp_path / "target") as host:
        found = {(finding.kind, finding.id.partition("/")[0]) for finding in host.check()}
        assert found == {
            (FindingKind.MASTER_MISSING, missing.id),
            (FindingKind.MASTER_MISSING, corrupt.id),
            (FindingKind.DERIVATIVE_MISSING, incomplete.id),
        } | {(FindingKind.DERIVATIVE_MISSING, image.id) for image in (missing, corrupt) if image.derivatives}
        assert any(finding.repair for finding in host.check(repair=True))
        assert {finding.kind for finding in host.check()} == {FindingKind.MASTER_MISSING}


def test_a_repeated_migration_reads_no_files_again_and_removes_those_of_deleted_images(
    source: Path, tmp_path: Path
) -> None:
    class InterruptError(Exception):
        pass

    def interrupt(progress: MigrationProgress) -> None:
        if progress.done == 4:
            raise InterruptError

    target = tmp_path / "target"
    with pytest.raises(InterruptError):
        migrate(at(source), at(target), progress=interrupt, threads=1)
    copied = {path.parent.name for path in target.rglob("master")}
    with opened(source) as host:
        deleted = next(image for image in host.images.iter(owner="admin") if image.id in copied)
        host.images.delete(deleted)
    damaged = sorted(copied - {deleted.id})[0]
    master = DataLayout(target).images / damaged[:2] / damaged / "master"
    master.write_bytes(bytes(master.stat().st_size))
    result = migrate(at(source), at(target))
    assert result.present == len(copied) - 2
    assert result.copied == result.image_count - result.present
    assert content(target) == content(source)


def test_an_unfinished_target_cannot_be_opened_nor_be_a_source_nor_a_target_of_another(
    source: Path, tmp_path: Path
) -> None:
    def interrupt(progress: MigrationProgress) -> None:
        raise KeyboardInterrupt

    target, other = tmp_path / "target", tmp_path / "other"
    with pytest.raises(KeyboardInterrupt):
        migrate(at(source), at(target), progress=interrupt)
    with pytest.raises(ConflictError, match="in progress or was interrupted"):
        ImageHost.open(target, settings=ONE_WORKER)
    with pytest.raises(ConflictError, match="not complete"):
        migrate(at(target), at(tmp_path / "third"))
    with opened(other) as host:
        host.upload(LARGE, owner="admin")
    with pytest.raises(ConflictError, match="of another host"):
        migrate(at(other), at(target))
    # The source is as before.
    with opened(source) as host:
        host.upload(LARGE, owner="admin")


@pytest.mark.parametrize("name", ["imagehost.sqlite3", "notes.txt", "images"])
def test_a_target_that_is_not_empty_is_refused_and_not_changed(
    source: Path, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / name).write_bytes(b"")
    with pytest.raises(ConflictError, match="expected"):
        migrate(at(source), at(target))
    assert [path.name for path in target.iterdir()] == [name]
    with opened(source) as host:
        host.upload(LARGE, owner="admin")


def test_a_target_may_have_a_settings_file(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "imagehost.toml").write_text("")
    assert migrate(at(source), at(target)).copied


def test_a_host_can_be_migrated_once(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    first = migrate(at(source), at(target))
    with opened(target) as host:
        host.upload(LARGE, owner="admin")
    expected = content(target)
    again = migrate(at(source), at(target))
    assert (again.image_count, again.row_count) == (first.image_count + 1, 0)
    assert content(target) == expected
    with pytest.raises(ConflictError, match=f"was migrated to {target}"):
        migrate(at(source), at(tmp_path / "elsewhere"))
    assert not (tmp_path / "elsewhere").exists()


def test_a_directory_without_a_host_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="has no database"):
        migrate(at(tmp_path), at(tmp_path / "target"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["a", "b"], "expected one data directory"),
        (["s3://bucket/x"], "expected a data directory or postgresql"),
        (["postgresql://host/x"], "expected a data directory or s3"),
        (["mysql://host/x"], "received a URL with mysql://"),
        (["a", "postgresql://host/x", "s3://bucket/x"], "expected no data directory"),
    ],
)
def test_a_location_that_is_none_is_refused(parts: list[str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        parse_host_location(parts, "the location")


def test_a_sender_of_the_new_host_does_not_release_the_leases_of_the_old_one(
    source: Path, tmp_path: Path
) -> None:
    deliveries = "SELECT id FROM webhook_deliveries WHERE lease_expires_at IS NOT NULL"
    with closing(SqliteDatabase(DataLayout(source).database, LockManager(tmp_path / "locks"))) as database:
        with database.transaction() as transaction:
            transaction.execute("UPDATE webhook_deliveries SET leased_by = 0", {})
        leased = database.fetch_all(deliveries, {})
    assert leased
    migrate(at(source), at(tmp_path / "target"))
    with opened(tmp_path / "target") as host, host.webhooks.sender_slot() as slot:
        assert slot == 0
        assert host._context.database.fetch_all(deliveries, {}) == leased


KILL = """
    import os, signal, sys
    from pathlib import Path
    from imagehost_core.services.migration import migrate, parse_host_location

    root = sys.argv[1]
    events = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "sqlite3.connect"}

    def run_until(last, source, target):
        left = last

        def die(event, arguments):
            nonlocal left
            if event in events and str(arguments[0]).startswith(root):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(die)
        migrate(parse_host_location([source], ""), parse_host_location(target, ""), threads=1)

    for line in sys.stdin:
        number, source, *target = line.split()
        child = os.fork()
        if child == 0:
            run_until(int(number), source, target)
            os._exit(0)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print("died" if died else "lived", flush=True)
"""


def is_refused(data: Path) -> bool:
    """Return whether no host can be opened in a data directory."""
    try:
        with opened(data):
            return False
    except ConflictError:
        return True


@pytest.mark.slow
def test_a_migration_that_is_killed_anywhere_leaves_one_host_and_can_be_repeated(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    original = tmp_path / "original"
    with opened(original) as host:
        host.upload(make_image(40, 30), owner="admin")
        host.upload(LARGE, owner="admin")
    expected = content(original)
    kills = program(KILL, tmp_path)
    outcomes = set()
    number, outcome = 0, "died"
    while outcome == "died":
        number += 1
        source, target = tmp_path / "source", tmp_path / "target"
        shutil.copytree(original, source)
        kills.write_line(f"{number} {source} {target}")
        outcome = kills.read_line()
        is_migrated = (source / "migrated").exists()
        is_complete = not (target / "migrating").exists() and (target / "imagehost.sqlite3").exists()
        # At no time there are two hosts that accept changes.
        assert is_migrated or not is_complete
        outcomes.add((is_migrated, is_complete))
        if number % 10 == 0 or is_migrated:
            assert is_refused(source) == is_migrated
            assert not (target / "migrating").exists() or is_refused(target)
        migrate(at(source), at(target), threads=1)
        assert content(target) == expected
        assert not any((target / "staging").rglob("master"))
        shutil.rmtree(source)
        shutil.rmtree(target)
    assert outcomes == {(False, False), (True, False), (True, True)}
    assert number > 40
