"""Unfinished deletions and uploads: finished by the next attempt or by cleanup."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.core.services.conftest import Stores
from tests.core.services.orphans import store_orphan
from tests.waiting import PATIENCE

from imagehost_core import ImageHost, InternalError, NotFoundError
from imagehost_core.events import Event
from imagehost_core.models import Image
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from tests.programs import Program

PNG = make_image(40, 30)
LookInto = Callable[[Path], list[str]]

DIE_BEFORE_THE_RECORD = """
    import os, signal, sys
    from imagehost_core import ImageHost, Settings
    from imagehost_core.settings import RenderingSettings
    from imagehost_core.testing import make_image

    rename = os.rename

    def die(source, target, **more):
        rename(source, target, **more)
        if "/images/" in str(target):
            os.kill(os.getpid(), signal.SIGKILL)

    with ImageHost.open(sys.argv[1], settings=Settings(rendering=RenderingSettings(processes=1))) as host:
        os.rename = die
        host.upload(make_image(40, 30), owner="admin")
"""


class Disk:
    """A disk that refuses to remove some files for a while."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused: str | None = None
        self.attempts = 0
        self._unlink = os.unlink
        monkeypatch.setattr(os, "unlink", self._remove)

    def _remove(self, path: str | Path, *, dir_fd: int | None = None) -> None:
        if self.refused is not None and self.refused in str(path):
            self.attempts += 1
            raise OSError(5, "Input/output error", str(path))
        self._unlink(path, dir_fd=dir_fd)

    @contextmanager
    def refusing(self, name: str) -> Iterator[None]:
        """Refuse to remove files with a matching name while the block runs."""
        self.refused = name
        try:
            yield
        finally:
            self.refused = None


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def failed(host: ImageHost, disk: Disk) -> Image:
    """An image whose deletion failed after its record and variants were gone and its files were moved."""
    image = host.upload(PNG, owner="admin", convert_to_webp=False)
    host.render(image.id, "w=10")
    with disk.refusing("master"), pytest.raises(InternalError, match="Input/output error"):
        host.images.delete(image.id, owner="admin")
    return image


# A deletion that failed.


def test_a_failed_deletion_is_finished_by_deleting_again(
    host: ImageHost, folder: Path, stored_files: LookInto, failed: Image, stores: Stores
) -> None:
    assert any(path.endswith("/master") for path in stored_files(folder))
    gone = host.images.delete(failed.id, owner="admin")
    assert (gone.id, gone.deleted) == (failed.id, True)
    assert stored_files(folder) == []
    assert stores(host).records.images.tombstones() == ()
    with pytest.raises(NotFoundError):
        host.images.delete(failed.id, owner="admin")


@pytest.mark.parametrize("collect", ["cleanup", "collect_garbage", "open"])
def test_a_failed_deletion_is_finished_by_the_next_collection(
    host: ImageHost,
    folder: Path,
    stored_files: LookInto,
    failed: Image,
    opened: Callable[..., ImageHost],
    collect: str,
    stores: Stores,
) -> None:
    """Also by another process, though the files are in the staging directory of the first."""
    other = opened(folder)
    if collect == "cleanup":
        assert other.maintenance.cleanup() == ()
    if collect == "collect_garbage":
        assert other.maintenance.collect_garbage().orphans == ()
    assert stored_files(folder) == []
    assert stores(host).records.images.tombstones() == ()


def test_files_that_cannot_be_removed_keep_their_tombstone_and_stop_no_other_deletion(
    host: ImageHost, folder: Path, stored_files: LookInto, failed: Image, disk: Disk, stores: Stores
) -> None:
    second = host.upload(PNG, owner="admin")
    with stores(host).records.database.transaction() as transaction:
        stores(host).records.images.insert_tombstone(transaction, second, second.created_at)
        stores(host).records.accounts.add_usage(transaction, second.account_id, -second.size, 0)
    master = stores(host).layout.images / second.id[:2] / second.id / "master"
    master.rename(master.with_name("under another name"))
    with disk.refusing("master"):
        host.maintenance.cleanup()
    assert stores(host).records.images.tombstones() == (failed.id,)
    host.maintenance.cleanup()
    assert stores(host).records.images.tombstones() == ()
    assert stored_files(folder) == []


def test_a_host_with_files_that_cannot_be_removed_can_be_opened(
    folder: Path, failed: Image, disk: Disk, opened: Callable[..., ImageHost], stores: Stores
) -> None:
    with disk.refusing("master"):
        other = opened(folder)
        assert stores(other).records.images.tombstones() == (failed.id,)
    other.maintenance.cleanup()
    assert stores(other).records.images.tombstones() == ()


def test_only_the_owner_can_finish_a_failed_deletion(host: ImageHost, failed: Image, stores: Stores) -> None:
    host.accounts.create("foreign")
    with pytest.raises(NotFoundError) as foreign:
        host.images.delete(failed.id, owner=host.accounts.get("foreign"))
    assert stores(host).records.images.tombstones() == (failed.id,)
    assert host.images.delete(failed.id, owner=host.accounts.get("admin")).id == failed.id
    with pytest.raises(NotFoundError) as missing:
        host.images.delete(failed.id, owner="admin")
    assert str(foreign.value) == str(missing.value)
    host.accounts.delete("foreign")


def test_one_of_many_concurrent_attempts_finishes_a_deletion(host: ImageHost, failed: Image) -> None:
    def delete(_turn: int) -> bool:
        try:
            return host.images.delete(failed.id).id == failed.id
        except NotFoundError:
            return False

    with ThreadPoolExecutor(8) as executor:
        assert sum(executor.map(delete, range(16))) == 1


def test_a_failed_deletion_emits_one_event_and_frees_its_bytes_once(host: ImageHost, disk: Disk) -> None:
    reported: list[Event] = []
    image = host.upload(PNG, owner="admin")
    end = host.subscribe(reported.append)
    with disk.refusing("master"), pytest.raises(InternalError, match="Input/output error"):
        host.images.delete(image.id)
    assert [event.type for event in reported] == ["image.deleted"]
    assert host.accounts.usage("admin").bytes == 0
    host.images.delete(image.id)
    end()
    assert len(reported) == 1
    assert host.accounts.usage("admin").bytes == 0


def test_an_album_stays_until_the_files_of_its_images_are_removed(
    host: ImageHost, folder: Path, stored_files: LookInto, disk: Disk
) -> None:
    album = host.albums.create(owner="admin", name="a")
    host.upload(PNG, owner="admin", album_id=album.id)
    for _ in range(2):
        with disk.refusing("master"), pytest.raises(InternalError, match="Input/output error"):
            host.albums.delete(album.id, owner="admin", delete_images=True)
    host.albums.delete(album.id, owner="admin", delete_images=True)
    assert stored_files(folder) == []
    with pytest.raises(NotFoundError):
        host.albums.get(album.id, owner="admin")


def test_an_account_stays_until_the_files_of_its_images_are_removed(
    host: ImageHost, folder: Path, stored_files: LookInto, disk: Disk
) -> None:
    host.upload(PNG, owner=host.accounts.get_or_create("leaving"))
    for _ in range(2):
        with disk.refusing("master"), pytest.raises(InternalError, match="Input/output error"):
            host.accounts.delete("leaving")
    host.accounts.delete("leaving")
    assert stored_files(folder) == []
    with pytest.raises(NotFoundError):
        host.accounts.get("leaving")


# Tidying up.


def test_cleanup_looks_for_orphans_once_after_a_process_died(
    host: ImageHost, folder: Path, stored_files: LookInto, program: Callable[..., Program], stores: Stores
) -> None:
    assert program(DIE_BEFORE_THE_RECORD, folder).end() == -9
    (left,) = {path.split("/")[2] for path in stored_files(folder) if path.startswith("images/")}
    assert host.maintenance.cleanup() == (left,)
    assert stored_files(folder) == []
    assert stores(host).files.staging.incomplete_markers() == ()
    without_a_sign = store_orphan(stores(host))
    assert host.maintenance.cleanup() == ()
    assert host.maintenance.collect_garbage().orphans == (without_a_sign,)


def test_opening_after_a_crash_keeps_the_marker_for_cleanup(
    host: ImageHost, folder: Path, program: Callable[..., Program], opened: Callable[..., ImageHost]
) -> None:
    assert program(DIE_BEFORE_THE_RECORD, folder).end() == -9
    other = opened(folder)
    assert len(other.maintenance.cleanup()) == 1
    assert host.maintenance.cleanup() == ()


def test_removal_of_an_orphan_is_retried(
    host: ImageHost, folder: Path, stored_files: LookInto, disk: Disk, stores: Stores
) -> None:
    stores(host).files.staging.mark_incomplete("test")
    stored, stuck = store_orphan(stores(host)), store_orphan(stores(host))
    master = stores(host).layout.images / stored[:2] / stored / "master"
    master.rename(master.with_name("under another name"))
    with disk.refusing("master"):
        assert host.maintenance.cleanup() == (stored,)
        assert stores(host).files.staging.incomplete_markers() != ()
    assert host.maintenance.cleanup() == ()
    assert stores(host).files.staging.incomplete_markers() == ()
    assert stored_files(folder) == []
    assert not stores(host).files.blobs.has(stuck)


def test_one_process_cleans_up_at_a_time_and_the_others_do_not_wait(host: ImageHost, stores: Stores) -> None:
    stores(host).files.staging.mark_incomplete("test")
    left = store_orphan(stores(host))
    with stores(host).files.locks.acquire("collect", ""):
        assert host.maintenance.cleanup() == ()
        assert stores(host).files.blobs.has(left)
    assert host.maintenance.cleanup() == (left,)


def test_cleanup_concurrent_with_uploads_and_deletions_removes_none_of_their_files(
    host: ImageHost, folder: Path, stored_files: LookInto, stores: Stores
) -> None:
    ended = threading.Event()

    def tidy() -> list[str]:
        found: list[str] = []
        while not ended.is_set():
            stores(host).files.staging.mark_incomplete("test")
            found += host.maintenance.cleanup()
        return found

    def work(seed: int) -> bytes:
        image = host.upload(make_image(40, 30, seed=seed), owner="admin", convert_to_webp=False)
        data = host.render(image.id).data
        host.images.delete(image.id)
        return data

    with ThreadPoolExecutor(6) as executor:
        tidying = executor.submit(tidy)
        samples = list(executor.map(work, range(12)))
        ended.set()
        assert tidying.result(PATIENCE) == []
    assert samples == [make_image(40, 30, seed=seed) for seed in range(12)]
    assert stored_files(folder) == []


# An upload that fails, and then cannot be undone.


@pytest.fixture
def broken(host: ImageHost, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Run SQL that breaks the database when the files of an upload are put in place."""
    rename, database = os.rename, sqlite3.connect(folder / "imagehost.sqlite3", isolation_level=None)

    def break_by(sql: str) -> None:
        def broken_rename(source: Path, target: Path) -> None:
            rename(source, target)
            if target.parent.parent == folder / "images":
                database.execute(sql)

        monkeypatch.setattr(os, "rename", broken_rename)

    yield break_by
    monkeypatch.setattr(os, "rename", rename)
    database.close()


NO_MORE = "CREATE TRIGGER no_more BEFORE INSERT ON images BEGIN SELECT RAISE(ABORT, 'no more'); END"


def test_an_upload_whose_commit_fails_leaves_nothing(
    host: ImageHost, folder: Path, stored_files: LookInto, broken: Callable[[str], None], stores: Stores
) -> None:
    broken(NO_MORE)
    with pytest.raises(sqlite3.IntegrityError, match="no more"):
        host.upload(PNG, owner="admin")
    mend(folder, "DROP TRIGGER no_more")
    assert stored_files(folder) == []
    assert stores(host).files.staging.incomplete_markers() == ()


def test_a_failed_upload_raises_the_first_error_though_its_files_cannot_be_removed(
    host: ImageHost,
    folder: Path,
    stored_files: LookInto,
    broken: Callable[[str], None],
    disk: Disk,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken(NO_MORE)
    with disk.refusing("master"), pytest.raises(sqlite3.IntegrityError, match="no more"):
        host.upload(PNG, owner="admin")
    mend(folder, "DROP TRIGGER no_more")
    assert "cannot remove files of a failed upload" in caplog.text
    assert stored_files(folder) != []
    host.maintenance.cleanup()
    assert stored_files(folder) == []


def test_a_failed_upload_raises_the_first_error_though_its_record_cannot_be_read(
    host: ImageHost, folder: Path, stored_files: LookInto, broken: Callable[[str], None]
) -> None:
    """The files stay, since there may be a record, until the database can be read."""
    broken("ALTER TABLE images RENAME TO images_elsewhere")
    with pytest.raises(sqlite3.OperationalError, match="no such table") as caught:
        host.upload(PNG, owner="admin")
    assert caught.value.__context__ is None, "the first error, and not one that came of it"
    mend(folder, "ALTER TABLE images_elsewhere RENAME TO images")
    assert len(host.maintenance.cleanup()) == 1
    assert stored_files(folder) == []


def mend(folder: Path, sql: str) -> None:
    with closing(sqlite3.connect(folder / "imagehost.sqlite3", isolation_level=None)) as database:
        database.execute(sql)
