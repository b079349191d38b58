"""Each kind of damage is found exactly, repaired where that is possible, and not found again."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import attrs
import pytest
from PIL import Image as PILImage
from tests.core.integrity.conftest import SETTINGS, DamagedDirectory, flip_byte

from imagehost_core import ImageHost
from imagehost_core.coordination.locks import lock_file, unlock_file
from imagehost_core.ids import new_image_id
from imagehost_core.maintenance.check.findings import CheckName, CheckProgress, FindingKind
from imagehost_core.maintenance.integrity_queries import REFERENCES
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import shared_executor

Plant = Callable[[DamagedDirectory], str]
"""Damages a data directory, and returns the id of the expected finding."""


def delete_master(directory: DamagedDirectory) -> str:
    (directory.folder(directory.photo) / "master").unlink()
    return directory.photo.id


def delete_folder(directory: DamagedDirectory) -> str:
    shutil.rmtree(directory.folder(directory.others[1]))
    return directory.others[1].id


def flip_byte_of_master(directory: DamagedDirectory) -> str:
    flip_byte(directory.folder(directory.photo) / "master", directory.photo.size // 2)
    return directory.photo.id


def truncate_master(directory: DamagedDirectory) -> str:
    os.truncate(directory.folder(directory.photo) / "master", directory.photo.size - 1)
    return directory.photo.id


def corrupt_record(column: str, value: object) -> Plant:
    def corrupt(directory: DamagedDirectory) -> str:
        directory.execute(f"UPDATE images SET {column} = ? WHERE id = ?", value, directory.others[2].id)
        return directory.others[2].id

    return corrupt


def add_orphan(directory: DamagedDirectory) -> str:
    image_id = new_image_id()
    folder = directory.path / "images" / image_id[:2] / image_id
    folder.mkdir(parents=True)
    (folder / "master").write_bytes(b"x")
    return image_id


def add_unnamed_derivative(directory: DamagedDirectory) -> str:
    (directory.folder(directory.others[0]) / "derivative-512").write_bytes(b"x")
    return f"{directory.others[0].id}/derivative-512"


def add_unknown_file(directory: DamagedDirectory) -> str:
    (directory.folder(directory.others[0]) / "notes.txt").write_text("mine")
    return f"{directory.others[0].id}/notes.txt"


def add_misplaced_folder(directory: DamagedDirectory) -> str:
    (directory.path / "images" / "lost+found").mkdir()
    return "images/lost+found"


def add_misplaced_image(directory: DamagedDirectory) -> str:
    folder = directory.folder(directory.photo)
    wrong = directory.path / "images" / "zz" / directory.photo.id
    shutil.copytree(folder, wrong)
    return f"images/zz/{directory.photo.id}"


def add_tombstone(directory: DamagedDirectory) -> str:
    image_id = add_orphan(directory)
    directory.execute("INSERT INTO tombstones VALUES (?, 1, NULL, 0)", image_id)
    return image_id


def add_variants_without_image(directory: DamagedDirectory) -> str:
    image_id = new_image_id()
    target = directory.path / "variants" / image_id[:2] / image_id
    shutil.copytree(directory.variants(directory.photo), target)
    return image_id


def flip_byte_of_variant(directory: DamagedDirectory) -> str:
    [path] = directory.variants(directory.others[0]).iterdir()
    flip_byte(path, -1)
    return f"{directory.others[0].id}/{path.name}"


def add_staging_of_killed_process(directory: DamagedDirectory) -> str:
    folder = directory.path / "staging" / "killed"
    folder.mkdir()
    (folder / "lock").touch()
    (folder / "upload").write_bytes(b"half")
    return "staging/killed"


def remove_from_gallery(directory: DamagedDirectory) -> str:
    directory.execute("DELETE FROM gallery_images WHERE id = ?", directory.photo.id)
    directory.execute("UPDATE counters SET value = value - 1 WHERE name = 'gallery_images'")
    return directory.photo.id


def change_words(directory: DamagedDirectory) -> str:
    sql = "UPDATE image_words SET description = 'dogs' WHERE description LIKE '%cats%'"
    directory.execute(sql)
    return directory.photo.id


def delete_from_full_text_index(directory: DamagedDirectory) -> str:
    """Delete the segments of the inverted index, whose ids are above those of its two records."""
    directory.execute("DELETE FROM image_words_data WHERE id > 10")
    directory.execute("UPDATE image_words_data SET block = X'0000000000' WHERE id = 10")
    return "image_words"


def add_words_without_image(directory: DamagedDirectory) -> str:
    directory.execute("INSERT INTO image_words (rowid, filename, description) VALUES (999, 'a', 'b')")
    return "image_words 999"


def set_counter(table: str, column: str) -> Plant:
    def plant(directory: DamagedDirectory) -> str:
        directory.execute(f"UPDATE {table} SET {column} = {column} + 7")
        return f"{table} {directory.value(f'SELECT id FROM {table}')} {column}"

    plant.__name__ = f"{table}_{column}"
    return plant


set_key_count = set_counter("accounts", "key_count")


def set_gallery_counter(directory: DamagedDirectory) -> str:
    directory.execute("UPDATE counters SET value = value + 7 WHERE name = 'gallery_images'")
    return "counters gallery_images value"


def delete_event(directory: DamagedDirectory) -> str:
    number = directory.value("SELECT event_number FROM webhook_deliveries ORDER BY id LIMIT 1")
    directory.execute("DELETE FROM events WHERE number = ?", number)
    return f"webhook_deliveries {directory.value('SELECT id FROM webhook_deliveries ORDER BY id LIMIT 1')}"


def move_to_missing_album(directory: DamagedDirectory) -> str:
    """Of an image that no gallery lists, so that only the reference is wrong."""
    sql = "UPDATE images SET album_id = 999 WHERE id = ?"
    directory.execute(sql, directory.others[0].id)
    directory.execute("DELETE FROM gallery_images WHERE id = ?", directory.others[0].id)
    directory.execute("UPDATE counters SET value = value - 1 WHERE name = 'gallery_images'")
    return f"images {directory.others[0].id}"


def add_key_of_missing_account(directory: DamagedDirectory) -> str:
    """The counter is right, unless other damage has changed it."""
    directory.execute("UPDATE api_keys SET account_id = 999")
    directory.execute("UPDATE accounts SET key_count = key_count - 1")
    return f"api_keys {directory.value('SELECT id FROM api_keys')}"


def add_image_of_missing_account(directory: DamagedDirectory) -> str:
    image = directory.others[0]
    directory.execute("UPDATE images SET account_id = 999 WHERE id = ?", image.id)
    return f"images {image.id}"


def derivative_of(directory: DamagedDirectory) -> Path:
    """Return the path of the largest derivative."""
    side = max(directory.photo.derivatives[0])
    return directory.folder(directory.photo) / f"derivative-{side}"


def delete_derivative(directory: DamagedDirectory) -> str:
    path = derivative_of(directory)
    path.unlink()
    return f"{directory.photo.id}/{path.name}"


def empty_derivative(directory: DamagedDirectory) -> str:
    path = derivative_of(directory)
    path.write_bytes(b"")
    return f"{directory.photo.id}/{path.name}"


def flip_byte_of_derivative(directory: DamagedDirectory) -> str:
    path = derivative_of(directory)
    flip_byte(path, path.stat().st_size // 2)
    return f"{directory.photo.id}/{path.name}"


REPAIRABLE: dict[Plant, FindingKind] = {
    delete_derivative: FindingKind.DERIVATIVE_MISSING,
    empty_derivative: FindingKind.DERIVATIVE_MISSING,
    flip_byte_of_derivative: FindingKind.DERIVATIVE_CORRUPT,
    add_orphan: FindingKind.ORPHAN,
    add_unnamed_derivative: FindingKind.ORPHAN,
    add_tombstone: FindingKind.UNFINISHED_DELETION,
    add_variants_without_image: FindingKind.VARIANT_WITHOUT_IMAGE,
    flip_byte_of_variant: FindingKind.VARIANT_CORRUPT,
    add_staging_of_killed_process: FindingKind.STALE_STAGING,
    remove_from_gallery: FindingKind.INDEX_MISMATCH,
    change_words: FindingKind.INDEX_MISMATCH,
    add_words_without_image: FindingKind.INDEX_MISMATCH,
    delete_from_full_text_index: FindingKind.INDEX_MISMATCH,
    set_counter("accounts", "image_count"): FindingKind.COUNTER_MISMATCH,
    set_counter("accounts", "public_image_count"): FindingKind.COUNTER_MISMATCH,
    set_counter("accounts", "used_bytes"): FindingKind.COUNTER_MISMATCH,
    set_counter("accounts", "album_count"): FindingKind.COUNTER_MISMATCH,
    set_key_count: FindingKind.COUNTER_MISMATCH,
    set_counter("albums", "image_count"): FindingKind.COUNTER_MISMATCH,
    set_counter("albums", "public_image_count"): FindingKind.COUNTER_MISMATCH,
    set_counter("webhooks", "delivery_count"): FindingKind.COUNTER_MISMATCH,
    set_gallery_counter: FindingKind.COUNTER_MISMATCH,
    move_to_missing_album: FindingKind.BROKEN_REFERENCE,
    add_key_of_missing_account: FindingKind.BROKEN_REFERENCE,
}
NOT_REPAIRABLE: dict[Plant, FindingKind] = {
    delete_master: FindingKind.MASTER_MISSING,
    flip_byte_of_master: FindingKind.MASTER_CORRUPT,
    truncate_master: FindingKind.MASTER_CORRUPT,
    delete_folder: FindingKind.MASTER_MISSING,
    corrupt_record("format", "bmp"): FindingKind.INVALID_RECORD,
    corrupt_record("created_at", 2**62): FindingKind.INVALID_RECORD,
    corrupt_record("derivatives", "[[null, 2]]"): FindingKind.INVALID_RECORD,
    corrupt_record("derivatives", "[[2, 2, 3, 4]]"): FindingKind.INVALID_RECORD,
    add_unknown_file: FindingKind.UNKNOWN_FILE,
    add_misplaced_folder: FindingKind.UNKNOWN_FILE,
    add_misplaced_image: FindingKind.UNKNOWN_FILE,
}


def name_of(value: object) -> str | None:
    return getattr(value, "__name__", None)


def test_an_undamaged_directory_has_no_finding(directory: DamagedDirectory) -> None:
    assert directory.check() == []
    assert directory.check(quick=True) == []
    assert directory.check(repair=True) == []


@pytest.mark.parametrize(("plant", "kind"), REPAIRABLE.items(), ids=name_of)
def test_repairable_damage_is_found_exactly_and_gone_after_the_repair(
    directory: DamagedDirectory, plant: Plant, kind: FindingKind
) -> None:
    expected = [(kind, plant(directory), False)]
    for _ in range(2):  # Without a repair nothing changes.
        assert [(each.kind, each.id, each.is_repaired) for each in directory.check()] == expected
    repaired = [(each.kind, each.id, each.is_repaired) for each in directory.check(repair=True)]
    assert repaired == [(kind, expected[0][1], True)]
    assert directory.check() == []


@pytest.mark.parametrize(("plant", "kind"), NOT_REPAIRABLE.items(), ids=name_of)
def test_damage_that_cannot_be_repaired_is_found_exactly_and_left_as_it_is(
    directory: DamagedDirectory, plant: Plant, kind: FindingKind
) -> None:
    expected = [(kind, plant(directory), False)]
    files = sorted(path for path in directory.path.joinpath("images").rglob("*"))
    for repair in (False, True, False):
        findings = directory.check(repair=repair)
        # The search index cannot be compared with a record that cannot be read.
        assert [(each.kind, each.id, each.is_repaired) for each in findings][: len(expected)] == expected
    assert sorted(path for path in directory.path.joinpath("images").rglob("*")) == files


def test_a_delivery_without_an_event_is_deleted_and_its_counter_corrected(
    directory: DamagedDirectory,
) -> None:
    delivery = delete_event(directory)
    assert [(each.kind, each.id) for each in directory.check()] == [
        (FindingKind.DELIVERY_WITHOUT_EVENT, delivery)
    ]
    assert directory.kinds(repair=True) == [
        FindingKind.COUNTER_MISMATCH,
        FindingKind.DELIVERY_WITHOUT_EVENT,
    ]
    assert directory.check() == []


def test_an_image_of_a_missing_account_is_not_deleted(directory: DamagedDirectory) -> None:
    finding_id = add_image_of_missing_account(directory)
    directory.check(repair=True)
    [finding] = directory.check()
    assert (finding.kind, finding.id) == (FindingKind.BROKEN_REFERENCE, finding_id)
    assert (directory.folder(directory.others[0]) / "master").exists()


def test_a_quick_check_compares_sizes_and_reads_no_file(directory: DamagedDirectory) -> None:
    flip_byte_of_master(directory)
    flip_byte_of_variant(directory)
    assert directory.check(quick=True) == []
    image_id = truncate_master(directory)
    assert [finding.id for finding in directory.check(quick=True)] == [image_id]


def test_a_staging_directory_in_use_is_no_finding(directory: DamagedDirectory) -> None:
    add_staging_of_killed_process(directory)
    descriptor = lock_file(directory.path / "staging" / "killed" / "lock")
    assert descriptor is not None
    assert directory.check() == []
    unlock_file(descriptor)
    assert directory.kinds() == [FindingKind.STALE_STAGING]


@pytest.mark.parametrize("name", ["just created.new", "without lock"])
def test_a_staging_directory_that_is_being_created_or_removed_is_no_finding(
    directory: DamagedDirectory, name: str
) -> None:
    folder = directory.path / "staging" / name
    folder.mkdir()
    assert directory.check() == []
    os.utime(folder, (0, 0))
    assert directory.kinds() == [FindingKind.STALE_STAGING]


def test_a_damaged_index_of_the_database_is_rebuilt(directory: DamagedDirectory) -> None:
    """The index misses a row: it was inserted while the schema did not mention the index."""
    with closing(sqlite3.connect(directory.path / "imagehost.sqlite3")) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        find = "SELECT rowid, * FROM sqlite_schema WHERE name = 'events_by_created_at'"
        row = connection.execute(find).fetchone()
        connection.execute("DELETE FROM sqlite_schema WHERE rowid = ?", (row[0],))
        connection.commit()
        connection.execute("PRAGMA schema_version = 1000")
        connection.execute("UPDATE events SET created_at = created_at + 1")
        columns = "(rowid, type, name, tbl_name, rootpage, sql)"
        connection.execute(f"INSERT INTO sqlite_schema {columns} VALUES (?, ?, ?, ?, ?, ?)", row)
        connection.execute("PRAGMA schema_version = 1001")
    kinds = directory.kinds()
    assert set(kinds) == {FindingKind.DATABASE_CORRUPT}
    assert {(each.kind, each.is_repaired) for each in directory.check(repair=True)} == {
        (FindingKind.DATABASE_CORRUPT, True)
    }
    assert directory.check() == []


def test_nothing_else_is_checked_in_a_database_that_cannot_be_repaired(directory: DamagedDirectory) -> None:
    """A page of a table is overwritten."""
    page = directory.value("SELECT rootpage FROM sqlite_schema WHERE name = 'events'")
    size = directory.value("PRAGMA page_size")
    directory.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert isinstance(page, int)
    assert isinstance(size, int)
    with (directory.path / "imagehost.sqlite3").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 100)
    delete_master(directory)
    for repair in (False, True):
        assert set(directory.kinds(repair=repair)) == {FindingKind.DATABASE_CORRUPT}


@pytest.mark.parametrize("plant", [delete_derivative, flip_byte_of_derivative], ids=name_of)
def test_a_derivative_is_created_again_with_the_same_size(directory: DamagedDirectory, plant: Plant) -> None:
    plant(directory)
    [finding] = directory.check(repair=True)
    assert finding.repair == "created from the master"
    with PILImage.open(derivative_of(directory)) as derivative:
        assert derivative.size == directory.photo.derivatives[0]
    with ImageHost.open(directory.path, settings=SETTINGS, executor=shared_executor()) as host:
        assert host.images.get(directory.photo.id).derivatives == directory.photo.derivatives
        assert host.render(directory.photo.id, "w=500").width == 500


def test_derivatives_of_a_master_that_no_decoder_reads_are_forgotten(directory: DamagedDirectory) -> None:
    """Its record says that it was stored as it is: of an earlier version that accepted more."""
    master = b"\xff\xd8\xff\xe0 no more than this"
    (directory.folder(directory.photo) / "master").write_bytes(master)
    sql = "UPDATE images SET size = ?, sha256 = ? WHERE id = ?"
    directory.execute(sql, len(master), sha256(master).hexdigest(), directory.photo.id)
    directory.check(repair=True)
    delete_derivative(directory)
    [finding] = directory.check(repair=True)
    assert finding.repair.startswith("forgotten")
    assert directory.check() == []
    assert [path.name for path in directory.folder(directory.photo).iterdir()] == ["master"]


def test_derivatives_are_left_for_the_next_check_if_no_worker_starts_in_time(
    directory: DamagedDirectory,
) -> None:
    """A worker process takes longer than 0.1 s to start."""
    delete_derivative(directory)
    rendering = RenderingSettings(processes=1, ingest_timeout_seconds=0.1)
    impatient = attrs.evolve(SETTINGS, rendering=rendering)
    with ImageHost.open(directory.path, settings=impatient) as host:
        [finding] = host.check(repair=True)
        assert not finding.is_repaired
        assert host.images.get(directory.photo.id).derivatives == directory.photo.derivatives
    assert directory.check(repair=True)[0].is_repaired


def test_derivatives_stay_as_they_are_while_the_master_is_damaged(directory: DamagedDirectory) -> None:
    flip_byte_of_derivative(directory)
    flip_byte_of_master(directory)
    before = derivative_of(directory).read_bytes()
    for repair in (True, False):
        assert directory.kinds(repair=repair) == [
            FindingKind.DERIVATIVE_CORRUPT,
            FindingKind.MASTER_CORRUPT,
        ]
    assert not any(finding.is_repaired for finding in directory.check(repair=True))
    assert derivative_of(directory).read_bytes() == before


def test_derivatives_without_a_recorded_checksum_are_checked_for_existence(
    directory: DamagedDirectory,
) -> None:
    sizes = json.dumps(directory.photo.derivatives)
    directory.execute("UPDATE images SET derivatives = ? WHERE id = ?", sizes, directory.photo.id)
    flip_byte_of_derivative(directory)
    assert directory.check() == []
    delete_derivative(directory)
    assert directory.kinds(repair=True) == [FindingKind.DERIVATIVE_MISSING]
    with ImageHost.open(directory.path, settings=SETTINGS, executor=shared_executor()) as host:
        image = host.images.get(directory.photo.id)
        assert len(image.derivative_checksums) == len(image.derivatives) > 0


def test_every_foreign_key_of_the_schema_is_checked(directory: DamagedDirectory) -> None:
    with closing(sqlite3.connect(directory.path / "imagehost.sqlite3")) as connection:
        keys = connection.execute(
            'SELECT item.name, key."table", group_concat(key."from") FROM sqlite_schema AS item, '
            "pragma_foreign_key_list(item.name) AS key WHERE item.type = 'table' GROUP BY item.name, key.id"
        ).fetchall()
    checked = [(each.table, each.parent, ",".join(each.columns.values())) for each in REFERENCES]
    assert sorted(checked) == sorted(keys)


def test_each_of_several_batches_of_images_is_checked_once(directory: DamagedDirectory) -> None:
    """More images than one query reads: all without files."""
    columns = "account_id, filename, original_filename, description, is_public, format, size, width, height, "
    columns += "frames, has_alpha, sha256, placeholder, derivatives, created_at, updated_at"
    directory.execute(
        "WITH RECURSIVE numbers (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM numbers LIMIT 2500) "
        f"INSERT INTO images (id, {columns}) SELECT printf('%016d', value), {columns} FROM numbers, images "
        "WHERE images.id = ?",
        directory.others[0].id,
    )
    progress: list[CheckProgress] = []
    with ImageHost.open(directory.path, settings=SETTINGS) as host:
        findings = list(host.check(quick=True, progress=progress.append))
    missing = [each.id for each in findings if each.kind is FindingKind.MASTER_MISSING]
    assert missing == [f"{number:016}" for number in range(1, 2501)]
    done = [each.done for each in progress if each.check is CheckName.IMAGES]
    assert (done[0], done[-1]) == (0, 2504)
    assert done == sorted(done)
    assert {each.total for each in progress if each.check is CheckName.IMAGES} == {None, 2504}
