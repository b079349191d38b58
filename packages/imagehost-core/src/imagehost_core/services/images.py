"""Images: get, list, update and delete them, and sign their URLs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Unpack

import attrs
from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import (
    AccountRepository,
    AlbumRepository,
    CachePurgeRepository,
    Database,
    ImageRepository,
)
from imagehost_core.db.engines.database import Queryable
from imagehost_core.errors import ErrorCollector, NotFoundError
from imagehost_core.events import DeletedImage
from imagehost_core.headers import CameraData, read_camera_data, read_metadata
from imagehost_core.ids import AccountId, AlbumId, ImageId, image_not_found_text
from imagehost_core.lists import ImageFilter, ImageListRequest, ImageSort, PageRequest, parse_page_request
from imagehost_core.models import Account, GalleryPage, Image, ImageChanges, Page
from imagehost_core.services.albums import record_membership_change, require_album
from imagehost_core.services.bulk import Admit, BulkImageService, BulkResult
from imagehost_core.services.deletion import ImageDeleter
from imagehost_core.services.image_changes import apply_changes, validate_changes
from imagehost_core.services.image_lists import ImageLists
from imagehost_core.services.read_cache import RecordCache
from imagehost_core.services.references import AlbumRef, ImageRef, Owner, get_account, image_id_of
from imagehost_core.services.signed_urls import UrlSigner, require_lifetime
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.storage import BlobStore, GenerationTable, LockManager
from imagehost_core.transform import DEFAULT_LIFETIME_SECONDS, Transform


@frozen
class ImageService:
    """The images of a host."""

    _database: Database = field(repr=False)
    _images: ImageRepository = field(repr=False)
    _lists: ImageLists = field(repr=False)
    _albums: AlbumRepository = field(repr=False)
    _accounts: AccountRepository = field(repr=False)
    _locks: LockManager = field(repr=False)
    _generations: GenerationTable = field(repr=False)
    _deleter: ImageDeleter = field(repr=False)
    _signer: UrlSigner = field(repr=False)
    _bulk: BulkImageService = field(repr=False)
    _cache_purges: CachePurgeRepository = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _clock: Clock = field(repr=False)
    _records: RecordCache = field(repr=False)

    def get(self, image: ImageRef, *, owner: Owner | None = None, public: bool = False) -> Image:
        """Return the current record of an image.

        Args:
            image: The image.
            owner: The account that must own it; by default any account.
            public: Whether it must be public, of an account that is not suspended.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
        """
        image_id, owner_id = image_id_of(image), self._owner_id(owner)
        if public:
            return _require(self._images.get_public(image_id), image_id)
        return self._records.get((image_id, owner_id), lambda: self._get(image_id, owner_id, self._database))

    def list(
        self,
        *,
        owner: Owner,
        album_id: AlbumRef | None = None,
        filters: ImageFilter | None = None,
        sort: ImageSort = ImageSort.NEWEST,
        page: PageRequest | None = None,
    ) -> Page[Image]:
        """Return a page of an account's images.

        Args:
            owner: The account.
            album_id: Only images in this album.
            filters: Only images that meet these conditions.
            sort: The order of the images.
            page: By default the first 20 images.

        Raises:
            NotFoundError: There is no such account, or it has no such album.
            BadRequestError: The cursor belongs to another list.
            UnavailableError: The database does not find the page in time.
        """
        request = ImageListRequest(filters=filters or ImageFilter(), sort=sort, page=page or PageRequest())
        return self._lists.list(request, album_id, owner)

    def list_by_parameters(self, parameters: Iterable[tuple[str, str]], *, owner: Owner) -> Page[Image]:
        """Return the page of an account's images that query parameters request, for servers.

        Args:
            parameters: Names and values as text, as for `parse_image_list`.
            owner: The account.

        Raises:
            BadRequestError: Values are malformed, not allowed or repeated; every one is listed in `errors`.
            NotFoundError: There is no such account, or it has no such album.
            UnavailableError: The database does not find the page in time.
        """
        return self._lists.list_by_parameters(parameters, owner)

    def list_public(
        self, page: PageRequest | None = None, *, album_id: AlbumRef | None = None
    ) -> GalleryPage:
        """Return a page of the gallery, as `ImageHost.gallery` does."""
        return self._lists.list_public(page or PageRequest(), album_id)

    def list_public_by_parameters(self, parameters: Iterable[tuple[str, str]]) -> GalleryPage:
        """Return the page of the gallery that query parameters request, for servers.

        Args:
            parameters: Names and values as text: `page`, `per_page`, `cursor` and `album_id`.

        Raises:
            BadRequestError: Values are malformed or repeated; every one is listed in `errors`.
            NotFoundError: There is no such public album.
            UnavailableError: The database does not find the page in time.
        """
        return self._lists.list_public_by_parameters(parameters)

    def iter(
        self,
        *,
        owner: Owner,
        album_id: AlbumRef | None = None,
        filters: ImageFilter | None = None,
        sort: ImageSort = ImageSort.NEWEST,
        page_size: int = 100,
    ) -> Iterator[Image]:
        """Yield all images of a list.

        Sorted by time, it has no gaps or repeats while others add, change or delete images.

        Args:
            owner: The account.
            album_id: Only images in this album.
            filters: Only images that meet these conditions.
            sort: The order of the images.
            page_size: Images read at a time, 1 to 100.

        Raises:
            NotFoundError: There is no such account, or it has no such album.
            UnavailableError: The database does not find a page in time.
        """
        cursor: str | None = None
        while True:
            request = parse_page_request(per_page=page_size, cursor=cursor)
            page = self.list(owner=owner, album_id=album_id, filters=filters, sort=sort, page=request)
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
            NotFoundError: There is no such image, or another account owns it; the error also names values
                that are not allowed.
            ValidationError: Values are not allowed; every one is listed in `errors`.
        """
        account, errors = self._owner(owner), ErrorCollector()
        album_owner_id = owner_id = None if account is None else account.id
        with errors.catch():
            current = self._get(image_id_of(image), owner_id, self._database)
            album_owner_id = current.account_id
        with errors.catch():
            values = validate_changes(dict(changes), self._albums, album_owner_id)
        errors.raise_if_any()
        image_id = current.id
        if apply_changes(current, values) == current:
            if account is not None:
                self._units.verify(account)
            return current
        with (
            self._units.begin() as unit,
            self._locks.acquire("image", image_id),
            self._generations.bump(image_id),
            self._units.verified(account, self._database.transaction(current.account_id)) as transaction,
        ):
            current = self._get(image_id, owner_id, transaction)
            changed = apply_changes(current, values)
            if changed != current:
                now = self._clock()
                changed = attrs.evolve(changed, updated_at=now)
                require_album(self._albums, changed.album_id, changed.account_id, transaction)
                self._images.update(transaction, changed)
                if current.is_public and not changed.is_public:
                    self._cache_purges.record(transaction, [image_id], now)
                if changed.album_id != current.album_id:
                    for album_id in filter(None, (current.album_id, changed.album_id)):
                        record_membership_change(
                            self._albums, unit, transaction, album_id, changed.account_id, now
                        )
        return changed

    def validate(self, changes: Mapping[str, object], *, owner: Owner) -> None:
        """Raise ValidationError unless an account's images can be changed in the given way, as by `update`.

        Raises:
            NotFoundError: There is no such account.
            ValidationError: Values are not allowed; every one is listed in `errors`.
        """
        validate_changes(changes, self._albums, get_account(self._accounts, owner).id)

    def update_many(
        self,
        images: Iterable[ImageRef],
        *,
        owner: Owner,
        admit: Admit | None = None,
        **changes: Unpack[ImageChanges],
    ) -> tuple[BulkResult, ...]:
        """Change the given fields of several images in one transaction.

        Each album that gains or loses images emits one `album.updated`.

        Args:
            images: 1–100 images; one that is given twice is changed once.
            owner: The account that must own them.
            admit: Called with the number of images before anything changes, unless the request is invalid;
                it raises to refuse the request, as `Decision.raise_if_refused` does.
            changes: The changes of each image, as for `update`.

        Returns:
            A result for each distinct image, in order: `updated`, `unchanged` or `not_found`.

        Raises:
            NotFoundError: There is no such account.
            ValidationError: There are no or too many images, or a value is not allowed; nothing has changed,
                and all errors are reported together.
        """
        return self._bulk.update(images, dict(changes), owner=owner, admit=admit)

    def delete_many(
        self, images: Iterable[ImageRef], *, owner: Owner, admit: Admit | None = None
    ) -> tuple[BulkResult, ...]:
        """Delete several images, with the guarantees of `delete`.

        Args:
            images: 1–100 images; one that is given twice is deleted once.
            owner: The account that must own them.
            admit: As for `update_many`.

        Returns:
            A result for each distinct image, in order: `deleted`, `not_found`, or `failed` if some files
            cannot be removed now; the next attempt or `maintenance.cleanup` does it.

        Raises:
            NotFoundError: There is no such account.
            ValidationError: There are no or too many images; nothing is deleted.
        """
        return self._bulk.delete(images, owner=owner, admit=admit)

    def delete(self, image: ImageRef, *, owner: Owner | None = None) -> DeletedImage:
        """Delete an image: once this returns, no byte of it or of its variants remains.

        No render in progress can restore one. If an earlier attempt deleted the record but not all files,
        this deletes the rest and returns the result of that attempt.

        Args:
            image: The image.
            owner: The account that must own it; by default any account.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
            InternalError: Some files are left; the next attempt or `maintenance.cleanup` removes them.
        """
        return self._delete(image_id_of(image), self._owner(owner))

    def delete_from_album(self, image_id: ImageId, album_id: AlbumId, owner: Account) -> DeletedImage:
        """Delete an image, as `delete` does, if it is still in an album of its owner.

        Raises:
            NotFoundError: The album has no such image.
            InternalError: As for `delete`.
        """
        return self._delete(image_id, owner, album_id)

    def signed_url(
        self,
        image: ImageRef,
        params: str | Mapping[str, object] | Transform = "",
        *,
        owner: Owner | None = None,
        expires_in: int = DEFAULT_LIFETIME_SECONDS,
    ) -> str:
        """Return an image URL with a signature, which gives access to a private image until it expires.

        Args:
            image: The image.
            params: The transform, as for `ImageHost.render`.
            owner: The account that must own the image; by default any account.
            expires_in: Seconds, from 1 to a year; no longer than a key that signs is valid.

        Raises:
            NotFoundError: There is no such image, or another account owns it; the error also names values
                that are not allowed.
            ValidationError: Parameters or `expires_in` are not allowed; every one is listed in `errors`.
        """
        account, errors, current = self._owner(owner), ErrorCollector(), None
        principal = None if account is None else self._units.verify(account)
        with errors.catch():
            current = self._get(image_id_of(image), None if account is None else account.id, self._database)
        with errors.catch():
            transform = self._signer.validate(params, current)
        with errors.catch():
            require_lifetime(expires_in)
        errors.raise_if_any()
        assert current is not None
        key = self._signer.key_of(current.account_id)
        return self._signer.sign(key, current, transform, expires_in, principal)

    def validate_signing(
        self, params: Mapping[str, object], expires_in: object = DEFAULT_LIFETIME_SECONDS
    ) -> None:
        """Raise ValidationError unless a URL can be signed with the given parameters, as by `signed_url`.

        Raises:
            ValidationError: Values are not allowed; every one is listed in `errors`.
        """
        errors = ErrorCollector()
        with errors.catch():
            self._signer.validate(params, None)
        with errors.catch():
            require_lifetime(expires_in)
        errors.raise_if_any()

    def signed_urls(
        self,
        items: Iterable[Mapping[str, object]],
        *,
        owner: Owner,
        expires_in: int = DEFAULT_LIFETIME_SECONDS,
    ) -> tuple[str, ...]:
        """Return signed URLs of several images, as `signed_url` does for one.

        Args:
            items: 1–100 items, each with `image_id` and any of the parameters `w`, `h`, `q`, `fit` and `fm`.
            owner: The account that must own the images.
            expires_in: Seconds, from 1 to a year; no longer than a key that signs is valid.

        Returns:
            The URL of each item, in order.

        Raises:
            NotFoundError: There is no such account, or it has no such image; the error also names values that
                are not allowed.
            ValidationError: Values are not allowed, or there are no or too many items; every one is listed in
                `errors`, by names such as `items[3].w`.
        """
        return self._bulk.signed_urls(items, owner=owner, expires_in=expires_in)

    def _delete(
        self, image_id: ImageId, owner: Account | None, album_id: AlbumId | None = None
    ) -> DeletedImage:
        result = self._deleter.delete([image_id], owner, album_id).get(image_id)
        if result is None:
            raise NotFoundError(image_not_found_text(image_id))
        if isinstance(result, Exception):
            raise result
        return result

    def _owner(self, owner: Owner | None) -> Account | None:
        """Return the account that must own an image; `None` for any account.

        Raises:
            NotFoundError: There is no such account.
        """
        return None if owner is None else get_account(self._accounts, owner)

    def _owner_id(self, owner: Owner | None) -> AccountId | None:
        account = self._owner(owner)
        return None if account is None else account.id

    def _get(self, image_id: ImageId, owner_id: AccountId | None, queryable: Queryable) -> Image:
        if owner_id is not None:
            return _require(self._images.get_owned(image_id, owner_id, queryable), image_id)
        return _require(self._images.get(image_id, queryable), image_id)


def _require(image: Image | None, image_id: ImageId) -> Image:
    if image is None:
        raise NotFoundError(image_not_found_text(image_id))
    return image


def read_stored_camera_data(blobs: BlobStore, image: Image) -> CameraData:
    """Return what the EXIF, XMP and IPTC in the master of an image say.

    Raises:
        NotFoundError: The image was deleted meanwhile.
        InternalError: The master is damaged.
        UnavailableError: The store does not respond.
    """
    with blobs.open(image.id, checksum=image.sha256) as file:
        return read_camera_data(read_metadata(file, file.seek(0, os.SEEK_END)))
