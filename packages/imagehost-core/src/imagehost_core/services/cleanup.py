"""Garbage collection: files of deleted images, and files whose upload never got a record.

Both are recorded, so that a data directory without garbage is not searched: an unfinished deletion has a
tombstone in the database, and a process that died leaves its staging directory, which becomes a marker. Files
in use are never collected: an upload holds the lock of its image until the record is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from attrs import field, frozen

from imagehost_core.db import Database, ImageRepository
from imagehost_core.errors import ConflictError, UnavailableError
from imagehost_core.ids import ImageId
from imagehost_core.services.installation import InstallationGuard
from imagehost_core.storage import (
    BlobStore,
    DiskReserve,
    GenerationTable,
    LockManager,
    StagingArea,
)
from imagehost_core.storage.durable import translate_disk_errors
from imagehost_core.storage.variant_cache import VariantCache

log = logging.getLogger(__name__)


@frozen
class ImageEraser:
    """The eraser of the files and variants of images whose record is deleted."""

    _database: Database = field(repr=False)
    _images: ImageRepository = field(repr=False)
    _blobs: BlobStore = field(repr=False)
    _variants: VariantCache = field(repr=False)

    def erase(self, image_ids: Collection[ImageId]) -> dict[ImageId, Exception]:
        """Remove the variants and files of images, then their tombstones. The caller holds the images' locks.

        Returns:
            The errors of images of which files, and so the tombstones, are left.
        """
        errors: dict[ImageId, Exception] = {}
        for image_id in image_ids:
            try:
                with translate_disk_errors():
                    self._variants.purge(image_id)
                    self._blobs.delete(image_id)
            except Exception as error:
                errors[image_id] = error
        erased = [image_id for image_id in image_ids if image_id not in errors]
        try:
            with self._database.transaction(blind=True) as transaction:
                for image_id in erased:
                    self._images.delete_tombstone(transaction, image_id)
        except Exception as error:
            errors |= dict.fromkeys(erased, error)
        for image_id, cause in errors.items():
            log.warning("image deletion incomplete, will retry: image=%s", image_id, exc_info=cause)
        return errors


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
