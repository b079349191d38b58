"""Restore: a data directory from a backup and the increments after it.

Everything is built and verified in the directory `restoring`, then moved to its place, the database last.
Until then no host opens the data directory, so a restore that was interrupted leaves none. If the settings
name an object store, images are uploaded to it meanwhile; it must have none before.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from attrs import define, field, frozen

from imagehost_core._util.clock import to_rfc3339, utc_now
from imagehost_core.db import AccountRepository, Database, ImageRepository
from imagehost_core.db.snapshot import end_runtime_state, image_ids, open_restored
from imagehost_core.errors import ConflictError, InternalError, ValidationError
from imagehost_core.ids import ID_LENGTH, ImageId, is_image_id
from imagehost_core.services.backup import BackupInfo, BackupProgress, parse_info
from imagehost_core.services.restored_files import RestoredFiles, open_restored_files
from imagehost_core.settings import FOLDER, StorageSettings
from imagehost_core.storage import DataLayout, LockManager
from imagehost_core.storage.archive import (
    DATABASE,
    INFO,
    SECRET,
    SETTINGS,
    SKIPPED,
    ArchiveReader,
    Member,
)
from imagehost_core.storage.durable import (
    OPEN_FILES_STAY,
    make_directory,
    open_owner_only,
    require_free_bytes,
    sync_directory,
    sync_tree,
    translate_disk_errors,
)
from imagehost_core.storage.layout import SECRET_BYTES
from imagehost_core.storage.locks import lock_file, unlock_file

_BATCH = 1_000
_LOCK = "lock"
_IGNORED = frozenset({SETTINGS, "lost+found"})
"""The names of files that an empty data directory may contain: settings for the new host, and the directory
that ext4 creates in each file system."""


@frozen
class RestoreResult:
    """A data directory that was restored.

    Attributes:
        info: The time of the last backup: the state that the host is in.
        image_count: The number of images of the host.
        removed: Images without files in any of the backups, whose records were removed: they were deleted or
            damaged while the backup was taken.
    """

    info: BackupInfo
    image_count: int
    removed: tuple[ImageId, ...]


def restore(
    streams: Iterable[BinaryIO],
    directory: str | os.PathLike[str],
    *,
    progress: BackupProgress | None = None,
    storage: StorageSettings | None = None,
) -> RestoreResult:
    """Restore a host from a backup and the increments after it, into a new or empty data directory.

    All sessions end; API keys, passwords and everything else are as they were when the last backup was taken.

    Args:
        streams: The streams that `BackupService.write` wrote: a full backup, then increments in their order.
            One stream may contain several.
        directory: The data directory. A settings file in it is kept.
        progress: Called after each image of a backup.
        storage: The settings of the store of images; by default they are stored in the directory.

    Raises:
        ConflictError: The directory or the object store is not empty, or another process restores it.
        ValidationError: A backup is damaged or truncated, one is missing, or its settings name another store
            of images than `storage`. The directory is as before.
        InsufficientStorageError: The disk is full.
        InternalError: The disk cannot be read or written.
        SettingsError: The object store cannot be used.
        UnavailableError: The object store did not respond in time.
    """
    layout = DataLayout(Path(directory).resolve())
    storage = storage or StorageSettings()
    was_interrupted = layout.is_restoring
    with (
        translate_disk_errors(),
        _staging_layout(layout) as staged,
        open_restored_files(staged, storage, may_have_images=was_interrupted) as files,
    ):
        settings_url = None if layout.settings_file.exists() else storage.url
        restored = _Restored(staged, files, settings_url, progress)
        for stream in streams:
            with closing(ArchiveReader(stream, staged.root)) as reader:
                if not reader.has_archive():
                    raise ValidationError("expected a backup but received an empty file")
                restored.extract(reader)
                while reader.has_archive():
                    restored.extract(reader)
        result = restored.finish()
        sync_tree(staged.root)
        _publish(staged, layout)
    return result


@contextmanager
def _staging_layout(layout: DataLayout) -> Iterator[DataLayout]:
    """Create the directory to restore in, locked and empty; remove it after an error.

    Raises:
        ConflictError: The data directory is not empty, or another process restores it.
    """
    is_new = not layout.root.exists()
    make_directory(layout.root)
    staged = DataLayout(layout.restoring)
    _require_empty(layout)
    make_directory(staged.root)
    lock = lock_file(staged.root / _LOCK, wait=False)
    if lock is None:
        raise ConflictError(f"expected one restore of {layout.root} at a time but another is running")
    try:
        _require_empty(layout)
        _remove_interrupted(layout)
        yield staged
    except BaseException:
        try:
            _remove_interrupted(layout)
        finally:
            _remove_staging(layout, lock)
        if is_new:
            with suppress(OSError):
                layout.root.rmdir()
        raise
    _remove_staging(layout, lock)


def _remove_staging(layout: DataLayout, lock: int) -> None:
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
    with suppress(FileNotFoundError):
        layout.restoring.rmdir()
    sync_directory(layout.root)


def _require_empty(layout: DataLayout) -> None:
    """Raise ConflictError unless a data directory is empty, or has only what an interrupted restore left."""
    leftover = (
        {layout.restoring.name, layout.images.name, layout.secret.name} if layout.is_restoring else set()
    )
    if found := sorted({path.name for path in layout.root.iterdir()} - _IGNORED - leftover):
        raise ConflictError(f"expected a new or empty directory but {layout.root} contains {found[0]}")


def _remove_interrupted(layout: DataLayout) -> None:
    """Remove what a restore has written, except the lock and a database in its place."""
    if layout.database.exists():
        return
    for path in (layout.images, layout.secret, *layout.restoring.iterdir()):
        if path.name == _LOCK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@define
class _Restored:
    """The directory that backups are extracted to, one after the other."""

    layout: DataLayout
    files: RestoredFiles
    settings_url: str | None
    progress: BackupProgress | None
    info: BackupInfo | None = None
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
                if member.name == SETTINGS and self.settings_url is not None:
                    _require_store(self.layout.settings_file, self.settings_url)
            else:
                directory = self.files.directory(member.image_id)
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
        if self.info is None:
            raise ValidationError("expected a backup but received none")
        if self.layout.secret.stat().st_size < SECRET_BYTES:
            raise ValidationError(f"expected at least {SECRET_BYTES} bytes of {SECRET} in the backup")
        database = open_restored(self.layout.database, LockManager(self.layout.locks))
        try:
            count, missing = self._find_missing(database)
            with database.transaction() as transaction:
                images, accounts = ImageRepository(database), AccountRepository(database)
                for image_id in missing:
                    image = images.get(image_id, transaction)
                    assert image is not None, image_id
                    images.insert_tombstone(transaction, image, utc_now())
                    accounts.add_usage(transaction, image.account_id, -image.size, 0)
                end_runtime_state(transaction)
            if self.archive_count > 1:
                self._remove_deleted(ImageRepository(database))
        finally:
            database.close()
        _require_no_log(self.layout.database)
        shutil.rmtree(self.layout.locks)
        return RestoreResult(self.info, count - len(missing), missing)

    def _begin(self, info: BackupInfo) -> None:
        """Raise ValidationError unless a backup is the first one, or newer than the one before."""
        received = f"one of {to_rfc3339(info.created_at)}"
        if self.info is None and info.since is not None:
            received = f"{received} with the files since {to_rfc3339(info.since)} only"
            raise ValidationError(f"expected a full backup first but received {received}")
        if self.info is not None and info.created_at <= self.info.created_at:
            expected = f"a backup after that of {to_rfc3339(self.info.created_at)}"
            raise ValidationError(f"expected {expected} but received {received}")
        self.info = info

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
        ids = self.files.ids()
        while batch := set(islice(ids, _BATCH)):
            for image_id in batch - images.existing(batch):
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


def _require_store(settings_file: Path, url: str) -> None:
    """Raise ValidationError if the settings of a backup name another store of images than a URL."""
    try:
        section = tomllib.loads(settings_file.read_text(encoding="utf-8")).get("storage", {})
        named = section.get("url", FOLDER) if isinstance(section, dict) else FOLDER
    except (ValueError, RecursionError):
        return  # The host that opens the directory reports it.
    if named != url:
        raise ValidationError(
            f"expected storage.url {url!r} in the {SETTINGS} of the backup but received {named!r}: "
            f"write a {SETTINGS} with the store to use into the directory, or set IMAGEHOST_STORAGE"
        )


def _publish(staged: DataLayout, layout: DataLayout) -> None:
    """Move the files of a restored host to their place, the database last."""
    if layout.database.exists():
        raise ConflictError(f"expected a new or empty directory but {layout.root} contains {DATABASE}")
    if layout.settings_file.exists():
        staged.settings_file.unlink(missing_ok=True)
    for source, target in (
        (staged.images, layout.images),
        (staged.secret, layout.secret),
        (staged.settings_file, layout.settings_file),
    ):
        with suppress(FileNotFoundError):
            source.rename(target)
    sync_directory(layout.root)
    staged.database.rename(layout.database)
    sync_directory(layout.root)
