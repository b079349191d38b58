"""Images, as their owners ask for them: get, list, update, delete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Unpack

import attrs
from attrs import field, frozen

from imagehost_core.db import Tombstone
from imagehost_core.db.database import Queryable, Transaction
from imagehost_core.errors import FieldError, NotFoundError, ValidationError, quote_value
from imagehost_core.events import DeletedImage
from imagehost_core.formats import FORMATS, Format
from imagehost_core.ids import (
    AlbumId,
    ImageId,
    album_not_found_text,
    image_not_found_text,
    parse_album_id,
    parse_image_id,
)
from imagehost_core.models import Account, Image, ImageChanges, Page
from imagehost_core.pagination import PageRequest
from imagehost_core.services import owners
from imagehost_core.services.access import require_allowed_transform
from imagehost_core.services.albums import require_album
from imagehost_core.services.cleanup import erase_files
from imagehost_core.services.context import HostContext
from imagehost_core.services.delivery import ImageResolver
from imagehost_core.services.owners import Owner
from imagehost_core.services.unit_of_work import UnitOfWork
from imagehost_core.transform import MAX_LIFETIME_SECONDS, Transform, parse_transform, sign_url
from imagehost_core.uploads.filenames import clean_filename, with_extension
from imagehost_core.uploads.options import description_errors

CHANGEABLE = ("album_id", "description", "is_public", "filename")
"""What an owner may change of an image (contract 5)."""


@frozen
class ImageService:
    """The images of a host."""

    _context: HostContext = field(repr=False)
    _resolver: ImageResolver = field(repr=False)

    def get(self, image_id: str, *, owner: Owner | None = None) -> Image:
        """Return an image.

        Args:
            image_id: The image's id.
            owner: The account that must own it; any account, unless given.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
        """
        return self._get(parse_image_id(image_id), owner, self._context.database)

    def list(
        self, *, owner: Owner, album_id: int | str | None = None, page: PageRequest | None = None
    ) -> Page[Image]:
        """Return a page of an account's images, newest first.

        Args:
            owner: The account.
            album_id: Only images in this album.
            page: The first 20, unless given.

        Raises:
            NotFoundError: The account has no such album.
        """
        account, page = owners.find_account(self._context, owner), page or PageRequest()
        if account is None:
            return Page.empty(page.page, page.per_page)
        if album_id is None:
            return self._context.images.list_by_account(account.id, page)
        try:
            wanted = parse_album_id(album_id)
            require_album(self._context, wanted, account.id)
        except ValidationError:
            raise NotFoundError(album_not_found_text(album_id)) from None
        return self._context.images.list_by_album(wanted, page)

    def update(self, image_id: str, *, owner: Owner | None = None, **changes: Unpack[ImageChanges]) -> Image:
        """Change the given fields of an image.

        Args:
            image_id: The image's id.
            owner: The account that must own it; any account, unless given.
            changes: `album_id` (`None` removes it from its album), `description`, `is_public`, `filename`.

        Raises:
            NotFoundError: There is none, or it is somebody else's.
            ValidationError: A value is not allowed. Names every fault.
        """
        context, wanted = self._context, parse_image_id(image_id)
        self.get(wanted, owner=owner)
        values = _validate_changes(dict(changes))
        with (
            context.locks.acquire("image", wanted),
            context.generations.bump(wanted),
            context.database.transaction() as transaction,
        ):
            image = self._get(wanted, owner, transaction)
            if "filename" in values:
                values["filename"] = with_extension(values["filename"], image.format)
            image = attrs.evolve(image, **values, updated_at=context.clock())
            require_album(context, image.album_id, image.account_id, transaction)
            context.images.update(transaction, image)
        return image

    def delete(self, image_id: str, *, owner: Owner | None = None) -> DeletedImage:
        """Delete an image permanently: once this returns, no byte of it or of its variants is left.

        An image whose record is gone but whose files are not, because an attempt failed, is finished; the
        result is then that of the first attempt.

        Args:
            image_id: The image's id.
            owner: The account that must own it; any account, unless given.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
            OSError: Some files cannot be removed now; the next attempt or `maintenance.cleanup` does it.
        """
        return self._delete(image_id, owner, None)

    def delete_from_album(self, image_id: str, album_id: AlbumId) -> DeletedImage:
        """Delete an image as `delete` does, if it is still in an album.

        Raises:
            NotFoundError: There is no such image in that album.
            OSError: As for `delete`.
        """
        return self._delete(image_id, None, album_id)

    def signed_url(
        self,
        image_id: str,
        params: str | Mapping[str, str] | Transform = "",
        *,
        owner: Owner | None = None,
        expires_in: int = 3_600,
    ) -> str:
        """Return an image URL with a signature, which gives access to a private image until it expires.

        Args:
            image_id: The image's id.
            params: The transform, as for `ImageHost.render`.
            owner: The account that must own the image; any account, unless given.
            expires_in: Seconds, from 1 to a year.

        Raises:
            BadRequestError: A parameter is not allowed.
            NotFoundError: There is no such image, or another account owns it.
            ValidationError: `expires_in` is out of range.
        """
        if type(expires_in) is not int or not 1 <= expires_in <= MAX_LIFETIME_SECONDS:
            expected = f"an integer from 1 to {MAX_LIFETIME_SECONDS} seconds"
            raise ValidationError(errors=[FieldError("expires_in", expected, quote_value(expires_in))])
        context, image = self._context, self.get(image_id, owner=owner)
        transform = params if isinstance(params, Transform) else parse_transform(params)
        self._resolver.build(image, transform)
        require_allowed_transform(transform, True, context.settings.delivery)
        expires = int(context.clock().timestamp()) + expires_in
        signature = sign_url(context.secret, image.id, transform, expires)
        query = transform.to_query()
        signed = f"{query}&" * bool(query) + f"exp={expires}&sig={signature}"
        # `fm` cannot name every format; the extension can.
        extension = FORMATS[transform.format].extensions[0] if isinstance(transform.format, Format) else None
        return context.urls.image(image, signed, extension)

    def _delete(self, image_id: str, owner: Owner | None, album_id: AlbumId | None) -> DeletedImage:
        context, wanted = self._context, parse_image_id(image_id)
        self._find_deletable(wanted, owner, album_id, context.database)
        context.reserve.release()
        # Nothing that is read of the image is remembered by anybody until its last byte is gone.
        with (
            context.unit_of_work.begin() as change,
            context.locks.acquire("image", wanted),
            context.generations.bump(wanted),
        ):
            with context.database.transaction() as transaction:
                gone = self._insert_tombstone(
                    transaction, self._find_deletable(wanted, owner, album_id, transaction), change
                )
            problem = erase_files(context, wanted)
        context.reserve.acquire()
        if problem is not None:
            raise problem
        return gone

    def _find_deletable(
        self, image_id: ImageId, owner: Owner | None, album_id: AlbumId | None, reader: Queryable
    ) -> Image | Tombstone:
        """Return what there is to delete of an image.

        Raises:
            NotFoundError: Nothing, or it is somebody else's, or elsewhere.
        """
        found: Image | Tombstone | None
        try:
            found = self._get(image_id, owner, reader)
        except NotFoundError:
            # Asked for a foreign image as for a missing one (contract 2: *similar time*).
            found = self._context.images.tombstone(image_id, reader)
            if isinstance(found, Tombstone) and not owners.is_owner(self._context, owner, found.account_id):
                found = None
        if found is None or album_id not in (None, found.album_id):
            raise NotFoundError(image_not_found_text(image_id))
        return found

    def _insert_tombstone(
        self, transaction: Transaction, found: Image | Tombstone, change: UnitOfWork
    ) -> DeletedImage:
        """Take an image out of the records, unless it is already."""
        context = self._context
        if isinstance(found, Tombstone):
            return DeletedImage(id=found.id, album_id=found.album_id, deleted_at=found.deleted_at)
        gone = DeletedImage(id=found.id, album_id=found.album_id, deleted_at=context.clock())
        context.images.insert_tombstone(transaction, found, gone.deleted_at)
        context.accounts.add_usage(transaction, found.account_id, -found.size, 0)
        change.image_deleted(transaction, found.account_id, gone)
        return gone

    def _get(self, image_id: ImageId, owner: Owner | None, reader: Queryable) -> Image:
        rows = self._context.images
        if isinstance(owner, Account):
            image = rows.get_owned(image_id, owner.id, reader)
        else:
            image = rows.get(image_id, reader)
        if image is None or not owners.is_owner(self._context, owner, image.account_id):
            raise NotFoundError(image_not_found_text(image_id))
        return image


def _validate_changes(changes: Mapping[str, object]) -> dict[str, Any]:
    """Return changes as they are stored.

    Raises:
        ValidationError: A value is not allowed. Names every fault.
        TypeError: There is no such field.
    """
    unknown = sorted(changes.keys() - set(CHANGEABLE))
    if unknown:
        raise TypeError(f"expected some of {', '.join(CHANGEABLE)} but received {', '.join(unknown)}")
    values = dict(changes)
    faults = list(_errors(values))
    if faults:
        raise ValidationError(errors=faults)
    if "filename" in values:
        values["filename"] = clean_filename(str(values["filename"]))
    return values


def _errors(values: dict[str, object]) -> Iterator[FieldError]:
    """Yield what is wrong with changes; turn the album's id into a number on the way."""
    if values.get("album_id") is not None:
        try:
            values["album_id"] = parse_album_id(values["album_id"])  # type: ignore[arg-type]
        except ValidationError as error:
            yield from error.errors
    description = values.get("description", "")
    if isinstance(description, str):
        yield from description_errors(description)
    else:
        yield FieldError("description", "text", quote_value(description))
    if not isinstance(values.get("is_public", True), bool):
        yield FieldError("is_public", "true or false", quote_value(values["is_public"]))
    filename = values.get("filename", "-")
    if not isinstance(filename, str) or not filename.strip():
        yield FieldError("filename", "a name", quote_value(filename))
