"""Checks for files that nothing refers to: of images, of variants, and of processes that have exited."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from attrs import field, frozen

from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import UnavailableError
from imagehost_core.ids import ImageId
from imagehost_core.maintenance.check.findings import Finding, FindingKind
from imagehost_core.maintenance.installation import InstallationGuard
from imagehost_core.services.deletion import erase_files
from imagehost_core.storage.image_files import ImageFiles

log = logging.getLogger(__name__)


@frozen
class UnreferencedFileChecker:
    """The checks for files that nothing refers to.

    Each file is checked while the lock of its image is held: an upload holds it until its record is
    committed, a deletion until the last file is gone, and a renderer while it stores a variant.
    """

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _installation: InstallationGuard = field(repr=False)

    def check_orphans(
        self, *, repair: bool, allow_many: bool = False, allow_newer: bool = False
    ) -> Iterator[Finding]:
        """Yield the images whose files are stored though there is no record; delete the files.

        Args:
            repair: Whether to delete the files.
            allow_many: Whether to delete them although they are many beside those with a record.
            allow_newer: Whether to delete those too that are newer than a restored backup.

        Raises:
            ConflictError: They are many, or the installation is another; nothing is deleted.
        """
        installation = self._installation
        found = installation.unrecorded(
            self._records.images, collect=repair, allow_many=allow_many, allow_newer=allow_newer
        )
        for image_id in found:
            with self._files.locks.acquire("image", image_id):
                sizes = self._files.blobs.sizes(image_id)
                is_orphan = self._files.blobs.has(image_id) and not self._is_known(image_id)
                is_orphan = is_orphan and not self._files.blobs.may_be_uploading(image_id)
                is_deleted = (
                    is_orphan
                    and repair
                    and not self._records.images.is_recorded(image_id)
                    and not installation.is_protected(image_id, allow_newer=allow_newer)
                    and _try(partial(self._files.blobs.delete, image_id))
                )
            if is_orphan:
                size = sum(sizes.values())
                details = f"expected a record for the stored files (size {size}) but there is none"
                finding = Finding(FindingKind.ORPHAN, image_id, details, size=size)
                yield finding.repaired("deleted the files") if is_deleted else finding

    def check_unknown(self) -> Iterator[Finding]:
        """Yield what is in the directories of images and variants but can belong to none."""
        for directory, paths in (
            ("images", self._files.blobs.unknown_paths()),
            ("variants", self._files.variants.unknown_paths()),
        ):
            for path in paths:
                details = "expected only directories of images; the host neither uses nor deletes it"
                yield Finding(FindingKind.UNKNOWN_FILE, f"{directory}/{path}", details)

    def check_deletions(self, *, repair: bool) -> Iterator[Finding]:
        """Yield the images that were deleted though files may be left; delete these."""
        tombstones = self._records.images.tombstones()
        if tombstones and repair:
            self._installation.require_unchanged()
        for image_id in tombstones:
            errors: dict[ImageId, Exception] = {}
            with self._files.locks.acquire("image", image_id):
                tombstone = self._records.images.tombstone(image_id)
                if tombstone is not None and repair:
                    with self._files.generations.bump(image_id):
                        errors = erase_files(self._records, self._files, [image_id])
            if tombstone is not None:
                finding = Finding(
                    FindingKind.UNFINISHED_DELETION,
                    image_id,
                    "expected no files of a deleted image but its deletion was not finished",
                )
                yield finding.repaired("deleted the files") if repair and not errors else finding

    def check_variants(self, *, repair: bool) -> Iterator[Finding]:
        """Yield the images of which variants are cached though there is no record; delete the variants."""
        for image_id in self._without_record(self._files.variants.ids()):
            with self._files.locks.acquire("image", image_id), self._files.generations.bump(image_id):
                sizes = self._files.variants.sizes(image_id)
                is_orphan = self._files.variants.has(image_id) and not self._is_known(image_id)
                is_deleted = is_orphan and repair and _try(partial(self._files.variants.purge, image_id))
            if is_orphan:
                size = sum(sizes.values())
                details = f"expected an image for the cached variants (size {size}) but there is none"
                finding = Finding(FindingKind.VARIANT_WITHOUT_IMAGE, image_id, details, size=size)
                yield finding.repaired("deleted the variants") if is_deleted else finding

    def evict_cached(self) -> None:
        """Delete cached files of images without a record, which another host has deleted."""
        for image_id in self._without_record(self._files.blobs.cached_ids()):
            _try(partial(self._files.blobs.evict, image_id))

    def check_checksums(self, *, repair: bool) -> Iterator[Finding]:
        """Yield the cached variants that are corrupt; delete them. This reads the whole cache."""
        for image_id in self._files.variants.ids():
            if not self._files.variants.corrupt(image_id):
                continue
            with self._files.locks.acquire("image", image_id):
                keys = self._files.variants.corrupt(image_id) if self._records.images.exists(image_id) else ()
                deleted = {
                    key
                    for key in keys
                    if repair and _try(partial(self._files.variants.discard, image_id, key))
                }
            for key in keys:
                details = "expected a variant with a valid checksum"
                finding = Finding(FindingKind.VARIANT_CORRUPT, f"{image_id}/{key}", details)
                yield finding.repaired("deleted the variant") if key in deleted else finding

    def check_staging(self, *, repair: bool) -> Iterator[Finding]:
        """Yield what processes that have exited left in the staging directory; delete it."""
        for name in self._files.staging.stale():
            finding = Finding(
                FindingKind.STALE_STAGING,
                f"staging/{name}",
                "expected a running process for a staging directory but it has exited",
            )
            if repair and self._files.staging.remove_one_stale(name):
                finding = finding.repaired("deleted the directory")
            yield finding

    def _without_record(self, image_ids: Iterator[ImageId]) -> Iterator[ImageId]:
        """Yield those ids for which there is no record now; an upload or deletion may be in progress."""
        for _, missing in self._records.images.find_unrecorded(image_ids):
            yield from missing

    def _is_known(self, image_id: ImageId) -> bool:
        """Return whether an image exists, or is being deleted, which is another check's finding."""
        return self._records.images.exists(image_id) or self._records.images.tombstone(image_id) is not None


def _try(delete: Callable[[], None]) -> bool:
    """Delete files; return whether that was possible, and log the error if not."""
    try:
        delete()
    except (OSError, UnavailableError):
        log.exception("cannot delete files that nothing refers to")
        return False
    return True
