"""Albums, as their owners ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum

import attrs
from attrs import field, frozen

from imagehost_core.db.database import Queryable, Transaction, Value
from imagehost_core.errors import FieldError, NotFoundError, ValidationError, quote_value
from imagehost_core.ids import AccountId, AlbumId, ImageId, album_not_found_text, parse_album_id
from imagehost_core.models import Account, Album, Image, Page
from imagehost_core.pagination import PageRequest
from imagehost_core.services import owners
from imagehost_core.services.context import HostContext
from imagehost_core.services.idempotency import SubOperation
from imagehost_core.services.owners import Owner
from imagehost_core.uploads.filenames import has_visible_character
from imagehost_core.uploads.options import INVALID_TEXT, description_errors, is_valid_text

MAX_NAME = 100
"""Characters of an album's name, after trimming (contract 6)."""
MAX_IMAGES_PER_REQUEST = 1_000
"""How many images may join or leave an album in one request."""


class MemberStatus(StrEnum):
    """What came of one image of a membership request."""

    ADDED = "added"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    NOT_FOUND = "not_found"


@frozen
class MembershipResult:
    """One image of a membership request, and what came of it."""

    image_id: str
    status: MemberStatus


@frozen
class AlbumService:
    """The albums of a host."""

    _context: HostContext = field(repr=False)
    _delete_image: Callable[[ImageId, AlbumId], object] = field(repr=False)

    def create(
        self,
        *,
        owner: Owner,
        name: str,
        description: str = "",
        is_public: bool = True,
        idempotency: SubOperation | None = None,
    ) -> Album:
        """Make an album.

        Args:
            owner: Whose it is.
            name: 1–100 characters after trimming.
            description: Up to 2,000 characters.
            is_public: A flag that is kept for the owner.
            idempotency: The part of a request that must not do anything twice, for which this is.

        Raises:
            ValidationError: A value is not allowed. Names every fault.
        """
        context = self._context
        fields = validate_album({"name": name, "description": description, "is_public": is_public})
        account = owners.get_or_create_account(context, owner)
        made = idempotency.previous_result() if idempotency else None
        if made is not None:
            return self._find(made, account)
        with context.unit_of_work.begin() as change, context.database.transaction() as transaction:
            album_id = context.albums.insert(transaction, account.id, fields, context.clock())
            album = self._find(album_id, account, transaction)
            change.album_created(transaction, album)
            if idempotency is not None:
                idempotency.record_result(transaction, str(album_id))
        return album

    def list(self, *, owner: Owner, page: PageRequest | None = None) -> Page[Album]:
        """Return an account's albums, newest first."""
        account = owners.find_account(self._context, owner)
        wanted = page or PageRequest()
        if account is None:
            return Page.empty(wanted.page, wanted.per_page)
        return self._context.albums.list_by_account(account.id, wanted)

    def get(self, album_id: int | str, *, owner: Owner) -> Album:
        """Return an album of an account.

        Raises:
            NotFoundError: It has no such album; an id of the wrong shape is nobody's.
        """
        return self._find(album_id, owners.get_account(self._context, owner))

    def update(
        self,
        album_id: int | str,
        *,
        owner: Owner,
        name: str | None = None,
        description: str | None = None,
        is_public: bool | None = None,
    ) -> Album:
        """Change some of an album's fields; what is not given stays.

        Raises:
            NotFoundError: The account has no such album.
            ValidationError: A value is not allowed. Names every fault.
        """
        account = owners.get_account(self._context, owner)
        album = self._find(album_id, account)
        given = {"name": name, "description": description, "is_public": is_public}
        fields = validate_album({name: value for name, value in given.items() if value is not None})
        with (
            self._context.unit_of_work.begin() as change,
            self._context.database.transaction() as transaction,
        ):
            changed = self._update_timestamp(transaction, album.id, account, fields)
            change.album_updated(transaction, changed)
        return changed

    def add_images(
        self, album_id: int | str, image_ids: Iterable[str], *, owner: Owner
    ) -> tuple[Album, tuple[MembershipResult, ...]]:
        """Put images into an album; one that was in another moves, which is a change of both.

        Args:
            album_id: Which album.
            image_ids: Which images, at most 1,000.
            owner: Whose all of them are.

        Returns:
            The album as it is then, and what came of each image.

        Raises:
            NotFoundError: The account has no such album.
            ValidationError: There are too many ids, or none.
        """
        return self._change_members(album_id, image_ids, owner, join=True)

    def remove_images(
        self, album_id: int | str, image_ids: Iterable[str], *, owner: Owner
    ) -> tuple[Album, tuple[MembershipResult, ...]]:
        """Take images out of an album; they stay, in no album.

        Args, returns and errors are those of `add_images`.
        """
        return self._change_members(album_id, image_ids, owner, join=False)

    def delete(self, album_id: int | str, *, owner: Owner, delete_images: bool = False) -> None:
        """Delete an album. Its images stay, in no album, unless they are to go too.

        Args:
            album_id: Which.
            owner: Whose it is.
            delete_images: Whether to delete its images too, for good.

        Raises:
            NotFoundError: The account has no such album.
        """
        context, account = self._context, owners.get_account(self._context, owner)
        album = self._find(album_id, account)
        while True:
            for image_id in context.images.ids_by_album(album.id) if delete_images else ():
                with suppress(NotFoundError):  # it has been deleted or has left the album meanwhile
                    self._delete_image(image_id, album.id)
            with context.database.transaction() as transaction:
                self._find(album.id, account, transaction)
                # An upload may have put one more into it since.
                if not (delete_images and context.images.ids_by_album(album.id, transaction)):
                    context.albums.delete(transaction, album.id)
                    return

    def _change_members(
        self, album_id: int | str, image_ids: Iterable[str], owner: Owner, *, join: bool
    ) -> tuple[Album, tuple[MembershipResult, ...]]:
        context, wanted = self._context, list(dict.fromkeys(image_ids))
        if not 1 <= len(wanted) <= MAX_IMAGES_PER_REQUEST:
            fault = FieldError("image_ids", f"1 to {MAX_IMAGES_PER_REQUEST} ids", f"{len(wanted)}")
            raise ValidationError(errors=[fault])
        account = owners.get_account(context, owner)
        with context.unit_of_work.begin() as change, context.database.transaction() as transaction:
            album = self._find(album_id, account, transaction)
            results, changed_ids = list[MembershipResult](), dict[AlbumId, None]()
            for image_id in wanted:
                image = self._owned_image(image_id, album, transaction)
                results.append(MembershipResult(image_id, _status(image, album, join)))
                if image is not None and results[-1].status in _CHANGES:
                    moved = attrs.evolve(
                        image, album_id=album.id if join else None, updated_at=context.clock()
                    )
                    context.images.update(transaction, moved)
                    changed_ids |= dict.fromkeys(one for one in (album.id, image.album_id) if one is not None)
            for changed_id in changed_ids:
                changed = self._update_timestamp(transaction, changed_id, account, {})
                change.album_updated(transaction, changed)
                album = changed if changed_id == album.id else album
        return album, tuple(results)

    def _owned_image(self, image_id: str, album: Album, transaction: Transaction) -> Image | None:
        """Return an image of whoever owns an album, or `None`."""
        image = self._context.images.get(ImageId(image_id), transaction)
        return image if image is not None and image.account_id == album.account_id else None

    def _update_timestamp(
        self, transaction: Transaction, album_id: AlbumId, account: Account, fields: dict[str, Value]
    ) -> Album:
        self._context.albums.update(transaction, album_id, fields, self._context.clock())
        return self._find(album_id, account, transaction)

    def _find(self, album_id: int | str, account: Account, reader: Queryable | None = None) -> Album:
        try:
            found = self._context.albums.get(parse_album_id(album_id), account.id, reader)
        except ValidationError:
            found = None
        if found is None:
            raise NotFoundError(album_not_found_text(album_id))
        return found


_CHANGES = (MemberStatus.ADDED, MemberStatus.REMOVED)


def _status(image: Image | None, album: Album, join: bool) -> MemberStatus:
    if image is None:
        return MemberStatus.NOT_FOUND
    if (image.album_id == album.id) is join:
        return MemberStatus.UNCHANGED
    return MemberStatus.ADDED if join else MemberStatus.REMOVED


def require_album(
    context: HostContext, album_id: AlbumId | None, account_id: AccountId, reader: Queryable | None = None
) -> None:
    """Let an album that something is to be put into pass.

    Raises:
        ValidationError: The account has no such album (contract 4: *unknown or foreign `album_id`: 422*).
    """
    if album_id is not None and context.albums.get(album_id, account_id, reader) is None:
        fault = FieldError("album_id", "the id of an album of yours", quote_value(album_id))
        raise ValidationError(errors=[fault])


def validate_album(fields: dict[str, object]) -> dict[str, Value]:
    """Return an album's fields as they are stored.

    Raises:
        ValidationError: A value is not allowed. Names every fault.
    """
    faults = list(_errors(fields))
    if faults:
        raise ValidationError(errors=faults)
    stored: dict[str, Value] = {}
    for name, value in fields.items():
        stored[name] = int(value) if isinstance(value, bool) else str(value)
    if "name" in stored:
        stored["name"] = str(stored["name"]).strip()
    return stored


def _errors(fields: dict[str, object]) -> Iterator[FieldError]:
    name = fields.get("name", "-")
    if not isinstance(name, str) or len(name.strip()) > MAX_NAME or not has_visible_character(name):
        expected = f"text of 1 to {MAX_NAME} characters after trimming, of which one can be seen,"
        yield FieldError("name", expected, quote_value(name) if name else "none")
    elif not is_valid_text(name):
        yield FieldError("name", *INVALID_TEXT)
    yield from description_errors(fields.get("description", ""))
    if not isinstance(fields.get("is_public", True), bool):
        yield FieldError("is_public", "true or false", quote_value(fields["is_public"]))
