"""Deletion of images: records, events, files and variants, one image or many at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core._util.durable import translate_disk_errors
from imagehost_core.db.engines.database import Queryable, Transaction, deleted_image
from imagehost_core.db.repositories.images import Tombstone
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import NotFoundError
from imagehost_core.events import DeletedImage
from imagehost_core.ids import AccountId, AlbumId, ImageId, image_not_found_text
from imagehost_core.models import Account, Image
from imagehost_core.services.unit_of_work import UnitOfWork, UnitOfWorkFactory
from imagehost_core.storage.image_files import ImageFiles

log = logging.getLogger(__name__)


def erase_files(
    records: Repositories, files: ImageFiles, image_ids: Collection[ImageId]
) -> dict[ImageId, Exception]:
    """Remove the variants and files of images, then their tombstones. The caller holds the images' locks.

    Returns:
        The errors of images of which files, and so the tombstones, are left.
    """
    errors: dict[ImageId, Exception] = {}
    for image_id in image_ids:
        try:
            with translate_disk_errors():
                files.variants.purge(image_id)
                files.blobs.delete(image_id)
        except Exception as error:
            errors[image_id] = error
    erased = [image_id for image_id in image_ids if image_id not in errors]
    try:
        with records.database.transaction(blind=True) as transaction:
            for image_id in erased:
                records.images.delete_tombstone(transaction, image_id)
    except Exception as error:
        errors |= dict.fromkeys(erased, error)
    for image_id, cause in errors.items():
        log.warning("image deletion incomplete, will retry: image=%s", image_id, exc_info=cause)
    return errors


@frozen
class ImageDeleter:
    """The deletion of images: one transaction for the records of all, then the files of each."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _clock: Clock = field(repr=False)

    def delete_one(
        self,
        image_id: ImageId,
        owner: Account | None = None,
        album_id: AlbumId | None = None,
        *,
        missing_ok: bool = False,
    ) -> DeletedImage | None:
        """Delete an image, as `delete` does.

        Returns:
            The result; `None` for a missing image, if that is no error.

        Raises:
            NotFoundError: There is no such image, and `missing_ok` is false.
            InternalError: Some files are left.
        """
        result = self.delete([image_id], owner, album_id).get(image_id)
        if isinstance(result, Exception):
            raise result
        if result is None and not missing_ok:
            raise NotFoundError(image_not_found_text(image_id))
        return result

    def delete(
        self,
        image_ids: Collection[ImageId],
        owner: Account | None,
        album_id: AlbumId | None = None,
        require: Callable[[Transaction], object] = lambda _: None,
    ) -> dict[ImageId, DeletedImage | Exception]:
        """Delete images, and finish deletions of which files are left.

        Args:
            image_ids: Distinct ids.
            owner: The account that must own an image; `None` for any account.
            album_id: The album that an image must be in; `None` for any or none.
            require: Called in the transaction; it raises to refuse the deletion.

        Returns:
            By the id of each image that existed: the result, or the error that left some of its files. Ids
            of missing images, and of those of other accounts or albums, are left out.
        """
        owner_id = None if owner is None else owner.id
        found = self._find(image_ids, owner_id, album_id, self._records.database)
        if not found:
            if owner is not None:
                self._units.verify(owner)
            return {}
        self._files.reserve.release()
        # The generation is odd until the last byte is gone: no process caches what it reads of the image.
        with (
            self._units.begin() as unit,
            self._files.locks.acquire("image", *found),
            self._files.generations.bump(*found),
        ):
            begin = self._records.database.transaction(_only_account(found.values()))
            with self._units.verified(owner, begin) as transaction:
                require(transaction)
                records = self._find(found, owner_id, album_id, transaction)
                deleted = {
                    image_id: self._insert_tombstone(transaction, record, unit)
                    for image_id, record in records.items()
                }
                if deleted:
                    transaction.invalidate([deleted_image(image_id) for image_id in deleted])
            errors = erase_files(self._records, self._files, deleted)
        self._files.reserve.acquire()
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
        images = self._records.images.get_many(image_ids, owner_id, queryable)
        missing = [image_id for image_id in image_ids if image_id not in images]
        tombstones = self._records.images.tombstones_of(missing, queryable) if missing else {}
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
        self._records.images.insert_tombstone(transaction, record, deleted.deleted_at)
        self._records.accounts.add_usage(transaction, record.account_id, -record.size, 0)
        unit.image_deleted(transaction, record.account_id, deleted)
        if record.is_public:
            self._records.cache_purges.record(transaction, [record.id], deleted.deleted_at)
        return deleted


def _only_account(records: Collection[Image | Tombstone]) -> AccountId | None:
    """Return the account that owns all of some images; `None` if they are of several."""
    owners = {record.account_id for record in records}
    return owners.pop() if len(owners) == 1 else None
