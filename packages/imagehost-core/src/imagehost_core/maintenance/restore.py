"""Restore: a host from a backup and the increments after it, in the engines of the settings.

Everything is built and verified in the directory `restoring`, then moved to its place, the database last: by
the rename of a SQLite file, or by a transaction of PostgreSQL. Until then no host opens the data directory or
its store of images, so a restore that was interrupted leaves none. Images are uploaded to an object store
meanwhile; it must have none before.

The host is a new incarnation of the installation that was backed up: whatever uses the same store of images
with the earlier one collects nothing from then on.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from attrs import define, evolve, field, frozen

from imagehost_core._util.clock import to_rfc3339, utc_now
from imagehost_core._util.durable import (
    OPEN_FILES_STAY,
    make_directory,
    open_owner_only,
    read_file,
    require_free_bytes,
    sync_directory,
    sync_tree,
    translate_disk_errors,
    write_file,
)
from imagehost_core.cluster.opening import open_postgres
from imagehost_core.cluster.table_copy import copy_tables
from imagehost_core.coordination.locks import LockManager, lock_file, unlock_file
from imagehost_core.db.engines.database import Database
from imagehost_core.db.engines.installation import is_used, read_record, replace_secret, write_record
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.errors import InstallationError, InternalError, ValidationError
from imagehost_core.ids import ID_LENGTH, ImageId, is_image_id
from imagehost_core.installation import (
    RECORD_NAME,
    InstallationRecord,
    RecordState,
    parse_record,
    require_supported,
)
from imagehost_core.maintenance.archive import (
    INFO,
    SECRET,
    SETTINGS,
    SKIPPED,
    ArchiveReader,
    Member,
)
from imagehost_core.maintenance.backup import BackupInfo, BackupProgress, parse_info
from imagehost_core.maintenance.restored_files import RestoredFiles, open_restored_files
from imagehost_core.maintenance.snapshot import end_runtime_state, image_ids, open_restored
from imagehost_core.settings import FOLDER, SQLITE, Settings, redact_password
from imagehost_core.storage import DataLayout
from imagehost_core.storage.layout import IGNORED_NAMES, SECRET_BYTES

_LOCK = "lock"


@frozen
class RestoreResult:
    """A data directory that was restored.

    Attributes:
        info: The time of the last backup: the state that the host is in.
        image_count: The number of images of the host.
        removed: Images without files in any of the backups, whose records were removed: they were deleted or
            damaged while the backup was taken.
        record: The record of the installation, of a new incarnation.
    """

    info: BackupInfo
    image_count: int
    removed: tuple[ImageId, ...]
    record: InstallationRecord


def restore(
    streams: Iterable[BinaryIO],
    directory: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    records_only: bool = False,
    progress: BackupProgress | None = None,
) -> RestoreResult:
    """Restore a host from a backup and the increments after it, into the engines of the settings.

    All sessions end; API keys, passwords and everything else are as they were when the last backup was taken.

    Args:
        streams: The streams that `BackupService.write` wrote: a full backup, then increments in their order.
            One stream may contain several.
        directory: The data directory. A settings file in it is kept.
        settings: The settings that name the database and the store of images, both of which must be empty.
        records_only: Whether the files of images stay in the store, which must be that of the installation.
        progress: Called after each image of a backup.

    Raises:
        ConflictError: The directory, the database or the store of images is not empty, or is that of another
            installation; another process restores it; or the backup is of a version that is not supported.
        ValidationError: A backup is damaged or truncated, one is missing, or its settings name another
            database or store of images. The directory is as before.
        InsufficientStorageError: The disk is full.
        InternalError: The disk cannot be read or written.
        SettingsError: The object store or the engine of the database cannot be used.
        UnavailableError: The object store or the database did not respond in time.
    """
    layout = DataLayout(Path(directory).resolve())
    settings = settings or Settings()
    with (
        translate_disk_errors(),
        ExitStack() as stack,
        _staging_layout(layout, settings, records_only=records_only) as staging,
        open_restored_files(staging.layout, layout, settings.storage, records_only=records_only) as files,
    ):
        database = None
        if settings.database != SQLITE:
            database = stack.enter_context(closing(open_postgres(settings.database, settings.postgres)))
            _require_unused(database, settings.database)
        checked = None if layout.settings_file.exists() else settings
        restored = _Restored(staging.layout, files, checked, progress, records_only)
        for stream in streams:
            with closing(ArchiveReader(stream, staging.layout.root)) as reader:
                if not reader.has_archive():
                    raise ValidationError("expected a backup but received an empty file")
                restored.extract(reader)
                while reader.has_archive():
                    restored.extract(reader)
        result = restored.finish()
        sync_tree(staging.layout.root)
        # A commit without a response can be durable, so nothing is removed from here on.
        staging.is_kept = True
        files.keep(result.record)
        _publish_files(staging.layout, layout, result.record)
        if database is None:
            staging.layout.database.rename(layout.database)
            sync_directory(layout.root)
        else:
            _copy_records(staging.layout, layout.secret.read_bytes(), database, settings.database)
        files.finish(result.record)
    return result


@define
class _Staging:
    """The directory to restore in.

    Attributes:
        layout: Its layout.
        is_kept: Whether what was moved out of it stays after an error.
    """

    layout: DataLayout
    is_kept: bool = False


@contextmanager
def _staging_layout(layout: DataLayout, settings: Settings, *, records_only: bool) -> Iterator[_Staging]:
    """Create the directory to restore in, locked and empty; remove it after an error.

    Raises:
        ConflictError: The data directory is not empty, or another process restores it.
    """
    is_new = not layout.root.exists()
    make_directory(layout.root)
    staging = _Staging(DataLayout(layout.restoring), is_kept=records_only)
    _require_empty(layout, settings, records_only=records_only)
    make_directory(staging.layout.root)
    lock = lock_file(staging.layout.root / _LOCK, wait=False)
    if lock is None:
        raise InstallationError(f"expected one restore of {layout.root} at a time but another is running")
    try:
        _require_empty(layout, settings, records_only=records_only)
        _remove_interrupted(layout, records_only=records_only)
        yield staging
    except BaseException:
        try:
            _remove_interrupted(layout, records_only=staging.is_kept)
        finally:
            _remove_staging(layout, lock, is_kept=staging.is_kept and not records_only)
        if is_new:
            with suppress(OSError):
                layout.root.rmdir()
        raise
    _remove_interrupted(layout, records_only=True)
    _remove_staging(layout, lock)


def _remove_staging(layout: DataLayout, lock: int, *, is_kept: bool = False) -> None:
    path = layout.restoring / _LOCK
    if OPEN_FILES_STAY:
        unlock_file(lock)
        path.unlink(missing_ok=True)
    else:
        # Deleted first: a process that acquires the lock meanwhile would hold that of a deleted file.
        try:
            path.unlink(missing_ok=True)
        finally:
            unlock_file(lock)
    if is_kept:
        # It says that the restore can be repeated.
        return
    with suppress(FileNotFoundError):
        layout.restoring.rmdir()
    sync_directory(layout.root)


def _require_empty(layout: DataLayout, settings: Settings, *, records_only: bool) -> None:
    """Raise ConflictError unless a data directory is empty, or has only what an interrupted restore left.

    The directory may have a host whose records are replaced by those of another database.
    """
    found = {path.name for path in layout.root.iterdir() if not path.name.startswith(".")} - IGNORED_NAMES
    if records_only:
        found = set() if layout.record.exists() else {*layout.foreign_names()}
        if settings.database == SQLITE and layout.database.exists():
            found.add(layout.database.name)
    elif layout.restoring.is_dir() and not layout.database.exists() and not _has_images_of_host(layout):
        found -= {layout.restoring.name, layout.images.name, layout.secret.name, layout.record.name}
    if found:
        raise InstallationError(f"expected a new or empty directory but {layout.root} contains {min(found)}")


def _has_images_of_host(layout: DataLayout) -> bool:
    """Return whether the directory of images is that of a host, not of an interrupted restore."""
    data = read_file(layout.images / RECORD_NAME)
    return data is not None and parse_record(data, layout.images).state is not RecordState.RESTORING


def _remove_interrupted(layout: DataLayout, *, records_only: bool) -> None:
    """Remove what a restore has written, except the lock and a database in its place."""
    paths = [*layout.restoring.iterdir()]
    if not records_only and not layout.database.exists():
        paths += [layout.images, layout.secret, layout.record]
    for path in paths:
        if path.name == _LOCK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _require_unused(database: Database, url: str) -> None:
    """Raise ConflictError if a database has a host."""
    if (record := read_record(database)) is not None or is_used(database):
        received = "accounts" if record is None else f"those of {record}"
        raise InstallationError(f"expected no records in {redact_password(url)} but found {received}")


def _copy_records(staged: DataLayout, secret: bytes, database: Database, url: str) -> None:
    """Copy the restored records and the secret into a database, in one transaction."""
    with (
        closing(SqliteDatabase(staged.database, LockManager(staged.locks))) as source,
        database.without_time_limit(),
        database.transaction() as transaction,
    ):
        if read_record(transaction) is not None or is_used(transaction):
            raise InstallationError(
                f"expected no records in {redact_password(url)} but another process wrote some"
            )
        copy_tables(source, transaction)
        replace_secret(transaction, "signing", secret)
        record = read_record(source)
        assert record is not None
        write_record(transaction, record)


@define
class _Restored:
    """The directory that backups are extracted to, one after the other."""

    layout: DataLayout
    files: RestoredFiles
    checked: Settings | None
    progress: BackupProgress | None
    records_only: bool
    info: BackupInfo | None = None
    record: InstallationRecord | None = None
    skipped: set[ImageId] = field(factory=set)
    archive_count: int = 0

    def extract(self, reader: ArchiveReader) -> None:
        """Extract one archive, and verify it.

        Raises:
            ValidationError: It is damaged, or not the one that comes next.
        """
        done, previous = 0, None
        for member in reader.members():
            if member.name == INFO:
                self._begin(parse_info(member))
            elif member.name == SKIPPED:
                self.skipped |= _parse_ids(member)
            elif member.image_id is None:
                self._write(member, self.layout.root / member.name)
                if member.name == SETTINGS and self.checked is not None:
                    _require_engines(self.layout.settings_file, self.checked)
            elif (directory := self.files.directory(member.image_id)) is None:
                for _ in member.chunks():
                    pass
            else:
                self._write(member, directory / member.name.rpartition("/")[2])
                if member.image_id != previous:
                    done, previous = done + 1, member.image_id
                    self._report(done)
        self.files.complete()
        self.archive_count += 1

    def finish(self) -> RestoreResult:
        """Make the directory that of a host that was not running.

        Raises:
            ValidationError: There was no backup, its database is damaged, or files of images are missing.
        """
        if self.info is None or self.record is None:
            raise ValidationError("expected a backup but received none")
        if self.layout.secret.stat().st_size < SECRET_BYTES:
            raise ValidationError(f"expected at least {SECRET_BYTES} bytes of {SECRET} in the backup")
        database = open_restored(self.layout.database, LockManager(self.layout.locks))
        try:
            count, missing = self._find_missing(database)
            with database.transaction() as transaction:
                images = ImageRepository(database)
                accounts = AccountRepository(database)
                for image_id in missing:
                    image = images.get(image_id, transaction)
                    assert image is not None, image_id
                    images.insert_tombstone(transaction, image, utc_now())
                    accounts.add_usage(transaction, image.account_id, -image.size, 0)
                end_runtime_state(transaction)
                write_record(transaction, self.record)
            if self.archive_count > 1:
                self._remove_deleted(ImageRepository(database))
        finally:
            database.close()
        _require_no_log(self.layout.database)
        shutil.rmtree(self.layout.locks)
        return RestoreResult(self.info, count - len(missing), missing, self.record)

    def _begin(self, info: BackupInfo) -> None:
        """Raise ValidationError unless a backup is the first one, or newer than the one before."""
        received = f"one of {to_rfc3339(info.created_at)}"
        if self.info is None and info.since is not None:
            received = f"{received} with the files since {to_rfc3339(info.since)} only"
            raise ValidationError(f"expected a full backup first but received {received}")
        if self.info is not None and info.created_at <= self.info.created_at:
            expected = f"a backup after that of {to_rfc3339(self.info.created_at)}"
            raise ValidationError(f"expected {expected} but received {received}")
        if info.records_only and not self.records_only:
            raise ValidationError(f"expected a backup with images but received {received} without them")
        self._begin_incarnation(info)
        self.info = info

    def _begin_incarnation(self, info: BackupInfo) -> None:
        """Raise an error unless a backup is of the same incarnation as the one before, and supported."""
        if self.info is None:
            if info.installation is not None:
                require_supported(info.installation, "the backup", reads_only=True)
            backup_at = info.created_at if self.records_only else None
            first = info.installation or InstallationRecord(created_at=info.created_at)
            self.record = first.begin(utc_now(), backup_at)
            self.files.begin(self.record)
            return
        last, now = self.info.installation, info.installation
        if last is not None and (now is None or not now.is_same(last)):
            raise ValidationError(f"expected a backup of {last} but received one of {now or 'another host'}")
        if self.record is not None and self.records_only:
            self.record = evolve(self.record, backup_at=info.created_at)

    def _write(self, member: Member, path: Path) -> None:
        require_free_bytes(self.layout.root, member.size, 0)
        with open_owner_only(path, "wb") as file:
            for chunk in member.chunks():
                file.write(chunk)

    def _report(self, done: int) -> None:
        if self.progress is not None and self.info is not None:
            self.progress(done, self.info.image_count)

    def _find_missing(self, database: Database) -> tuple[int, tuple[ImageId, ...]]:
        """Return the number of images, and those without files.

        Raises:
            ValidationError: There are images without files which no backup lists as skipped.
        """
        count, missing = 0, []
        for image_id in image_ids(database):
            count += 1
            if not self.files.has_master(image_id):
                missing.append(image_id)
                if image_id not in self.skipped:
                    raise ValidationError(
                        f"expected the files of image {image_id} in the backups but received none: "
                        "an increment is missing"
                    )
        return count, tuple(missing)

    def _remove_deleted(self, images: ImageRepository) -> None:
        """Remove the files of images that were deleted after an earlier backup."""
        for _, deleted in images.find_unrecorded(self.files.ids()):
            for image_id in deleted:
                self.files.delete(image_id)


def _require_no_log(database: Path) -> None:
    """Raise InternalError if SQLite has not written its log to the database; closing it hides the error.

    The log would be lost, as the database is moved without it.
    """
    if any(database.with_name(f"{database.name}{suffix}").exists() for suffix in ("-wal", "-shm")):
        raise InternalError("expected a disk that works but the log of the database could not be written")


def _parse_ids(member: Member) -> set[ImageId]:
    """Return the ids in a member, which is refused at its first other line and never in memory whole."""
    ids, rest = set[ImageId](), b""
    for chunk in member.chunks():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in (text.decode("ascii", "replace") for text in lines):
            if not is_image_id(line):
                raise _invalid_id(line)
            ids.add(line)
        if len(rest) > ID_LENGTH:
            raise _invalid_id(rest.decode("ascii", "replace"))
    if rest:
        raise _invalid_id(rest.decode("ascii", "replace"))
    return ids


def _invalid_id(line: str) -> ValidationError:
    return ValidationError(f"expected ids of images in {SKIPPED}, one a line, but received {line[:40]!r}")


def _require_engines(settings_file: Path, settings: Settings) -> None:
    """Raise ValidationError if the settings of a backup name other engines than the settings."""
    try:
        values = tomllib.loads(settings_file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return  # The host that opens the directory reports it.
    section = values.get("storage", {})
    storage = section.get("url", FOLDER) if isinstance(section, dict) else FOLDER
    for setting, variable, named, used in (
        ("database", "IMAGEHOST_DATABASE", str(values.get("database", SQLITE)), settings.database),
        ("storage.url", "IMAGEHOST_STORAGE", storage, settings.storage.url),
    ):
        if named != used:
            raise ValidationError(
                f"expected {setting} {redact_password(used)!r} in the {SETTINGS} of the backup but received "
                f"{redact_password(str(named))!r}: write a {SETTINGS} with the one to use into the "
                f"directory, or set {variable}"
            )


def _publish_files(staged: DataLayout, layout: DataLayout, record: InstallationRecord) -> None:
    """Move the files of a restored host to their place, except the database."""
    if layout.settings_file.exists():
        staged.settings_file.unlink(missing_ok=True)
    write_file(staged.record, record.to_json().encode())
    for source, target in (
        (staged.images, layout.images),
        (staged.secret, layout.secret),
        (staged.record, layout.record),
        (staged.settings_file, layout.settings_file),
    ):
        with suppress(FileNotFoundError):
            source.replace(target)
    sync_directory(layout.root)
