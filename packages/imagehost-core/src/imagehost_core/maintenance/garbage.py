"""Garbage collection of a whole data directory: all that nothing refers to, and all that has expired.

What a server removes every minute is recorded, so that a data directory without garbage is not searched: an
unfinished deletion has a tombstone in the database, and a process that died leaves its staging directory,
which becomes a marker. `collect` searches all directories and tables for the rest. It finds files as
the integrity check does, under the lock of their image, so that it cannot race an upload: an upload holds the
lock of its image until the record is committed.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import ConflictError, UnavailableError
from imagehost_core.ids import ImageId
from imagehost_core.maintenance.check.unreferenced_files import UnreferencedFileChecker
from imagehost_core.maintenance.installation import InstallationGuard
from imagehost_core.services.idempotency import RETENTION
from imagehost_core.storage.image_files import ImageFiles


@frozen(kw_only=True)
class GarbageReport:
    """What a garbage collection removed, or would remove.

    Attributes:
        orphans: The ids of images whose files were stored without a record: of uploads that crashed.
        unfinished_deletions: The number of deleted images of which files were left.
        variants_without_image: The number of missing images of which variants were cached.
        evicted_variants: The number of variants evicted from the cache, the least recently used first.
        staging_directories: The number of staging directories of processes that had exited.
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
    expired_sessions: int
    expired_idempotency_keys: int
    expired_events: int
    bytes: int


log = logging.getLogger(__name__)


@frozen
class GarbageCollector:
    """The garbage collection of a data directory."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _installation: InstallationGuard = field(repr=False)
    _event_retention: timedelta = field(repr=False)
    _missed_changes: Event = field(repr=False)
    _clock: Clock = field(repr=False)

    def finish_deletions(self) -> None:
        """Erase the remaining files of deleted images, left by processes that died or by failed attempts.

        Files that cannot be erased now are left for the next call, and do not stop the others.
        """
        for _ in self._unreferenced().check_deletions(repair=True):
            pass

    def remove_copies(self) -> None:
        """Remove what this host has in `cache/` and `variants/` of images that other hosts have deleted.

        While it is reached they wait for that, but not while it is stopped or cut off.
        """
        if not self._records.database.dialect.is_shared:
            return
        # Before: it may be set again meanwhile.
        self._missed_changes.clear()
        try:
            for _ in self._unreferenced().check_variants(repair=True):
                pass
            self._unreferenced().evict_cached()
        except BaseException:
            self._missed_changes.set()
            raise

    def collect_marked(self) -> tuple[ImageId, ...]:
        """Collect the files that a tombstone or a marker announces.

        Without any, this lists one directory and makes one query, in one process at a time: it can be called
        every minute in every process. Copies are looked through after this process was cut off.

        Returns:
            The ids of uploads that crashed before their record was written.
        """
        with self._files.locks.try_acquire("collect") as acquired:
            if not acquired:
                return ()
            self._files.staging.remove_stale()
            self.finish_deletions()
            if self._missed_changes.is_set():
                self.remove_copies()
            self._files.reserve.acquire()
            # Files that are too new would be left, and searching a whole store for them is expensive.
            markers = self._files.staging.incomplete_markers(self._files.blobs.upload_grace_seconds)
            return self._remove_orphans(markers) if markers else ()

    def _remove_orphans(self, markers: tuple[Path, ...]) -> tuple[ImageId, ...]:
        """Remove all files without a record, then the markers that were there before."""
        found: tuple[ImageId, ...] = ()
        try:
            found = self._installation.unrecorded(self._records.images, collect=True)
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
        with self._files.locks.acquire("image", image_id):
            is_orphan = self._files.blobs.has(image_id) and not self._records.images.is_recorded(image_id)
            if is_orphan:
                try:
                    if self._files.blobs.may_be_uploading(image_id):
                        return None
                    if self._installation.is_protected(image_id, allow_newer=False):
                        return False
                    self._files.blobs.delete(image_id)
                except (OSError, UnavailableError):
                    log.exception("cannot remove files without a record: image=%s", image_id)
                    return None
        return is_orphan

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
        unreferenced = self._unreferenced()
        now = self._clock()
        with self._files.locks.acquire("collect"):
            staging = list(unreferenced.check_staging(repair=repair))
            if not dry_run:
                # Of deletions that failed in processes that run.
                self._files.staging.remove_stale()
            markers = self._files.staging.incomplete_markers()
            deletions = list(unreferenced.check_deletions(repair=repair))
            orphans = list(
                unreferenced.check_orphans(repair=repair, allow_many=allow_many, allow_newer=allow_newer)
            )
            if all(finding.is_repaired for finding in orphans):
                # The files that the markers announced were searched for.
                for marker in () if dry_run else markers:
                    marker.unlink(missing_ok=True)
            if allow_newer and repair and self._installation.record.backup_at is not None:
                self._installation.forget_backup()
        variants = list(unreferenced.check_variants(repair=repair))
        if not dry_run:
            unreferenced.evict_cached()
        evicted, evicted_bytes = self._files.variants.sweep(dry_run=dry_run)
        expired = self._count_expired(now) if dry_run else self._delete_expired(now)
        removed = [finding for finding in (*orphans, *variants) if finding.is_repaired or dry_run]
        return GarbageReport(
            orphans=tuple(ImageId(finding.id) for finding in orphans if finding.is_repaired or dry_run),
            unfinished_deletions=len(deletions),
            variants_without_image=len(variants),
            evicted_variants=evicted,
            staging_directories=len(staging),
            expired_sessions=expired[0],
            expired_idempotency_keys=expired[1],
            expired_events=expired[2],
            bytes=evicted_bytes + sum(finding.size for finding in removed),
        )

    def _unreferenced(self) -> UnreferencedFileChecker:
        return UnreferencedFileChecker(self._records, self._files, self._installation)

    def _count_expired(self, now: datetime) -> tuple[int, int, int]:
        """Return the numbers of sessions, idempotency keys and events that have expired."""
        return (
            self._records.sessions.count_expired(now),
            self._records.idempotency.count_before(now - RETENTION),
            self._records.outbox.count_before(now - self._event_retention),
        )

    def _delete_expired(self, now: datetime) -> tuple[int, int, int]:
        """Delete what has expired, which the services ignore already; return the numbers."""
        with self._records.database.transaction() as transaction:
            return (
                self._records.sessions.delete_expired(transaction, now),
                self._records.idempotency.delete_before(transaction, now - RETENTION),
                self._records.outbox.delete_before(transaction, now - self._event_retention),
            )
