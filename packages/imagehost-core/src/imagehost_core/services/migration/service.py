"""Migrations: a host with all its records and files onto other engines, and back.

The files are copied first, while the host goes on to serve requests. Then its writes are held back until the
files of the images that are new since, and all records, are copied, and the host is marked as migrated. So
the new host has every write that was acknowledged, and the old one acknowledges none afterwards. A migration
that was interrupted anywhere is continued by repeating it.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack

from attrs import frozen

from imagehost_core.db.integrity import image_count
from imagehost_core.db.leases import detach_leases
from imagehost_core.db.table_copy import copy_tables
from imagehost_core.errors import ConflictError
from imagehost_core.ids import ImageId
from imagehost_core.services.migration.file_passes import DEFAULT_THREADS, FilePasses
from imagehost_core.services.migration.host_state import UnfinishedMigration, source_identity
from imagehost_core.services.migration.locations import HostLocation, name_of
from imagehost_core.services.migration.progress import MigrationCallback, MigrationProgress, MigrationStage
from imagehost_core.services.migration.stores import (
    Records,
    TargetStatus,
    open_files,
    open_source_records,
    open_target_records,
    require_empty_files,
)

log = logging.getLogger(__name__)


@frozen
class MigrationResult:
    """A complete migration.

    Attributes:
        image_count: The number of images of the host.
        row_count: The number of copied records of all kinds; 0 if the migration was complete before.
        copied: Images whose files were copied now.
        present: Images whose files the target had already.
        damaged: Images whose master is missing or has another SHA-256 than its record. Their records are
            copied, and their files are not.
        incomplete: Images with derivatives that are missing or damaged; the other files are copied.
    """

    image_count: int
    row_count: int
    copied: int
    present: int
    damaged: tuple[ImageId, ...]
    incomplete: tuple[ImageId, ...]


def migrate(
    source: HostLocation,
    target: HostLocation,
    *,
    progress: MigrationCallback | None = None,
    threads: int = DEFAULT_THREADS,
) -> MigrationResult:
    """Copy a host to other stores, and mark it as migrated; repeat it if it is interrupted.

    The host serves requests meanwhile; its writes wait while the records are copied, and are refused after.

    Args:
        source: Where the host is.
        target: Where it is to be: empty, or as an interrupted migration of the same host left it. If the
            files are to stay where they are, both have the same storage.
        progress: Called after each image, each pass over the images, and each batch of records.
        threads: Images whose files are copied at the same time, from 1.

    Raises:
        ConflictError: The target is not empty, or the host was migrated to another one.
        ValidationError: There is no host at the source.
        InsufficientStorageError: The target is full.
        UnavailableError: A store does not respond in time.
    """
    if source.database == target.database:
        raise ConflictError(f"expected another database than {name_of(source.database)} for the target")
    with ExitStack() as stack:
        old = open_source_records(source, stack)
        destination = old.state.migrated_to()
        if destination not in (None, str(target)):
            raise ConflictError(f"expected a host at {source} but it was migrated to {destination}")
        migration = UnfinishedMigration(source_identity(old.state.secret()), name_of(target.storage))
        was_migrated = destination is not None
        new, status = open_target_records(target, migration, stack, was_migrated=was_migrated)
        if status is TargetStatus.COMPLETE:
            return MigrationResult(image_count(new.database), 0, 0, 0, (), ())
        passes = _open_passes(source, target, status, stack, threads, progress)
        return _run(old, new, str(target), passes, progress)


def _open_passes(
    source: HostLocation,
    target: HostLocation,
    status: TargetStatus,
    stack: ExitStack,
    threads: int,
    progress: MigrationCallback | None,
) -> FilePasses | None:
    """Open the stores of files; return `None` if both hosts have the same."""
    if source.storage == target.storage:
        return None
    old, new = open_files(source.storage, stack), open_files(target.storage, stack)
    if status is TargetStatus.NEW:
        require_empty_files(new, target.storage)
    return stack.enter_context(FilePasses(old.blobs, new, threads, progress))


def _run(
    old: Records,
    new: Records,
    destination: str,
    passes: FilePasses | None,
    progress: MigrationCallback | None,
) -> MigrationResult:
    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(MigrationProgress(MigrationStage.RECORDS, done, total))

    if passes is not None:
        passes.copy_missing(old.database)
        # Those of the time of the first pass: few are left for the time in which writes are held back.
        passes.copy_missing(old.database)
    with (
        old.database.without_time_limit(),
        new.database.without_time_limit(),
        old.database.transaction() as reading,
    ):
        old.state.hold_writes(reading)
        log.info("writes are held back: %s", destination)
        if passes is not None:
            passes.copy_missing(reading)
        with new.database.transaction() as writing:
            rows = copy_tables(reading, writing, report)
            detach_leases(writing)
        new.state.set_secret(old.state.secret())
        old.state.mark_migrated(reading, destination)
    # From here on nothing changes the source.
    if passes is not None:
        passes.delete_unreferenced(old.database)
    new.state.finish()
    images = image_count(new.database)
    if passes is None:
        return MigrationResult(images, rows, 0, 0, (), ())
    return MigrationResult(
        images, rows, passes.copied, passes.present, tuple(passes.damaged), tuple(passes.incomplete)
    )
