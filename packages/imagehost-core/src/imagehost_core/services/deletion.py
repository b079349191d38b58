"""Deletion of images: records, events, files and variants, one image or many at a time."""

from __future__ import annotations

import logging
from collections.abc import Collection

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import AccountRepository, CachePurgeRepository, Database, ImageRepository, Tombstone
from imagehost_core.db.engines.database import Queryable, Transaction, deleted_image
from imagehost_core.events import DeletedImage
from imagehost_core.ids import AccountId, AlbumId, ImageId
from imagehost_core.models import Account, Image
from imagehost_core.services.unit_of_work import UnitOfWork, UnitOfWorkFactory
from imagehost_core.storage import BlobStore, DiskReserve, GenerationTable, LockManager
from imagehost_core.storage.cache.variant_cache import VariantCache
from imagehost_core.storage.durable import translate_disk_errors

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
class ImageDeleter:
    """The deletion of images: one transaction for the records of all, then the files of each."""

    _database: Database = field(repr=False)
    _images: ImageRepository = field(repr=False)
    _accounts: AccountRepository = field(repr=False)
    _locks: LockManager = field(repr=False)
    _generations: GenerationTable = field(repr=False)
    _reserve: DiskReserve = field(repr=False)
    _eraser: ImageEraser = field(repr=False)
    _cache_purges: CachePurgeRepository = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _clock: Clock = field(repr=False)

    def delete(
        self, image_ids: Collection[ImageId], owner: Account | None, album_id: AlbumId | None = None
    ) -> dict[ImageId, DeletedImage | Exception]:
        """Delete images, and finish deletions of which files are left.

        Args:
            image_ids: Distinct ids.
            owner: The account that must own an image; `None` for any account.
            album_id: The album that an image must be in; `None` for any or none.

        Returns:
            By the id of each image that existed: the result, or the error that left some of its files. Ids
            of missing images, and of those of other accounts or albums, are left out.
        """
        owner_id = None if owner is None else owner.id
        found = self._find(image_ids, owner_id, album_id, self._database)
        if not found:
            if owner is not None:
                self._units.verify(owner)
            return {}
        self._reserve.release()
        # The generation is odd until the last byte is gone: no process caches what it reads of the image.
        with (
            self._units.begin() as unit,
            self._locks.acquire_all("image", found),
            self._generations.bump(*found),
        ):
            begin = self._database.transaction(_only_account(found.values()))
            with self._units.verified(owner, begin) as transaction:
                records = self._find(found, owner_id, album_id, transaction)
                deleted = {
                    image_id: self._insert_tombstone(transaction, record, unit)
                    for image_id, record in records.items()
                }
                if deleted:
                    transaction.invalidate([deleted_image(image_id) for image_id in deleted])
            errors = self._eraser.erase(deleted)
        self._reserve.acquire()
        return {**deleted, **errors}

    def _find(
        self,
        image_ids: Collection[ImageId],
        owner_id: AccountId | None,
        album_id: AlbumId | None,
        queryable: Queryable,
    ) -> dict[ImageId, Image | Tombstone]:
        """Return the records of images, and the tombstones of unfinished deletions, in order of the ids.

        The queries are the same for another account's image as for a missing one, so that both take as long.
        """
        images = self._images.get_many(image_ids, owner_id, queryable)
        missing = [image_id for image_id in image_ids if image_id not in images]
        tombstones = self._images.tombstones_of(missing, queryable) if missing else {}
        records: dict[ImageId, Image | Tombstone] = {}
        for image_id in image_ids:
            record = images.get(image_id) or tombstones.get(image_id)
            if (
                record is not None
                and owner_id in (None, record.account_id)
                and album_id in (None, record.album_id)
            ):
                records[image_id] = record
        return records

    def _insert_tombstone(
        self, transaction: Transaction, record: Image | Tombstone, unit: UnitOfWork
    ) -> DeletedImage:
        """Replace the record of an image by a tombstone, unless an earlier attempt did."""
        if isinstance(record, Tombstone):
            return DeletedImage(id=record.id, album_id=record.album_id, deleted_at=record.deleted_at)
        deleted = DeletedImage(id=record.id, album_id=record.album_id, deleted_at=self._clock())
        self._images.insert_tombstone(transaction, record, deleted.deleted_at)
        self._accounts.add_usage(transaction, record.account_id, -record.size, 0)
        unit.image_deleted(transaction, record.account_id, deleted)
        if record.is_public:
            self._cache_purges.record(transaction, [record.id], deleted.deleted_at)
        return deleted


def _only_account(records: Collection[Image | Tombstone]) -> AccountId | None:
    """Return the account that owns all of some images; `None` if they are of several."""
    owners = {record.account_id for record in records}
    return owners.pop() if len(owners) == 1 else None
