"""Garbage collection of a whole data directory: all that nothing refers to, and all that has expired.

What a server removes every minute is recorded, so that a data directory without garbage is not searched: an
unfinished deletion has a tombstone in the database, and a process that died leaves its staging directory,
which becomes a marker. `GarbageService` searches all directories and tables for the rest. It finds files as
the integrity check does, under the lock of their image, so that it cannot race an upload: an upload holds the
lock of its image until the record is committed.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import (
    Database,
    IdempotencyRepository,
    ImageRepository,
    OutboxRepository,
    SessionRepository,
)
from imagehost_core.errors import ConflictError, UnavailableError
from imagehost_core.ids import ImageId
from imagehost_core.maintenance.check.database_checks import DatabaseChecker
from imagehost_core.maintenance.check.unreferenced_files import UnreferencedFileChecker
from imagehost_core.maintenance.installation import InstallationGuard
from imagehost_core.services.deletion import ImageEraser
from imagehost_core.services.idempotency import RETENTION
from imagehost_core.storage import (
    BlobStore,
    DiskReserve,
    GenerationTable,
    LockManager,
    StagingArea,
)
from imagehost_core.storage.cache.variant_cache import VariantCache


@frozen
class ExpiredCounts:
    """Numbers of expired records.

    Attributes:
        sessions: Sessions past their lifetime.
        idempotency_keys: Idempotency keys past their retention of 24 hours.
        events: Events past their retention whose deliveries are all finished.
    """

    sessions: int
    idempotency_keys: int
    events: int


@frozen
class ExpiredRecords:
    """The expired records of a host. Its services ignore them, and delete them from time to time."""

    _database: Database = field(repr=False)
    _sessions: SessionRepository = field(repr=False)
    _idempotency: IdempotencyRepository = field(repr=False)
    _outbox: OutboxRepository = field(repr=False)
    _event_retention: timedelta = field(repr=False)
    _clock: Clock = field(repr=False)

    def count(self) -> ExpiredCounts:
        """Return the numbers of expired records."""
        now = self._clock()
        return ExpiredCounts(
            sessions=self._sessions.count_expired(now),
            idempotency_keys=self._idempotency.count_before(now - RETENTION),
            events=self._outbox.count_before(now - self._event_retention),
        )

    def delete(self) -> ExpiredCounts:
        """Delete the expired records, and return their numbers."""
        now = self._clock()
        with self._database.transaction() as transaction:
            return ExpiredCounts(
                sessions=self._sessions.delete_expired(transaction, now),
                idempotency_keys=self._idempotency.delete_before(transaction, now - RETENTION),
                events=self._outbox.delete_before(transaction, now - self._event_retention),
            )


@frozen(kw_only=True)
class GarbageReport:
    """What a garbage collection removed, or would remove.

    Attributes:
        orphans: The ids of images whose files were stored without a record: of uploads that crashed.
        unfinished_deletions: The number of deleted images of which files were left.
        variants_without_image: The number of missing images of which variants were cached.
        evicted_variants: The number of variants evicted from the cache, the least recently used first.
        staging_directories: The number of staging directories of processes that had exited.
        unsent_events: The number of events that were to be sent to no webhook.
        expired_sessions: The number of sessions past their lifetime.
        expired_idempotency_keys: The number of idempotency keys past their 24 hours.
        expired_events: The number of webhook events past their retention.
        bytes: The bytes of the files.
    """

    orphans: tuple[ImageId, ...]
    unfinished_deletions: int
    variants_without_image: int
    evicted_variants: int
    staging_directories: int
    unsent_events: int
    expired_sessions: int
    expired_idempotency_keys: int
    expired_events: int
    bytes: int


@frozen
class GarbageService:
    """The garbage collection of a data directory."""

    _unreferenced: UnreferencedFileChecker = field(repr=False)
    _database: DatabaseChecker = field(repr=False)
    _expired: ExpiredRecords = field(repr=False)
    _variants: VariantCache = field(repr=False)
    _staging: StagingArea = field(repr=False)
    _locks: LockManager = field(repr=False)
    _installation: InstallationGuard = field(repr=False)

    def collect(
        self, *, dry_run: bool = False, allow_many: bool = False, allow_newer: bool = False
    ) -> GarbageReport:
        """Remove what nothing refers to, what has expired, and variants above the cache's limit.

        Args:
            dry_run: Whether to remove nothing.
            allow_many: Whether to remove files without a record of more than 100 images and 2 % of all.
            allow_newer: Whether to remove those too that are newer than a backup whose records were restored.

        Raises:
            ConflictError: Files without a record are many, or the installation is another.
        """
        repair = not dry_run
        with self._locks.acquire("collect"):
            staging = list(self._unreferenced.check_staging(repair=repair))
            if not dry_run:
                # Of deletions that failed in processes that run.
                self._staging.remove_stale()
            markers = self._staging.incomplete_markers()
            deletions = list(self._unreferenced.check_deletions(repair=repair))
            orphans = list(
                self._unreferenced.check_orphans(
                    repair=repair, allow_many=allow_many, allow_newer=allow_newer
                )
            )
            if all(finding.is_repaired for finding in orphans):
                # The files that the markers announced were searched for.
                for marker in () if dry_run else markers:
                    marker.unlink(missing_ok=True)
            if allow_newer and repair and self._installation.record.backup_at is not None:
                self._installation.forget_backup()
        variants = list(self._unreferenced.check_variants(repair=repair))
        if not dry_run:
            self._unreferenced.evict_cached()
        shared, shared_bytes = self._unreferenced.delete_shared_variants(dry_run=dry_run)
        swept = self._variants.sweep(dry_run=dry_run), self._variants.sweep_shared(dry_run=dry_run)
        events = list(self._database.check_events(repair=repair))
        expired = self._expired.count() if dry_run else self._expired.delete()
        removed = [finding for finding in (*orphans, *variants) if finding.is_repaired or dry_run]
        return GarbageReport(
            orphans=tuple(ImageId(finding.id) for finding in orphans if finding.is_repaired or dry_run),
            unfinished_deletions=len(deletions),
            variants_without_image=len(variants) + shared,
            evicted_variants=sum(count for count, _ in swept),
            staging_directories=len(staging),
            unsent_events=len(events),
            expired_sessions=expired.sessions,
            expired_idempotency_keys=expired.idempotency_keys,
            expired_events=expired.events,
            bytes=shared_bytes + sum(size for _, size in swept) + sum(finding.size for finding in removed),
        )


log = logging.getLogger(__name__)


@frozen
class GarbageCollector:
    """The collector of files that crashes and failed deletions left in a data directory."""

    _images: ImageRepository = field(repr=False)
    _blobs: BlobStore = field(repr=False)
    _locks: LockManager = field(repr=False)
    _generations: GenerationTable = field(repr=False)
    _staging: StagingArea = field(repr=False)
    _reserve: DiskReserve = field(repr=False)
    _eraser: ImageEraser = field(repr=False)
    _installation: InstallationGuard = field(repr=False)

    def finish_deletions(self) -> None:
        """Erase the remaining files of deleted images, left by processes that died or by failed attempts.

        Files that cannot be erased now are left for the next call, and do not stop the others.
        """
        tombstones = self._images.tombstones()
        if tombstones:
            self._installation.require_unchanged()
        for image_id in tombstones:
            with self._locks.acquire("image", image_id), self._generations.bump(image_id):
                # A deletion in progress held the lock and may have finished meanwhile.
                if self._images.tombstone(image_id) is not None:
                    self._eraser.erase([image_id])

    def collect_marked(self) -> tuple[ImageId, ...]:
        """Collect the files that a tombstone or a marker announces.

        Without any, this lists one directory and makes one query, in one process at a time: it can be called
        every minute in every process.

        Returns:
            The ids of uploads that crashed before their record was written.
        """
        with self._locks.try_acquire("collect") as acquired:
            if not acquired:
                return ()
            self._staging.remove_stale()
            self.finish_deletions()
            self._reserve.acquire()
            # Files that are too new would be left, and searching a whole store for them is expensive.
            markers = self._staging.incomplete_markers(self._blobs.upload_grace_seconds)
            return self._remove_orphans(markers) if markers else ()

    def _remove_orphans(self, markers: tuple[Path, ...]) -> tuple[ImageId, ...]:
        """Remove all files without a record, then the markers that were there before."""
        found: tuple[ImageId, ...] = ()
        try:
            found = self._installation.unrecorded(self._images, collect=True)
        except ConflictError as error:
            # It is said once, not every minute: the markers are removed.
            log.error("files without a record are not removed: %s", error.details)
        outcomes = {image_id: self._remove_orphan(image_id) for image_id in found}
        if None not in outcomes.values():
            for marker in markers:
                marker.unlink(missing_ok=True)
        removed = tuple(image_id for image_id, was_orphan in outcomes.items() if was_orphan)
        if removed:
            log.warning("removed files of incomplete uploads: count=%d", len(removed))
        return removed

    def _remove_orphan(self, image_id: ImageId) -> bool | None:
        """Remove the files of an orphan; return whether it was one.

        Returns:
            `None` if the files are left: they could not be removed, or another host may be uploading them.
            Those that are newer than a restored backup are none.
        """
        # An upload in progress holds the lock until its record is committed.
        with self._locks.acquire("image", image_id):
            is_orphan = not self._images.exists(image_id) and self._blobs.has(image_id)
            if is_orphan:
                try:
                    if self._blobs.may_be_uploading(image_id):
                        return None
                    if self._installation.is_protected(image_id, allow_newer=False):
                        return False
                    self._blobs.delete(image_id)
                except (OSError, UnavailableError):
                    log.exception("cannot remove files without a record: image=%s", image_id)
                    return None
        return is_orphan
