"""The installation of a host: nothing is opened on, and nothing deleted of, what belongs to another."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from tests.core.services.conftest import ONE_WORKER
from tests.core.services.orphans import store_orphan
from tests.core.test_installation import OPENED
from tests.open_host import open_host

from imagehost_core import ConflictError, ImageHost, UnavailableError, ValidationError, restore
from imagehost_core.ids import ImageId
from imagehost_core.installation import FORMAT, RECORD_NAME, InstallationRecord, RecordState, parse_record
from imagehost_core.maintenance.backup import BackupInfo
from imagehost_core.maintenance.check.findings import FindingKind
from imagehost_core.maintenance.installation import adopt
from imagehost_core.storage import DataLayout
from imagehost_core.testing import DEFAULT_NOW, make_image

if TYPE_CHECKING:
    from tests.programs import Program

PNG = make_image(40, 30)
Tree = dict[str, bytes]


def tree(directory: Path) -> Tree:
    """Return the files of a directory that a host must not lose."""
    paths = (path for path in directory.rglob("*") if path.is_file())
    kept = ("images", "imagehost.sqlite3", "secret", RECORD_NAME, "restoring")
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in paths
        if path.relative_to(directory).parts[0] in kept
    }


def record_of(data: Path) -> InstallationRecord:
    return parse_record((data / RECORD_NAME).read_bytes(), data)


def rewrite(path: Path, record: InstallationRecord) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(record.to_json())


def rewrite_database(path: Path, record: InstallationRecord | None) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM installation")
        if record is not None:
            database.execute("INSERT INTO installation VALUES (1, ?)", (record.to_json(),))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with an image, whose database needs no log."""
    data = tmp_path_factory.mktemp("source") / "data"
    with open_host(data, settings=ONE_WORKER) as host:
        host.upload(PNG, owner="admin")
    return data


@pytest.fixture
def data(source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(source, tmp_path / "data"))


def test_a_new_host_has_one_record_in_directory_database_and_store(source: Path) -> None:
    record = record_of(source)
    assert parse_record((source / "images" / RECORD_NAME).read_bytes(), "images") == record
    with closing(sqlite3.connect(source / "imagehost.sqlite3")) as database:
        [(text,)] = database.execute("SELECT record FROM installation").fetchall()
    assert parse_record(text, "database") == record
    assert (record.state, record.format) == (RecordState.COMPLETE, FORMAT)


def test_no_combination_of_what_belongs_to_several_hosts_is_opened_or_loses_a_file(
    source: Path, tmp_path: Path
) -> None:
    own = record_of(source)
    records = {
        "own": own,
        "older": own.begin(DEFAULT_NOW),
        "foreign": InstallationRecord(created_at=DEFAULT_NOW),
        "newer": attrs.evolve(own, format=99, writer="9.0.0"),
        "restoring": own.with_state(RecordState.RESTORING),
        "creating": own.with_state(RecordState.CREATING),
    }
    data = tmp_path / "data"
    for states in product(
        ("empty", "own", "older", "foreign", "newer"),
        ("empty", "own", "foreign", "newer", "creating", "unrecorded"),
        ("empty", "own", "foreign", "restoring", "unrecorded"),
    ):
        directory, database, store = states
        data.mkdir()
        if directory != "empty":
            rewrite(data / RECORD_NAME, records[directory])
        if database != "empty":
            shutil.copy(source / "imagehost.sqlite3", data)
            rewrite_database(data / "imagehost.sqlite3", records.get(database))
        if store != "empty":
            shutil.copytree(source / "images", data / "images")
            (data / "images" / RECORD_NAME).unlink()
            if store in records:
                rewrite(data / "images" / RECORD_NAME, records[store])
        before = tree(data)
        if states in OPENED:
            with open_host(data, settings=ONE_WORKER) as host:
                host.maintenance.collect_garbage()
            assert {name for name in before if name.startswith("images/")} <= set(tree(data)), states
        else:
            with pytest.raises(ConflictError):
                open_host(data, settings=ONE_WORKER)
            after = tree(data)
            unchanged = {name for name in before if not name.startswith("imagehost.sqlite3")}
            assert {name: after.get(name) for name in unchanged} == {
                name: before[name] for name in unchanged
            }, states
        shutil.rmtree(data)


@pytest.mark.parametrize("name", ["catalog.sqlite3", "notes.txt", "photos"])
def test_a_directory_with_what_no_host_has_created_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"old data")
    with pytest.raises(ConflictError, match=f"contains {name}, which"):
        open_host(tmp_path, settings=ONE_WORKER)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_new_volume_with_settings_and_hidden_files_is_empty(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    for name in ("imagehost.toml", ".profile"):
        (tmp_path / name).write_bytes(b"")
    open_host(tmp_path, settings=ONE_WORKER).close()
    # A directory of a host may have others.
    (tmp_path / "cert.pem").write_bytes(b"")
    open_host(tmp_path, settings=ONE_WORKER).close()


def test_a_database_of_a_newer_version_is_refused_before_it_is_changed(data: Path) -> None:
    newer = attrs.evolve(record_of(data), writer="9.0.0")
    rewrite_database(data / "imagehost.sqlite3", newer)
    with closing(sqlite3.connect(data / "imagehost.sqlite3")) as database, database:
        values = ("imagehost", "from_the_future", "2030-01-01")
        database.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, ?, ?)", values
        )
    before = (data / "imagehost.sqlite3").read_bytes()
    with pytest.raises(ConflictError, match=r"from_the_future'; install imagehost 9\.0\.0"):
        open_host(data, settings=ONE_WORKER)
    assert (data / "imagehost.sqlite3").read_bytes() == before


CREATE = """
    import os, signal, sys
    from imagehost_core import ImageHost

    events = {"open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect"}

    def run(last, data):
        left = last

        def die(event, arguments):
            nonlocal left
            if event in events and str(arguments[0]).startswith(data):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(die)
        ImageHost.open(data).close()

    for line in sys.stdin:
        number, data = line.split()
        child = os.fork()
        if child == 0:
            run(int(number), data)
            os._exit(0)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print("died" if died else "lived", flush=True)
"""


@pytest.mark.faults
def test_a_creation_that_is_killed_anywhere_is_continued_by_the_next_start(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    kills = program(CREATE)
    number, outcome = 0, "died"
    while outcome == "died":
        number += 1
        data = tmp_path / str(number)
        kills.write_line(f"{number} {data}")
        outcome = kills.read_line()
        with open_host(data, settings=ONE_WORKER) as host:
            assert [account.name for account in host.accounts.list()] == ["admin"]
        assert record_of(data) == parse_record((data / "images" / RECORD_NAME).read_bytes(), "images")
        shutil.rmtree(data)
    assert number > 20


# What is collected.


def mark(host: ImageHost) -> None:
    """Let the next cleanup search for files without a record, as after the crash of an upload."""
    host._context.files.staging.mark_incomplete("crashed")


def test_an_empty_database_beside_images_deletes_none_of_them(data: Path) -> None:
    """The loss: a host on an empty database deletes all images of another as those of crashed uploads."""
    (data / "imagehost.sqlite3").unlink()
    before = tree(data)
    with pytest.raises(ConflictError, match="it is empty; check IMAGEHOST_DATABASE"):
        open_host(data, settings=ONE_WORKER)
    assert {name: value for name, value in tree(data).items() if name in before} == before


@pytest.mark.parametrize("changed", ["images", "directory", "database"])
def test_a_host_whose_store_or_database_is_swapped_while_it_runs_collects_nothing(
    data: Path, changed: str
) -> None:
    with open_host(data, settings=ONE_WORKER) as host:
        store_orphan(host._context)
        mark(host)
        other = record_of(data).begin(DEFAULT_NOW)
        if changed == "database":
            rewrite_database(data / "imagehost.sqlite3", other)
        else:
            rewrite(data / ("images" if changed == "images" else "") / RECORD_NAME, other)
        before = tree(data / "images")
        assert host.maintenance.cleanup() == ()
        with pytest.raises(ConflictError, match="nothing is collected"):
            host.maintenance.collect_garbage()
        assert {finding.kind for finding in host.check(repair=True)} >= {FindingKind.ORPHAN}
        assert tree(data / "images") == before


def test_a_deletion_is_not_finished_on_a_store_that_was_swapped(data: Path) -> None:
    with open_host(data, settings=ONE_WORKER) as host:
        image = next(host.images.iter(owner="admin"))
        with host._context.records.database.transaction() as transaction:
            host._context.records.images.insert_tombstone(transaction, image, DEFAULT_NOW)
        rewrite(data / "images" / RECORD_NAME, record_of(data).begin(DEFAULT_NOW))
        with pytest.raises(ConflictError, match="nothing is collected"):
            host.maintenance.cleanup()
    assert list((data / "images").rglob("master"))


def test_more_than_100_images_without_a_record_and_2_percent_are_collected_only_by_a_flag(data: Path) -> None:
    with open_host(data, settings=ONE_WORKER) as host:
        for _ in range(101):
            store_orphan(host._context)
        mark(host)
        assert host.maintenance.cleanup() == ()
        with pytest.raises(ConflictError, match=r"101 images or more beside 1 .* gc --allow-many"):
            host.maintenance.collect_garbage()
        findings = [each for each in host.check(repair=True) if each.kind is FindingKind.ORPHAN]
        assert len(findings) == 101
        assert not any(finding.is_repaired for finding in findings)
        assert len(host.maintenance.collect_garbage(dry_run=True).orphans) == 101
        assert len(list((data / "images").rglob("master"))) == 102
        host._context.files.blobs.delete(ImageId(findings[0].id))
        assert len(host.maintenance.collect_garbage().orphans) == 100


def test_the_flag_collects_many(data: Path) -> None:
    with open_host(data, settings=ONE_WORKER) as host:
        for _ in range(101):
            store_orphan(host._context)
        assert len(host.maintenance.collect_garbage(allow_many=True).orphans) == 101
        assert list(host.check()) == []


# Adoption.


def test_data_without_a_record_are_adopted_by_a_command(data: Path) -> None:
    rewrite_database(data / "imagehost.sqlite3", None)
    (data / RECORD_NAME).unlink()
    (data / "images" / RECORD_NAME).unlink()
    with pytest.raises(ConflictError, match="`imagehost adopt`"):
        open_host(data, settings=ONE_WORKER)
    adoption = adopt(data)
    assert (adoption.image_count, adoption.missing, adoption.unrecorded) == (1, 0, 0)
    with open_host(data, settings=ONE_WORKER) as host:
        assert list(host.check()) == []
    assert record_of(data) == adoption.record


def test_a_database_without_the_table_of_the_record_is_adopted(data: Path) -> None:
    with closing(sqlite3.connect(data / "imagehost.sqlite3")) as database:
        database.execute("DROP TABLE installation")
    (data / RECORD_NAME).unlink()
    (data / "images" / RECORD_NAME).unlink()
    adopt(data)
    open_host(data, settings=ONE_WORKER).close()


def test_a_database_and_a_store_without_a_common_image_are_adopted_by_force_only(data: Path) -> None:
    shutil.rmtree(data / "images")
    with pytest.raises(ConflictError, match=r"of 1 images none has.*--force"):
        adopt(data)
    adoption = adopt(data, force=True)
    assert adoption.missing == 1
    open_host(data, settings=ONE_WORKER).close()


def test_an_adoption_begins_an_incarnation_that_other_hosts_do_not_collect_from(data: Path) -> None:
    first = record_of(data)
    rewrite(data / "images" / RECORD_NAME, InstallationRecord(created_at=DEFAULT_NOW))
    record = adopt(data).record
    assert record.id == first.id
    assert record.incarnation != first.incarnation
    rewrite(data / RECORD_NAME, first)
    assert adopt(data).record == record


def test_an_empty_directory_is_not_adopted(tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="are empty"):
        adopt(tmp_path / "data")


# Backups.


def backed_up(host: ImageHost, **options: object) -> tuple[io.BytesIO, BackupInfo]:
    stream = io.BytesIO()
    info = host.backups.write(stream, **options).info  # type: ignore[arg-type]
    stream.seek(0)
    return stream, info


def test_a_restored_host_is_a_new_incarnation_of_the_same_installation(data: Path, tmp_path: Path) -> None:
    with open_host(data, settings=ONE_WORKER) as host:
        stream, info = backed_up(host)
    assert info.installation == record_of(data)
    result = restore([stream], tmp_path / "copy")
    assert record_of(tmp_path / "copy") == result.record
    assert result.record.id == record_of(data).id
    assert result.record.incarnation != record_of(data).incarnation
    with open_host(tmp_path / "copy", settings=ONE_WORKER) as host:
        assert list(host.check()) == []


def test_an_increment_since_a_backup_of_another_host_or_incarnation_is_refused(
    data: Path, tmp_path: Path
) -> None:
    with open_host(data, settings=ONE_WORKER) as host:
        stream, info = backed_up(host)
        full = stream.getvalue()
        increment, _ = backed_up(host, since=info)
    restore([stream, increment], tmp_path / "copy")
    with open_host(tmp_path / "copy", settings=ONE_WORKER) as host:
        with pytest.raises(ConflictError, match="take a full backup"):
            backed_up(host, since=info)
        later, _ = backed_up(host, since=info.created_at)
    with pytest.raises(ValidationError, match="expected a backup of installation"):
        restore([io.BytesIO(full), later], tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()


def test_a_moved_host_refuses_changes_and_is_taken_back_by_an_adoption(data: Path) -> None:
    with (
        open_host(data, settings=ONE_WORKER) as host,
        open_host(data, settings=ONE_WORKER) as other,
    ):
        image = next(host.images.iter(owner="admin"))
        backed_up(host, move=True)
        for each in (host, other):
            with pytest.raises(UnavailableError, match="is moved to another"):
                each.upload(PNG, owner="admin")
            with pytest.raises(UnavailableError, match="is moved to another"):
                each.images.delete(image.id)
            assert each.render(image.id, "w=20").width == 20
    with pytest.raises(ConflictError, match="take the move back with `imagehost adopt`"):
        open_host(data, settings=ONE_WORKER)
    adopt(data)
    with open_host(data, settings=ONE_WORKER) as host:
        host.images.delete(image.id)


def test_a_move_that_fails_is_taken_back(data: Path) -> None:
    class BrokenStream(io.BytesIO):
        def write(self, *_: object) -> int:
            raise BrokenPipeError

    with open_host(data, settings=ONE_WORKER) as host:
        with pytest.raises(BrokenPipeError):
            host.backups.write(BrokenStream(), move=True)
        host.upload(PNG, owner="admin")


def test_records_are_restored_beside_images_that_stay_and_what_is_newer_is_not_collected(data: Path) -> None:
    layout = DataLayout(data)
    with open_host(data, settings=ONE_WORKER) as host:
        stream, _ = backed_up(host, records_only=True)
        newer = host.upload(PNG, owner="admin")
    with pytest.raises(ConflictError, match=r"contains imagehost\.sqlite3"):
        restore([stream], data, records_only=True)
    for path in data.glob("imagehost.sqlite3*"):
        path.unlink()
    stream.seek(0)
    record = restore([stream], data, records_only=True).record
    with open_host(data, settings=ONE_WORKER) as host:
        assert len(list(host.images.iter(owner="admin"))) == 1
        mark(host)
        assert host.maintenance.cleanup() == ()
        assert host.maintenance.collect_garbage().orphans == ()
        assert host._context.files.blobs.has(newer.id)
        assert host.maintenance.collect_garbage(allow_newer=True).orphans == (newer.id,)
    with open_host(data, settings=ONE_WORKER) as host:
        assert host._context.installation.record.backup_at is None
    assert record_of(data).is_same(record)
    assert layout.images.exists()


def test_a_backup_of_the_records_is_restored_as_such_only(data: Path, tmp_path: Path) -> None:
    with open_host(data, settings=ONE_WORKER) as host:
        stream, info = backed_up(host, records_only=True)
    assert (info.image_count, info.records_only) == (0, True)
    with pytest.raises(ValidationError, match="without them"):
        restore([stream], tmp_path / "copy")
    stream.seek(0)
    with pytest.raises(ConflictError, match="expected images that stay"):
        restore([stream], tmp_path / "copy", records_only=True)
    assert not (tmp_path / "copy").exists()


def test_a_backup_of_a_newer_format_is_refused(data: Path, tmp_path: Path) -> None:
    newer = attrs.evolve(record_of(data), format=99, reader="9.0.0")
    with open_host(data, settings=ONE_WORKER) as host:
        service = attrs.evolve(host.backups, installation=newer)
        stream = io.BytesIO()
        service.write(stream)
    stream.seek(0)
    with pytest.raises(ConflictError, match=r"install imagehost 9\.0\.0"):
        restore([stream], tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_the_record_is_json_that_an_operator_can_read(source: Path) -> None:
    assert set(json.loads((source / RECORD_NAME).read_bytes())) == {
        *("id", "incarnation", "created_at", "backup_at", "state", "format", "reader", "writer")
    }
