"""Albums: create, list, change and delete them, and change their membership."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Unpack

import attrs
from attrs import field, frozen

from imagehost_core.db.engines.database import Queryable, Transaction
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.environment import Environment
from imagehost_core.errors import (
    ErrorCollector,
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
    ValidationError,
    quote_value,
)
from imagehost_core.ids import (
    AlbumId,
    ImageId,
    ShareId,
    album_not_found_text,
    is_image_id,
    new_id,
)
from imagehost_core.lists import PageKeywords, PageRequest, parse_page_request
from imagehost_core.models import (
    Account,
    Album,
    AlbumShare,
    Deleted,
    DeletedAlbum,
    Image,
    Member,
    Membership,
    MemberStatus,
    MemberStatusName,
    Page,
)
from imagehost_core.services.album_rules import find_leaving, record_membership_change, validate_album
from imagehost_core.services.deletion import ImageDeleter
from imagehost_core.services.idempotency import ResultRecorder
from imagehost_core.services.keys import expiry_errors
from imagehost_core.services.references import (
    AlbumRef,
    ImageRef,
    Owner,
    album_id_of,
    get_account,
    parse_image_ids,
)
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.storage.image_files import ImageFiles
from imagehost_core.tokens import TokenKind, new_token, parse_token, token_hash

MAX_IMAGES_PER_REQUEST = 1_000
"""Images that one request can add to or remove from an album."""
MAX_SHARES = 100
"""Shares of an album that have not expired."""


@frozen
class AlbumService:
    """Creates, lists, changes and deletes albums, with their images and share links."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _deleter: ImageDeleter = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _env: Environment = field(repr=False)

    def create(
        self,
        name: str,
        *,
        owner: Owner,
        description: str = "",
        is_public: bool = True,
        idempotency: ResultRecorder | None = None,
    ) -> Album:
        """Create an album.

        Args:
            name: 1–100 characters after trimming.
            owner: The account.
            description: Up to 2,000 characters.
            is_public: Stored with the album.
            idempotency: The sub-operation of an idempotent request that creates the album.

        Raises:
            NotFoundError: There is no such account.
            ValidationError: A value is not allowed; all errors are reported together.
        """
        fields = validate_album({"name": name, "description": description, "is_public": is_public})
        account = get_account(self._records.accounts, owner)
        previous = idempotency.previous_result() if idempotency else None
        if previous is not None:
            return self._get(previous, account)
        with self._units.begin() as unit, self._units.transaction(account) as transaction:
            album_id = self._records.albums.insert(transaction, account.id, fields, self._env.clock())
            album = self._get(album_id, account, transaction)
            unit.album_created(transaction, album)
            if idempotency is not None:
                idempotency.record_result(transaction, str(album_id))
        return album

    def list(self, *, owner: Owner, **page: Unpack[PageKeywords]) -> Page[Album]:
        """Return a page of an account's albums, newest first.

        Raises:
            NotFoundError: There is no such account.
        """
        account = get_account(self._records.accounts, owner)
        return self._records.albums.list_by_account(account.id, parse_page_request(**page))

    def get(self, album: AlbumRef, *, owner: Owner) -> Album:
        """Return the current record of an account's album.

        Raises:
            NotFoundError: The account has no such album.
        """
        return self._get(album, get_account(self._records.accounts, owner))

    def update(
        self,
        album: AlbumRef,
        *,
        owner: Owner,
        name: str | None = None,
        description: str | None = None,
        is_public: bool | None = None,
        images_public: bool | None = None,
    ) -> Album:
        """Change the given fields of an album; nothing is written if all have these values already.

        Args:
            album: The album.
            owner: The account.
            name: As for `create`.
            description: As for `create`.
            is_public: As for `create`.
            images_public: Whether all its images become public, or private; by default they stay as they are.
                The images of a large album change in several transactions.

        Raises:
            NotFoundError: The account has no such album; the error also names values that are not allowed.
            ValidationError: Values are not allowed; every one is listed in `errors`.
        """
        account = get_account(self._records.accounts, owner)
        errors = ErrorCollector()
        with errors.catch():
            current = self._get(album, account)
        changes = {
            "name": name,
            "description": description,
            "is_public": is_public,
            "images_public": images_public,
        }
        with errors.catch():
            fields = validate_album({key: value for key, value in changes.items() if value is not None})
        errors.raise_if_any()
        fields.pop("images_public", None)
        has_changed = is_complete = False
        while not is_complete:
            images = () if images_public is None else self._opposite(current.id, images_public)
            with (
                self._units.begin() as unit,
                self._changing(images),
                self._units.transaction(account) as transaction,
            ):
                current = self._get(current.id, account, transaction)
                if images_public is not None:
                    has_changed |= bool(self._set_visibility(transaction, current, images, images_public))
                    current = self._get(current.id, account, transaction)
                    public = current.public_image_count
                    is_complete = public == (current.image_count if images_public else 0)
                else:
                    is_complete = True
                # Images become private before their album becomes public, and public after it became private.
                given = {} if fields.get("is_public") and not is_complete else fields
                differs = any(getattr(current, key) != value for key, value in given.items())
                if differs or (has_changed and is_complete):
                    self._records.albums.update(transaction, current.id, given, self._env.clock())
                    current = self._get(current.id, account, transaction)
                    unit.album_updated(transaction, current)
        return current

    def add_images(
        self, album: AlbumRef, images: Iterable[ImageRef], *, owner: Owner, images_public: bool = False
    ) -> Membership:
        """Add images to an album; an image of another album moves, which changes both albums.

        Args:
            album: The album.
            images: At most 1,000 images of the account.
            owner: The account.
            images_public: Whether images stay public that only their private album kept out of galleries, and
                that leave it for a public one or for none; by default they become private.

        Returns:
            The outcome for each image, and the changed album.

        Raises:
            NotFoundError: The account has no such album; the error also names what is wrong with the images.
            ValidationError: There are no images, or too many.
        """
        return self._change_members(album, images, owner, images_public, add=True)

    def remove_images(
        self, album: AlbumRef, images: Iterable[ImageRef], *, owner: Owner, images_public: bool = False
    ) -> Membership:
        """Remove images from an album without deleting them.

        Arguments, result and errors are those of `add_images`.
        """
        return self._change_members(album, images, owner, images_public, add=False)

    def delete(
        self, album: AlbumRef, *, owner: Owner, delete_images: bool = False, images_public: bool = False
    ) -> DeletedAlbum:
        """Delete an album. Its images stay, in no album, unless they are deleted too.

        They leave it a thousand at a time, the oldest first, each time in a transaction of its own, so that
        others wait for less; those of a private album become private then. A deletion that was interrupted
        leaves the album with fewer images, and another call completes it.

        Args:
            album: The album.
            owner: The account.
            delete_images: Whether to delete its images.
            images_public: Whether the public images of a private album stay public, and are listed then.

        Raises:
            NotFoundError: The account has no such album.
            ValidationError: `images_public` is neither true nor false.
        """
        account = get_account(self._records.accounts, owner)
        errors = ErrorCollector()
        made_private = 0
        with errors.catch():
            current = self._get(album, account)
        with errors.catch():
            validate_album({"images_public": images_public})
        errors.raise_if_any()
        find = self._records.images.ids_by_album if delete_images else self._records.images.oldest_ids
        while True:
            for image_id in find(current.id) if delete_images else ():
                self._deleter.delete_one(image_id, account, current.id, missing_ok=True)
            leaving = () if delete_images else find(current.id)
            is_public = current.is_public
            hides = not (is_public or images_public)
            changing = self._changing(leaving if hides else ())
            with changing, self._units.transaction(account) as transaction:
                current = self._get(current.id, account, transaction)
                if current.is_public is not is_public:
                    continue
                if hides:
                    made_private += len(self._set_visibility(transaction, current, leaving, False))
                self._records.images.leave_album(transaction, current, leaving)
                # There are more than a thousand, or an upload has added one since.
                if not find(current.id, transaction):
                    self._records.albums.delete(transaction, current)
                    return DeletedAlbum(id=current.id, deleted=True, made_private_count=made_private)

    def create_share(
        self,
        album: AlbumRef,
        *,
        owner: Owner,
        expires_at: datetime | None = None,
        password_hash: str | None = None,
    ) -> AlbumShare:
        """Create a share link of an album; only the returned record has its token.

        Args:
            album: The album.
            owner: The account.
            expires_at: The end of the share, with a time zone; by default none.
            password_hash: The argon2id hash of the password that the page requires; by default none.

        Raises:
            NotFoundError: The account has no such album; the error also names what is wrong with the values.
            ValidationError: `expires_at` is not in the future, or the album has 100 shares.
        """
        account = get_account(self._records.accounts, owner)
        errors = ErrorCollector()
        now = self._env.clock()
        with errors.catch():
            self._get(album, account)
        if found := expiry_errors(expires_at, now):
            errors.add(ValidationError(errors=found))
        errors.raise_if_any()
        with self._units.transaction(account) as transaction:
            current = self._get(album, account, transaction)
            first = PageRequest(per_page=1)
            if (
                self._records.albums.list_shares(current.id, now, first, transaction).total or 0
            ) >= MAX_SHARES:
                raise ValidationError.of("shares", f"at most {MAX_SHARES} per album", "one more")
            share = AlbumShare(
                id=new_id(ShareId, self._env.random),
                album_id=current.id,
                created_at=now,
                expires_at=expires_at,
                password_hash=password_hash,
                token=new_token(TokenKind.SHARE, self._env.random),
            )
            self._records.albums.insert_share(transaction, share, token_hash(share.token or ""))
        return share

    def list_shares(self, album: AlbumRef, *, owner: Owner, **page: Unpack[PageKeywords]) -> Page[AlbumShare]:
        """Return a page of an album's shares that have not expired, newest first.

        Raises:
            NotFoundError: The account has no such album.
        """
        request = parse_page_request(**page)
        current = self.get(album, owner=owner)
        return self._records.albums.list_shares(current.id, self._env.clock(), request)

    def delete_share(self, album: AlbumRef, share: AlbumShare | str, *, owner: Owner) -> Deleted:
        """End a share at once, in every process: its page and image URLs are as those of none.

        Raises:
            NotFoundError: The account has no such album, or the album no such share.
        """
        account = get_account(self._records.accounts, owner)
        share_id = share.id if isinstance(share, AlbumShare) else share
        with self._units.transaction(account) as transaction:
            current = self._get(album, account, transaction)
            if not self._records.albums.delete_share(transaction, current.id, share_id):
                raise NotFoundError(
                    f"expected the id of a share of the album but received {quote_value(share_id)}"
                )
        return Deleted(id=share_id, deleted=True)

    def get_shared(
        self, token: str, *, verify: Callable[[str], bool] | None = None
    ) -> tuple[AlbumShare, Album]:
        """Return the share with a token, and its album.

        Args:
            token: The secret in the link.
            verify: For a share with a password: receives its stored hash, and returns whether the visitor
                knows the password.

        Raises:
            ForbiddenError: The share has a password, and `verify` is missing or returned `False`.
            NotFoundError: There is none, it has expired, or the album's account is suspended.
        """
        found = None
        with suppress(UnauthorizedError):
            if parse_token(token) is TokenKind.SHARE:
                found = self._records.albums.get_shared(token_hash(token), self._env.clock())
        if found is None:
            raise NotFoundError("expected the link of a share that has not ended")
        expected = found[0].password_hash
        if expected is not None and (verify is None or not verify(expected)):
            raise ForbiddenError("expected the password of the share but received none or another")
        return found

    def _opposite(self, album_id: AlbumId, is_public: bool) -> tuple[ImageId, ...]:
        """Return up to 1,000 images of an album that are to become public, or private."""
        return self._records.images.oldest_ids(album_id, is_public=not is_public)

    @contextmanager
    def _changing(self, image_ids: Collection[ImageId]) -> Iterator[None]:
        """Hold the locks of images whose visibility a block may change; they are not valid in memory then."""
        if not image_ids:
            yield
            return
        with self._files.locks.acquire("image", *image_ids), self._files.generations.bump(*image_ids):
            yield

    def _set_visibility(
        self, transaction: Transaction, album: Album, image_ids: Collection[ImageId], is_public: bool
    ) -> tuple[ImageId, ...]:
        """Make images of an album public or private, and return those that have changed."""
        now = self._env.clock()
        changed = self._records.images.set_visibility(
            transaction, album, image_ids, is_public=is_public, now=now
        )
        if not is_public:
            self._records.cache_purges.record(transaction, changed, now)
        return changed

    def _change_members(
        self, album: AlbumRef, images: Iterable[ImageRef], owner: Owner, images_public: bool, *, add: bool
    ) -> Membership:
        account = get_account(self._records.accounts, owner)
        errors = ErrorCollector()
        with errors.catch():
            self._get(album, account)
        with errors.catch():
            image_ids = parse_image_ids(images, MAX_IMAGES_PER_REQUEST)
        with errors.catch():
            validate_album({"images_public": images_public})
        errors.raise_if_any()
        now = self._env.clock()
        private = list[ImageId]()
        known = tuple(ImageId(image_id) for image_id in image_ids if is_image_id(image_id))
        with (
            self._units.begin() as unit,
            self._changing(known),
            self._units.transaction(account) as transaction,
        ):
            current = self._get(album, account, transaction)
            leaving = find_leaving(self._records.images, known, current if add else None, transaction)
            results = list[Member]()
            changed_ids = dict[AlbumId, None]()
            for image_id in map(ImageId, image_ids):
                image = self._records.images.get_owned(image_id, account.id, transaction)
                status = _status(image, current, add)
                is_moved = image is not None and status in _CHANGES
                made_private = is_moved and image_id in leaving and not images_public
                results.append(Member(image_id=image_id, status=status, made_private=made_private))
                if image is not None and is_moved:
                    moved = attrs.evolve(image, album_id=current.id if add else None, updated_at=now)
                    if made_private:
                        moved = attrs.evolve(moved, is_public=False)
                        private.append(image_id)
                    self._records.images.update(transaction, moved)
                    album_ids = (current.id, image.album_id)
                    changed_ids |= dict.fromkeys(id_ for id_ in album_ids if id_ is not None)
            self._records.cache_purges.record(transaction, private, now)
            for changed_id in changed_ids:
                changed = record_membership_change(
                    self._records.albums, unit, transaction, changed_id, account.id, now
                )
                current = changed if changed_id == current.id else current
        return Membership(results=tuple(results), album=current)

    def _get(self, album: AlbumRef, account: Account, queryable: Queryable | None = None) -> Album:
        try:
            record = self._records.albums.get(album_id_of(album), account.id, queryable)
        except ValidationError:
            record = None
        if record is None:
            raise NotFoundError(album_not_found_text(album.id if isinstance(album, Album) else album))
        return record


_CHANGES = (MemberStatus.ADDED, MemberStatus.REMOVED)


def _status(image: Image | None, album: Album, add: bool) -> MemberStatusName:
    if image is None:
        return MemberStatus.NOT_FOUND
    if (image.album_id == album.id) is add:
        return MemberStatus.UNCHANGED
    return MemberStatus.ADDED if add else MemberStatus.REMOVED
