"""The stores of the two hosts of a migration, opened without the services that would change them."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from enum import Enum
from pathlib import Path

from attrs import field, frozen

from imagehost_core.db.database import Database
from imagehost_core.db.engines import open_postgres
from imagehost_core.db.migration_state import is_empty
from imagehost_core.db.sqlite_database import SqliteDatabase
from imagehost_core.errors import ConflictError, ValidationError
from imagehost_core.services.migration.host_state import DirectoryState, HostState, UnfinishedMigration
from imagehost_core.services.migration.locations import HostLocation, name_of
from imagehost_core.services.migration.postgres_state import PostgresState
from imagehost_core.settings import PostgresSettings, StorageSettings
from imagehost_core.storage import BlobStore, DataLayout, LocalBlobStore, LockManager, StagingArea
from imagehost_core.storage.durable import make_directory
from imagehost_core.storage.image_store import open_image_store

_IGNORED = frozenset({"imagehost.toml", "lost+found"})
"""What an empty data directory may contain: settings for the new host, and the directory that ext4 creates in
each file system."""
_POSTGRES = PostgresSettings(pool_size=4, timeout_seconds=30, statement_timeout_seconds=3_600)
"""Connections for statements that copy whole tables; writes of hosts that are in progress may be slow."""
_STORAGE_TIMEOUT_SECONDS = 60.0
_CACHE_BYTES = 2**20


@frozen
class Records:
    """The database of a host.

    Attributes:
        database: The database.
        state: The host's state with regard to migrations.
    """

    database: Database = field(repr=False)
    state: HostState = field(repr=False)


@frozen
class Files:
    """The files of the images of a host.

    Attributes:
        blobs: The store.
        staging: A staging area, on the same file system if the store is a directory.
    """

    blobs: BlobStore = field(repr=False)
    staging: StagingArea = field(repr=False)


class TargetStatus(Enum):
    """The state of a target when a migration to it is begun or repeated."""

    NEW = "new"
    INTERRUPTED = "interrupted"
    COMPLETE = "complete"


def open_source_records(location: HostLocation, stack: ExitStack) -> Records:
    """Open the database of the host that is migrated.

    Raises:
        ValidationError: There is no host.
        ConflictError: The host is the unfinished target of another migration.
    """
    part = location.database
    if isinstance(part, Path) and not DataLayout(part).database.is_file():
        raise ValidationError(f"expected the data directory of a host but {part} has no database")
    records = _open_records(part, stack)
    if records.state.unfinished() is not None:
        raise ConflictError(f"expected a host in {name_of(part)} but a migration to it is not complete")
    return records


def open_target_records(
    location: HostLocation, migration: UnfinishedMigration, stack: ExitStack, *, was_migrated: bool
) -> tuple[Records, TargetStatus]:
    """Open the database to migrate to; a new one is created, and the migration is recorded there.

    Args:
        location: The target.
        migration: The migration.
        stack: Closes the database.
        was_migrated: Whether the source records that it was migrated to the target.

    Raises:
        ConflictError: It is the target of another migration, or has a host or other files.
    """
    part = location.database
    if isinstance(part, str):
        records = _open_records(part, stack)
        state, has_host = records.state, not is_empty(records.database)
    else:
        state, has_host = DirectoryState(DataLayout(part)), DataLayout(part).database.is_file()
    previous = state.unfinished()
    if previous is not None:
        _require_same(previous, migration, part)
        status = TargetStatus.INTERRUPTED
    elif was_migrated and has_host:
        status = TargetStatus.COMPLETE
    else:
        if isinstance(part, Path):
            _require_empty_directory(DataLayout(part))
            make_directory(part)
        state.begin(migration)
        status = TargetStatus.NEW
    return (records if isinstance(part, str) else _open_records(part, stack)), status


def open_files(part: Path | str, stack: ExitStack) -> Files:
    """Open the files of a host; a directory is created.

    Args:
        part: The data directory, or the URL of an object store.
        stack: Closes the store.

    Raises:
        SettingsError: The object store refuses access.
    """
    if isinstance(part, Path):
        layout = DataLayout(part)
        make_directory(layout.root)
        staging = _open_staging(layout, stack)
        return Files(LocalBlobStore(layout.images, staging), staging)
    scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="imagehost-"))
    layout = DataLayout(Path(scratch))
    staging = _open_staging(layout, stack)
    settings = StorageSettings(url=part, timeout_seconds=_STORAGE_TIMEOUT_SECONDS, cache_bytes=_CACHE_BYTES)
    # Nothing is cached: each file is read once.
    blobs = open_image_store(layout, staging, LockManager(layout.locks), settings, lambda _: False)
    return Files(blobs, staging)


def require_empty_files(files: Files, part: Path | str) -> None:
    """Raise ConflictError if a store has files of images."""
    if next(iter(files.blobs.ids()), None) is not None:
        raise ConflictError(f"expected an empty target but {name_of(part)} has files of images")


def _open_records(part: Path | str, stack: ExitStack) -> Records:
    if isinstance(part, str):
        database: Database = stack.enter_context(closing(open_postgres(part, _POSTGRES)))
        return Records(database, PostgresState(database))
    layout = DataLayout(part)
    database = SqliteDatabase(layout.database, LockManager(layout.locks), is_migration=True)
    return Records(stack.enter_context(closing(database)), DirectoryState(layout))


def _open_staging(layout: DataLayout, stack: ExitStack) -> StagingArea:
    staging = stack.enter_context(closing(StagingArea(layout.staging, 0)))
    staging.remove_stale()
    return staging


def _require_empty_directory(layout: DataLayout) -> None:
    if not layout.root.exists():
        return
    # What a migration leaves that was killed before it has recorded itself.
    ignored = {*_IGNORED, f"{layout.migrating.name}.part"}
    if found := sorted({path.name for path in layout.root.iterdir()} - ignored):
        raise ConflictError(f"expected a new or empty directory but {layout.root} contains {found[0]}")


def _require_same(previous: UnfinishedMigration, migration: UnfinishedMigration, part: Path | str) -> None:
    name = name_of(part)
    if previous.source != migration.source:
        raise ConflictError(f"expected an empty target but a migration of another host to {name} was begun")
    if previous.storage != migration.storage:
        raise ConflictError(
            f"expected the files of the migration to {name} that was begun in {previous.storage} "
            f"but received {migration.storage}"
        )
