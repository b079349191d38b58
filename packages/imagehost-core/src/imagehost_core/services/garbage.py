"""Garbage collection of a whole data directory: all that nothing refers to, and all that has expired.

What a server removes every minute is announced by tombstones and markers (`imagehost_core.services.cleanup`);
this searches all directories and tables for the rest. It finds files as the integrity check does, under the
lock of their image, so that it cannot race an upload.
"""

from __future__ import annotations

from attrs import field, frozen

from imagehost_core.ids import ImageId
from imagehost_core.services.expiry import ExpiredRecords
from imagehost_core.services.installation import InstallationGuard
from imagehost_core.services.integrity.database_checks import DatabaseChecker
from imagehost_core.services.integrity.unreferenced_files import UnreferencedFileChecker
from imagehost_core.storage import LockManager, StagingArea
from imagehost_core.storage.variant_cache import VariantCache


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
