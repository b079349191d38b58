"""Albums, as their owners ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import field, frozen

from imagehost_core.catalog.database import Reader, Value
from imagehost_core.errors import Fault, NotFoundError, ValidationError, quoted
from imagehost_core.host import owners
from imagehost_core.host.owners import Owner
from imagehost_core.host.rooms import Rooms
from imagehost_core.ids import AccountId, AlbumId, ImageId, no_album, parse_album_id
from imagehost_core.models import Account, Album, Page
from imagehost_core.options import description_faults
from imagehost_core.paging import PageRequest

MAX_NAME = 100
"""Characters of an album's name, after trimming (contract 6)."""


@frozen
class Albums:
    """The albums of a host."""

    _rooms: Rooms = field(repr=False)
    _delete_image: Callable[[ImageId], object] = field(repr=False)

    def create(self, *, owner: Owner, name: str, description: str = "", is_public: bool = True) -> Album:
        """Make an album.

        Args:
            owner: Whose it is.
            name: 1–100 characters after trimming.
            description: Up to 2,000 characters.
            is_public: A flag that is kept for the owner.

        Raises:
            ValidationError: A value is not allowed. Names every fault.
        """
        rooms = self._rooms
        fields = check_fields({"name": name, "description": description, "is_public": is_public})
        account = owners.find_or_create(rooms, owner)
        with rooms.catalog.transaction() as transaction:
            album_id = rooms.albums.insert(transaction, account.id, fields, rooms.clock())
        return self.get(album_id, owner=account)

    def list(self, *, owner: Owner, page: PageRequest | None = None) -> Page[Album]:
        """Return an account's albums, newest first."""
        account = owners.find_or_create(self._rooms, owner)
        return self._rooms.albums.of_account(account.id, page or PageRequest())

    def get(self, album_id: int | str, *, owner: Owner) -> Album:
        """Return an album of an account.

        Raises:
            NotFoundError: It has no such album; an id of the wrong shape is nobody's.
        """
        return self._find(album_id, owners.find(self._rooms, owner))

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
        account = owners.find(self._rooms, owner)
        album = self._find(album_id, account)
        given = {"name": name, "description": description, "is_public": is_public}
        fields = check_fields({name: value for name, value in given.items() if value is not None})
        with self._rooms.catalog.transaction() as transaction:
            self._rooms.albums.update(transaction, album.id, fields, self._rooms.clock())
        return self._find(album.id, account)

    def delete(self, album_id: int | str, *, owner: Owner, delete_images: bool = False) -> None:
        """Delete an album. Its images stay, in no album, unless they are to go too.

        Args:
            album_id: Which.
            owner: Whose it is.
            delete_images: Whether to delete its images too, for good.

        Raises:
            NotFoundError: The account has no such album.
        """
        rooms = self._rooms
        album = self.get(album_id, owner=owner)
        while True:
            for image_id in rooms.images.ids_in_album(album.id) if delete_images else ():
                self._delete_image(image_id)
            with rooms.catalog.transaction() as transaction:
                # An upload may have put one more into it since.
                if not (delete_images and rooms.images.ids_in_album(album.id, transaction)):
                    rooms.albums.delete(transaction, album.id)
                    return

    def _find(self, album_id: int | str, account: Account) -> Album:
        try:
            found = self._rooms.albums.get(parse_album_id(album_id), account.id)
        except ValidationError:
            found = None
        if found is None:
            raise NotFoundError(no_album(album_id))
        return found


def check_album(
    rooms: Rooms, album_id: AlbumId | None, account_id: AccountId, reader: Reader | None = None
) -> None:
    """Let an album that something is to be put into pass.

    Raises:
        ValidationError: The account has no such album (contract 4: *unknown or foreign `album_id`: 422*).
    """
    if album_id is not None and rooms.albums.get(album_id, account_id, reader) is None:
        fault = Fault("album_id", "the id of an album of yours", quoted(album_id))
        raise ValidationError(faults=[fault])


def check_fields(fields: dict[str, object]) -> dict[str, Value]:
    """Return an album's fields as they are stored.

    Raises:
        ValidationError: A value is not allowed. Names every fault.
    """
    faults = list(_faults(fields))
    if faults:
        raise ValidationError(faults=faults)
    stored: dict[str, Value] = {}
    for name, value in fields.items():
        stored[name] = int(value) if isinstance(value, bool) else str(value)
    if "name" in stored:
        stored["name"] = str(stored["name"]).strip()
    return stored


def _faults(fields: dict[str, object]) -> Iterator[Fault]:
    name = str(fields.get("name", "-")).strip()
    if not 1 <= len(name) <= MAX_NAME or "\0" in name:
        expected = f"1 to {MAX_NAME} characters after trimming, without NUL,"
        yield Fault("name", expected, quoted(name) if name else "none")
    yield from description_faults(str(fields.get("description", "")))
    if not isinstance(fields.get("is_public", True), bool):
        yield Fault("is_public", "true or false", quoted(fields["is_public"]))
