"""Images: get, list, update and delete them, and sign their URLs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Unpack

import attrs
from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import AccountRepository, AlbumRepository, Database, ImageRepository, Tombstone
from imagehost_core.db.database import Queryable, Transaction
from imagehost_core.errors import FieldError, NotFoundError, ValidationError, quote_value
from imagehost_core.events import DeletedImage
from imagehost_core.ids import (
    AccountId,
    AlbumId,
    ImageId,
    album_not_found_text,
    image_not_found_text,
    parse_album_id,
)
from imagehost_core.models import Account, Album, Image, ImageChanges, Page
from imagehost_core.pagination import PageRequest, parse_page_request
from imagehost_core.services.albums import record_membership_change, require_album
from imagehost_core.services.cleanup import ImageEraser
from imagehost_core.services.owners import Owner, get_account
from imagehost_core.services.references import AlbumRef, ImageRef, album_id_of, image_id_of
from imagehost_core.services.signed_urls import UrlSigner, require_lifetime
from imagehost_core.services.unit_of_work import UnitOfWork, UnitOfWorkFactory
from imagehost_core.storage import DiskReserve, GenerationTable, LockManager
from imagehost_core.transform import DEFAULT_LIFETIME_SECONDS, Transform, parse_transform
from imagehost_core.uploads import clean_filename, description_errors, with_extension

CHANGEABLE = ("album_id", "description", "is_public", "filename")
"""Fields of an image that its owner can change."""


@frozen
class ImageService:
    """The images of a host."""

    _database: Database = field(repr=False)
    _images: ImageRepository = field(repr=False)
    _albums: AlbumRepository = field(repr=False)
    _accounts: AccountRepository = field(repr=False)
    _locks: LockManager = field(repr=False)
    _generations: GenerationTable = field(repr=False)
    _reserve: DiskReserve = field(repr=False)
    _eraser: ImageEraser = field(repr=False)
    _signer: UrlSigner = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _clock: Clock = field(repr=False)

    def get(self, image: ImageRef, *, owner: Owner | None = None) -> Image:
        """Return the current record of an image.

        Args:
            image: The image.
            owner: The account that must own it; by default any account.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
        """
        return self._get(image_id_of(image), self._owner_id(owner), self._database)

    def list(
        self, *, owner: Owner, album_id: AlbumRef | None = None, page: PageRequest | None = None
    ) -> Page[Image]:
        """Return a page of an account's images, newest first.

        Args:
            owner: The account.
            album_id: Only images in this album.
            page: By default the first 20 images.

        Raises:
            NotFoundError: There is no such account, or it has no such album.
        """
        account, page = get_account(self._accounts, owner), page or PageRequest()
        if album_id is None:
            return self._images.list_by_account(account.id, page)
        return self._images.list_by_album(self._require_own_album(album_id, account), page)

    def list_public(self, page: PageRequest | None = None) -> Page[Image]:
        """Return a page of the public images of all accounts, newest first."""
        return self._images.list_public(page or PageRequest())

    def iter(
        self, *, owner: Owner, album_id: AlbumRef | None = None, page_size: int = 100
    ) -> Iterator[Image]:
        """Yield all of an account's images, newest first, without gaps or repeats while others change them.

        Args:
            owner: The account.
            album_id: Only images in this album.
            page_size: Images read at a time, 1 to 100.

        Raises:
            NotFoundError: There is no such account, or it has no such album.
        """
        cursor: str | None = None
        while True:
            request = parse_page_request(per_page=page_size, cursor=cursor)
            page = self.list(owner=owner, album_id=album_id, page=request)
            yield from page
            cursor = page.next_cursor
            if cursor is None:
                return

    def update(
        self, image: ImageRef, *, owner: Owner | None = None, **changes: Unpack[ImageChanges]
    ) -> Image:
        """Change the given fields of an image; nothing is written if all have these values already.

        Moving it to or from an album changes that album too.

        Args:
            image: The image.
            owner: The account that must own it; by default any account.
            changes: `album_id` (`None` removes it from its album), `description`, `is_public`, `filename`.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
            ValidationError: A value is not allowed; all errors are reported together.
        """
        image_id, owner_id = image_id_of(image), self._owner_id(owner)
        current = self._get(image_id, owner_id, self._database)
        values = _validate_changes(dict(changes))
        if _apply(current, values) == current:
            return current
        with (
            self._units.begin() as unit,
            self._locks.acquire("image", image_id),
            self._generations.bump(image_id),
            self._database.transaction() as transaction,
        ):
            current = self._get(image_id, owner_id, transaction)
            changed = _apply(current, values)
            if changed != current:
                now = self._clock()
                changed = attrs.evolve(changed, updated_at=now)
                require_album(self._albums, changed.album_id, changed.account_id, transaction)
                self._images.update(transaction, changed)
                if changed.album_id != current.album_id:
                    for album_id in filter(None, (current.album_id, changed.album_id)):
                        record_membership_change(
                            self._albums, unit, transaction, album_id, changed.account_id, now
                        )
        return changed

    def delete(self, image: ImageRef, *, owner: Owner | None = None) -> DeletedImage:
        """Delete an image: once this returns, no byte of it or of its variants remains.

        No render in progress can restore one. If an earlier attempt deleted the record but not all files,
        this deletes the rest and returns the result of that attempt.

        Args:
            image: The image.
            owner: The account that must own it; by default any account.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
            OSError: Some files cannot be removed now; the next attempt or `maintenance.cleanup` does it.
        """
        return self._delete(image_id_of(image), self._owner_id(owner), None)

    def delete_from_album(self, image_id: ImageId, album_id: AlbumId) -> DeletedImage:
        """Delete an image, as `delete` does, if it is still in an album.

        Raises:
            NotFoundError: The album has no such image.
            OSError: As for `delete`.
        """
        return self._delete(image_id, None, album_id)

    def signed_url(
        self,
        image: ImageRef,
        params: str | Mapping[str, str] | Transform = "",
        *,
        owner: Owner | None = None,
        expires_in: int = DEFAULT_LIFETIME_SECONDS,
    ) -> str:
        """Return an image URL with a signature, which gives access to a private image until it expires.

        Args:
            image: The image.
            params: The transform, as for `ImageHost.render`.
            owner: The account that must own the image; by default any account.
            expires_in: Seconds, from 1 to a year.

        Raises:
            BadRequestError: A parameter is not allowed.
            NotFoundError: There is no such image, or another account owns it.
            ValidationError: `expires_in` is out of range.
        """
        require_lifetime(expires_in)
        current = self.get(image, owner=owner)
        transform = params if isinstance(params, Transform) else parse_transform(params)
        return self._signer.sign(current, transform, expires_in)

    def _delete(
        self, image_id: ImageId, owner_id: AccountId | None, album_id: AlbumId | None
    ) -> DeletedImage:
        self._find_deletable(image_id, owner_id, album_id, self._database)
        self._reserve.release()
        # The generation is odd until the last byte is gone: no process caches what it reads of the image.
        with (
            self._units.begin() as unit,
            self._locks.acquire("image", image_id),
            self._generations.bump(image_id),
        ):
            with self._database.transaction() as transaction:
                record = self._find_deletable(image_id, owner_id, album_id, transaction)
                deleted = self._insert_tombstone(transaction, record, unit)
            error = self._eraser.erase(image_id)
        self._reserve.acquire()
        if error is not None:
            raise error
        return deleted

    def _find_deletable(
        self,
        image_id: ImageId,
        owner_id: AccountId | None,
        album_id: AlbumId | None,
        queryable: Queryable,
    ) -> Image | Tombstone:
        """Return the record of an image, or the tombstone of an unfinished deletion.

        Raises:
            NotFoundError: There is neither, another account owns it, or it is not in the album.
        """
        record: Image | Tombstone | None
        try:
            record = self._get(image_id, owner_id, queryable)
        except NotFoundError:
            # The same queries for another account's image as for a missing one, so that both take as long.
            record = self._images.tombstone(image_id, queryable)
            if record is not None and owner_id not in (None, record.account_id):
                record = None
        if record is None or album_id not in (None, record.album_id):
            raise NotFoundError(image_not_found_text(image_id))
        return record

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
        return deleted

    def _owner_id(self, owner: Owner | None) -> AccountId | None:
        """Return the id of the account that must own an image; `None` for any account.

        Raises:
            NotFoundError: There is no such account.
        """
        return None if owner is None else get_account(self._accounts, owner).id

    def _get(self, image_id: ImageId, owner_id: AccountId | None, queryable: Queryable) -> Image:
        if owner_id is None:
            image = self._images.get(image_id, queryable)
        else:
            image = self._images.get_owned(image_id, owner_id, queryable)
        if image is None:
            raise NotFoundError(image_not_found_text(image_id))
        return image

    def _require_own_album(self, album: AlbumRef, account: Account) -> AlbumId:
        try:
            album_id = album_id_of(album)
            require_album(self._albums, album_id, account.id)
        except ValidationError:
            shown = album.id if isinstance(album, Album) else album
            raise NotFoundError(album_not_found_text(shown)) from None
        return album_id


def _validate_changes(changes: Mapping[str, object]) -> dict[str, Any]:
    """Return validated changes, with a cleaned filename and an integer album id.

    Raises:
        ValidationError: A value is not allowed; all errors are reported together.
        TypeError: There is no such field.
    """
    unknown = sorted(changes.keys() - set(CHANGEABLE))
    if unknown:
        raise TypeError(f"expected some of {', '.join(CHANGEABLE)} but received {', '.join(unknown)}")
    values = dict(changes)
    errors = list(_errors(values))
    if errors:
        raise ValidationError(errors=errors)
    if "filename" in values:
        values["filename"] = clean_filename(str(values["filename"]))
    return values


def _apply(image: Image, changes: Mapping[str, Any]) -> Image:
    """Return an image with changes, which have been validated, except for its `updated_at`."""
    changed = attrs.evolve(image, **changes)
    if "filename" not in changes:
        return changed
    return attrs.evolve(changed, filename=with_extension(changed.filename, image.format))


def _errors(values: dict[str, object]) -> Iterator[FieldError]:
    """Yield the errors of changes, and convert the album's id to an integer."""
    if values.get("album_id") is not None:
        try:
            values["album_id"] = parse_album_id(values["album_id"])  # type: ignore[arg-type]
        except ValidationError as error:
            yield from error.errors
    yield from description_errors(values.get("description", ""))
    if not isinstance(values.get("is_public", True), bool):
        yield FieldError("is_public", "true or false", quote_value(values["is_public"]))
    filename = values.get("filename", "-")
    if not isinstance(filename, str) or not filename.strip():
        yield FieldError("filename", "a name", quote_value(filename))
