"""Images, as their owners ask for them: get, list, update, delete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from attrs import field, frozen

from imagehost_core.db import Grave
from imagehost_core.db.database import Reader, Transaction
from imagehost_core.errors import Fault, NotFoundError, ValidationError, quoted
from imagehost_core.events import DeletedImage
from imagehost_core.ids import AlbumId, ImageId, no_album, no_image, parse_album_id, parse_image_id
from imagehost_core.models import Account, Image, Page
from imagehost_core.pagination import PageRequest
from imagehost_core.services import owners
from imagehost_core.services.albums import check_album
from imagehost_core.services.cleanup import try_to_erase
from imagehost_core.services.context import Rooms
from imagehost_core.services.owners import Owner
from imagehost_core.services.unit_of_work import Change
from imagehost_core.uploads.filenames import clean_filename, with_extension
from imagehost_core.uploads.options import description_faults

CHANGEABLE = ("album_id", "description", "is_public", "filename")
"""What an owner may change of an image (contract 5)."""


@frozen
class Images:
    """The images of a host."""

    _rooms: Rooms = field(repr=False)

    def get(self, image_id: str, owner: Owner | None) -> Image:
        """Return an image; `None` as its owner stands for the program itself, which sees all.

        Raises:
            NotFoundError: There is none, or it is somebody else's.
        """
        return self._get(parse_image_id(image_id), owner, self._rooms.catalog)

    def list(self, owner: Owner, album_id: int | str | None, page: PageRequest) -> Page[Image]:
        """Return an account's images, newest first.

        Raises:
            NotFoundError: The account has no such album.
        """
        account = owners.known(self._rooms, owner)
        if account is None:
            return Page.empty(page.page, page.per_page)
        if album_id is None:
            return self._rooms.images.of_account(account.id, page)
        try:
            wanted = parse_album_id(album_id)
            check_album(self._rooms, wanted, account.id)
        except ValidationError:
            raise NotFoundError(no_album(album_id)) from None
        return self._rooms.images.of_album(wanted, page)

    def update(self, image_id: str, owner: Owner | None, changes: Mapping[str, object]) -> Image:
        """Change some of an image's fields; what is not given stays.

        Raises:
            NotFoundError: There is none, or it is somebody else's.
            ValidationError: A value is not allowed. Names every fault.
        """
        rooms, wanted = self._rooms, parse_image_id(image_id)
        self.get(wanted, owner)
        values = _check_changes(changes)
        with (
            rooms.locks.hold("image", wanted),
            rooms.stamps.changing(wanted),
            rooms.catalog.transaction() as transaction,
        ):
            image = self._get(wanted, owner, transaction)
            if "filename" in values:
                values["filename"] = with_extension(values["filename"], image.format)
            image = attrs.evolve(image, **values, updated_at=rooms.clock())
            check_album(rooms, image.album_id, image.account_id, transaction)
            rooms.images.update(transaction, image)
        return image

    def delete(self, image_id: str, owner: Owner | None, album_id: AlbumId | None = None) -> DeletedImage:
        """Delete an image for good: when it returns, no byte of it or of its variants is left.

        One whose record is gone already, but not its bytes, because an attempt failed, is finished. Until
        then there is something to delete; so the answer is that of the first attempt.

        Args:
            image_id: Which.
            owner: Whose it must be; anybody's, if `None`.
            album_id: In which album it must be, still; in any or none, if `None`.

        Raises:
            NotFoundError: There is none, or it is somebody else's, or elsewhere.
            OSError: Some of its bytes are still there. They go at the next attempt, or by `tidy`.
        """
        rooms, wanted = self._rooms, parse_image_id(image_id)
        self._removable(wanted, owner, album_id, rooms.catalog)
        rooms.reserve.spend()
        # Nothing that is read of the image is remembered by anybody until its last byte is gone.
        with (
            rooms.changes.one() as change,
            rooms.locks.hold("image", wanted),
            rooms.stamps.changing(wanted),
        ):
            with rooms.catalog.transaction() as transaction:
                gone = self._bury(transaction, self._removable(wanted, owner, album_id, transaction), change)
            problem = try_to_erase(rooms, wanted)
        rooms.reserve.keep()
        if problem is not None:
            raise problem
        return gone

    def _removable(
        self, image_id: ImageId, owner: Owner | None, album_id: AlbumId | None, reader: Reader
    ) -> Image | Grave:
        """Return what there is to delete of an image.

        Raises:
            NotFoundError: Nothing, or it is somebody else's, or elsewhere.
        """
        found: Image | Grave | None
        try:
            found = self._get(image_id, owner, reader)
        except NotFoundError:
            # Asked for a foreign image as for a missing one (contract 2: *similar time*).
            found = self._rooms.images.grave(image_id, reader)
            if isinstance(found, Grave) and not owners.owns(self._rooms, owner, found.account_id):
                found = None
        if found is None or album_id not in (None, found.album_id):
            raise NotFoundError(no_image(image_id))
        return found

    def _bury(self, transaction: Transaction, found: Image | Grave, change: Change) -> DeletedImage:
        """Take an image out of the records, unless it is already."""
        rooms = self._rooms
        if isinstance(found, Grave):
            return DeletedImage(id=found.id, album_id=found.album_id, deleted_at=found.deleted_at)
        gone = DeletedImage(id=found.id, album_id=found.album_id, deleted_at=rooms.clock())
        rooms.images.bury(transaction, found, gone.deleted_at)
        rooms.accounts.charge(transaction, found.account_id, -found.size, 0)
        change.image_deleted(transaction, found.account_id, gone)
        return gone

    def _get(self, image_id: ImageId, owner: Owner | None, reader: Reader) -> Image:
        rows = self._rooms.images
        if isinstance(owner, Account):
            image = rows.get_of(image_id, owner.id, reader)
        else:
            image = rows.get(image_id, reader)
        if image is None or not owners.owns(self._rooms, owner, image.account_id):
            raise NotFoundError(no_image(image_id))
        return image


def _check_changes(changes: Mapping[str, object]) -> dict[str, Any]:
    """Return changes as they are stored.

    Raises:
        ValidationError: A value is not allowed. Names every fault.
        TypeError: There is no such field.
    """
    unknown = sorted(changes.keys() - set(CHANGEABLE))
    if unknown:
        raise TypeError(f"expected some of {', '.join(CHANGEABLE)} but received {', '.join(unknown)}")
    values = dict(changes)
    faults = list(_faults(values))
    if faults:
        raise ValidationError(faults=faults)
    if "filename" in values:
        values["filename"] = clean_filename(str(values["filename"]))
    return values


def _faults(values: dict[str, object]) -> Iterator[Fault]:
    """Yield what is wrong with changes; turn the album's id into a number on the way."""
    if values.get("album_id") is not None:
        try:
            values["album_id"] = parse_album_id(values["album_id"])  # type: ignore[arg-type]
        except ValidationError as error:
            yield from error.faults
    description = values.get("description", "")
    if isinstance(description, str):
        yield from description_faults(description)
    else:
        yield Fault("description", "text", quoted(description))
    if not isinstance(values.get("is_public", True), bool):
        yield Fault("is_public", "true or false", quoted(values["is_public"]))
    filename = values.get("filename", "-")
    if not isinstance(filename, str) or not filename.strip():
        yield Fault("filename", "a name", quoted(filename))
