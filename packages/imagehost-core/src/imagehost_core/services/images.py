"""Images: get, list, update and delete them, and sign their URLs, one or many at a time.

A request for many images is checked as a whole before it has any effect. Then each image has a result of its
own; an image that does not exist stops no other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

import attrs
from attrs import Factory, field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db.engines.database import Queryable, ReadCache
from imagehost_core.errors import (
    ErrorCollector,
    ImageHostError,
    InternalError,
    NotFoundError,
    ValidationError,
    quote_value,
)
from imagehost_core.ids import AccountId, AlbumId, ImageId, image_not_found_text, is_image_id
from imagehost_core.image_url import DEFAULT_LIFETIME_SECONDS, signing_key_text, verify_signed_deletion
from imagehost_core.models import (
    Account,
    BulkError,
    BulkResult,
    BulkStatus,
    BulkStatusName,
    Deleted,
    Image,
    ImageChanges,
    SignedImageUrl,
    SignedUrl,
)
from imagehost_core.services.album_rules import find_leaving, record_membership_change, require_album
from imagehost_core.services.deletion import ImageDeleter
from imagehost_core.services.image_changes import PUBLISHES, apply_changes, validate_changes
from imagehost_core.services.image_lists import ImageLists
from imagehost_core.services.references import (
    ImageRef,
    Owner,
    get_account,
    id_in,
    image_id_of,
    parse_image_ids,
)
from imagehost_core.services.signed_urls import UrlSigner, require_lifetime
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.storage.blob_store import file_sha256
from imagehost_core.storage.image_files import ImageFiles
from imagehost_core.transform import (
    Transform,
    TransformKeywords,
    TransformSource,
    transform_parameters,
    unknown_parameters,
)

RECORDS_IN_MEMORY = 2_000
"""Images in memory that were read one by one, per process; most of them also as rows of the database."""

RecordCache = ReadCache[tuple[ImageId, AccountId | None], Image]
"""Images by id and by the account that must own them."""
MAX_IMAGES = 100
"""Images that one bulk request can change or delete, and URLs that one request can sign."""

SignItem = ImageRef | tuple[ImageRef, TransformKeywords] | Mapping[str, object]
"""An image of `signed_urls`: alone, with its own parameters, or as an item of the HTTP interface."""

Admit = Callable[[int], object]
"""A function that is called with the number of images of a valid request before anything changes; it raises
to refuse the request."""


@frozen
class ImageService(ImageLists):
    """The images of a host: each of them, and, as `ImageLists`, their lists."""

    _files: ImageFiles = field(repr=False)
    _deleter: ImageDeleter = field(repr=False)
    _signer: UrlSigner = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _clock: Clock = field(repr=False)
    _cache: RecordCache = field(
        init=False,
        repr=False,
        default=Factory(lambda self: ReadCache(self._records.database, RECORDS_IN_MEMORY), takes_self=True),
    )

    def get(self, image: ImageRef, *, owner: Owner | None = None, public: bool = False) -> Image:
        """Return the current record of an image.

        Args:
            image: The image.
            owner: The account that must own it; by default any account.
            public: Whether it must be public, of an account that is not suspended.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
        """
        image_id = image_id_of(image)
        owner_id = self._owner_id(owner)
        if public:
            return _require(self._records.images.get_public(image_id), image_id)
        return self._cache.get(
            (image_id, owner_id), lambda: self._get(image_id, owner_id, self._records.database)
        )

    def save(self, image: ImageRef, path: str | os.PathLike[str], *, owner: Owner | None = None) -> Image:
        """Write the stored bytes of an image to a file, whole or not at all, in place of another.

        Args:
            image: The image.
            path: The file.
            owner: The account that must own it; by default any account.

        Returns:
            The record of the image.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
            InternalError: The stored file is damaged.
            OSError: The file cannot be written.
        """
        found = self.get(image, owner=owner)
        target = Path(path)
        part = target.with_name(f".{target.name}.part")
        with self._files.blobs.open(found.id, checksum=found.sha256) as file, part.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        if file_sha256(part) != found.sha256:
            part.unlink()
            raise InternalError(f"expected a whole file of image {found.id} but it is damaged")
        part.replace(target)
        return found

    def update(
        self, image: ImageRef, *, owner: Owner | None = None, **changes: Unpack[ImageChanges]
    ) -> Image:
        """Change the given fields of an image; nothing is written if all have these values already.

        Moving it to or from an album changes that album too. A public image that leaves a private album for a
        public one or for none becomes private, unless the changes have `is_public` or `images_public`.

        Args:
            image: The image.
            owner: The account that must own it; by default any account.
            changes: `album_id` (`None` removes it from its album), `description`, `is_public`, `filename`;
                `images_public` to keep it public when it leaves a private album.

        Raises:
            NotFoundError: There is no such image, or another account owns it; the error also names values
                that are not allowed.
            ValidationError: Values are not allowed; every one is listed in `errors`.
        """
        account = self._owner(owner)
        errors = ErrorCollector()
        album_owner_id = owner_id = None if account is None else account.id
        with errors.catch():
            current = self._get(image_id_of(image), owner_id, self._records.database)
            album_owner_id = current.account_id
        with errors.catch():
            values = validate_changes(dict(changes), self._records.albums, album_owner_id)
        errors.raise_if_any()
        changed = self._update({current.id: current}, values, current.account_id, account)
        if current.id not in changed:
            raise NotFoundError(image_not_found_text(current.id))
        return changed[current.id][0]

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
        account = get_account(self._records.accounts, owner)
        errors = ErrorCollector()
        with errors.catch():
            ids = parse_image_ids(images, MAX_IMAGES)
        with errors.catch():
            values = validate_changes(dict(changes), self._records.albums, account.id)
        errors.raise_if_any()
        if admit is not None:
            admit(len(ids))
        current = self._records.images.get_many(filter(is_image_id, ids), account.id)
        changed = self._update(current, values, account.id, account)
        return tuple(changed[ImageId(id_)][1] if ImageId(id_) in changed else _not_found(id_) for id_ in ids)

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
        account = get_account(self._records.accounts, owner)
        ids = parse_image_ids(images, MAX_IMAGES)
        if admit is not None:
            admit(len(ids))
        outcomes = self._deleter.delete([ImageId(id_) for id_ in ids if is_image_id(id_)], account)
        results = []
        for image_id in ids:
            outcome = outcomes.get(ImageId(image_id))
            if isinstance(outcome, Exception):
                error = outcome if isinstance(outcome, ImageHostError) else InternalError()
                results.append(_result(image_id, BulkStatus.FAILED, error))
            else:
                results.append(_result(image_id, BulkStatus.DELETED) if outcome else _not_found(image_id))
        return tuple(results)

    def delete(self, image: ImageRef, *, owner: Owner | None = None) -> Deleted:
        """Delete an image: once this returns, no byte of it or of its variants remains.

        No render in progress can restore one. If an earlier attempt deleted the record but not all files,
        this deletes the rest.

        Args:
            image: The image.
            owner: The account that must own it; by default any account.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
            InternalError: Some files are left; the next attempt or `maintenance.cleanup` removes them.
        """
        image_id = image_id_of(image)
        self._deleter.delete_one(image_id, self._owner(owner))
        return Deleted(id=image_id, deleted=True)

    def signing_key(self, *, owner: Owner) -> str:
        """Return the key with which a program signs URLs of an account's images itself.

        It ends when the account's signing secret is renewed. It gives access to all images of the account.

        Args:
            owner: The account.

        Raises:
            NotFoundError: There is no such account.
        """
        return signing_key_text(self._signer.keys.read(get_account(self._records.accounts, owner).id))

    def sign_deletion(self, image: ImageRef, *, owner: Owner) -> str:
        """Return the query of a URL with which anyone can delete an image, once, within 30 days.

        It ends with the image, at the expiry of the key that makes it, and when the account's signing secret
        is renewed. Revoking the key does not end it.

        Args:
            image: The image.
            owner: The account that must own it.

        Raises:
            NotFoundError: There is no such image, or another account owns it.
        """
        account = get_account(self._records.accounts, owner)
        principal = self._units.verify(account)
        current = self._get(image_id_of(image), account.id, self._records.database)
        return self._signer.sign_deletion(self._signer.keys.read(account.id), current, principal)

    def get_deletable(self, image: ImageRef, query: Mapping[str, str]) -> Image:
        """Return an image that the query of `sign_deletion` permits to delete.

        Args:
            image: The image.
            query: The parameters of the URL, `exp` and `sig`.

        Raises:
            NotFoundError: There is no such image, its account is suspended, or the query is not valid for it.
        """
        return self._require_deletable(image_id_of(image), query, self._records.database)

    def delete_signed(self, image: ImageRef, query: Mapping[str, str]) -> Deleted:
        """Delete an image that the query of `sign_deletion` permits to delete, as `delete` does.

        Raises:
            NotFoundError: As `get_deletable`.
            InternalError: As `delete`.
        """
        image_id = self.get_deletable(image, query).id
        result = self._deleter.delete(
            [image_id], None, require=lambda open_: self._require_deletable(image_id, query, open_)
        ).get(image_id)
        if isinstance(result, Exception):
            raise result
        if result is None:
            raise NotFoundError(image_not_found_text(image_id))
        return Deleted(id=image_id, deleted=True)

    def _require_deletable(self, image_id: ImageId, query: Mapping[str, str], queryable: Queryable) -> Image:
        image = self._get(image_id, None, queryable)
        account = self._records.accounts.get(image.account_id, queryable)
        if account is None or account.suspended_at is not None:
            raise NotFoundError(image_not_found_text(image_id))
        key = self._signer.keys.read(image.account_id, queryable)
        if not verify_signed_deletion(key, image_id, query, self._clock()):
            raise NotFoundError(image_not_found_text(image_id))
        return image

    def signed_url(
        self,
        image: ImageRef,
        params: TransformSource = "",
        *,
        owner: Owner | None = None,
        expires_in: int = DEFAULT_LIFETIME_SECONDS,
        **keywords: Unpack[TransformKeywords],
    ) -> SignedUrl:
        """Return an image URL with a signature, which gives access to a private image until it expires.

        Args:
            image: The image.
            params: The transform, as for `ImageHost.render`.
            owner: The account that must own the image; by default any account.
            expires_in: Seconds, from 1 to a year; no longer than a key that signs is valid.
            keywords: The transform as keywords, in place of `params`.

        Raises:
            NotFoundError: There is no such image, or another account owns it; the error also names values
                that are not allowed.
            ValidationError: Parameters or `expires_in` are not allowed; every one is listed in `errors`.
        """
        account = self._owner(owner)
        errors = ErrorCollector()
        current = None
        principal = None if account is None else self._units.verify(account)
        with errors.catch():
            current = self._get(
                image_id_of(image), None if account is None else account.id, self._records.database
            )
        with errors.catch():
            transform = self._signer.validate(transform_parameters(params, keywords), current)
        with errors.catch():
            require_lifetime(expires_in)
        errors.raise_if_any()
        assert current is not None
        key = self._signer.keys.read(current.account_id)
        return self._signer.sign(key, current, transform, expires_in, principal)

    def signed_urls(
        self,
        images: Iterable[SignItem],
        *,
        owner: Owner,
        expires_in: int = DEFAULT_LIFETIME_SECONDS,
        **keywords: Unpack[TransformKeywords],
    ) -> tuple[SignedImageUrl, ...]:
        """Return signed URLs of several images, as `signed_url` does for one.

        Args:
            images: 1–100 images; or pairs of an image and its own parameters, which take precedence over
                `keywords`; or items of the HTTP interface, with `image_id` and parameters.
            owner: The account that must own the images.
            expires_in: Seconds, from 1 to a year; no longer than a key that signs is valid.
            keywords: The transform of the images: `w`, `h`, `q`, `fit` and `fm`.

        Returns:
            The URL of each item, in order.

        Raises:
            NotFoundError: There is no such account, or it has no such image; the error also names values that
                are not allowed.
            ValidationError: Values are not allowed, or there are no or too many items; every one is listed in
                `errors`, by names such as `items[3].w`.
        """
        account = get_account(self._records.accounts, owner)
        errors = ErrorCollector()
        principal = self._units.verify(account)
        signable: list[tuple[Image, Transform]] = []
        with errors.catch():
            given = _parse_items(images, transform_parameters("", keywords))
            ids = (item.get("image_id") for item in given if isinstance(item, Mapping))
            owned = self._records.images.get_many(filter(is_image_id, ids), account.id)
            for index, item in enumerate(given):
                with errors.catch():
                    signable.append(self._validate_item(f"items[{index}]", item, owned))
        with errors.catch():
            require_lifetime(expires_in)
        errors.raise_if_any()
        key = self._signer.keys.read(account.id)
        return tuple(
            SignedImageUrl(
                image_id=image.id,
                **attrs.asdict(self._signer.sign(key, image, transform, expires_in, principal)),
            )
            for image, transform in signable
        )

    def _update(
        self,
        images: Mapping[ImageId, Image],
        changes: Mapping[str, Any],
        account_id: AccountId,
        owner: Account | None,
    ) -> dict[ImageId, tuple[Image, BulkResult]]:
        """Change images in one transaction, and record one `album.updated` for each album that changes.

        Args:
            images: The images of one account as they were read, by id.
            changes: The changes of each, validated.
            account_id: The account.
            owner: The account, if its token must permit the change.

        Returns:
            Those that still exist, as they are now.
        """
        if all(apply_changes(image, changes) == image for image in images.values()):
            if owner is not None:
                self._units.verify(owner)
            return {id_: (image, _result(id_, BulkStatus.UNCHANGED)) for id_, image in images.items()}
        records, now = self._records, self._clock()
        results: dict[ImageId, tuple[Image, BulkResult]] = {}
        albums: dict[AlbumId, None] = {}
        with (
            self._units.begin() as unit,
            self._files.locks.acquire("image", *images),
            self._files.generations.bump(*images),
            self._units.verified(owner, records.database.transaction(account_id)) as transaction,
        ):
            target = require_album(records.albums, changes.get("album_id"), account_id, transaction)
            leaving: frozenset[ImageId] = frozenset()
            if "album_id" in changes and "is_public" not in changes and not changes.get(PUBLISHES):
                leaving = find_leaving(records.images, images, target, transaction)
            for image_id, image in records.images.get_many(images, account_id, transaction).items():
                changed = apply_changes(image, changes)
                status: BulkStatusName = BulkStatus.UNCHANGED
                made_private = image_id in leaving and changed.album_id != image.album_id
                if made_private:
                    changed = attrs.evolve(changed, is_public=False)
                if changed != image:
                    changed, status = attrs.evolve(changed, updated_at=now), BulkStatus.UPDATED
                    records.images.update(transaction, changed)
                if image.is_public and (not changed.is_public or changed.filename != image.filename):
                    records.cache_purges.record(transaction, [image_id], now)
                if changed.album_id != image.album_id:
                    albums |= dict.fromkeys(filter(None, (image.album_id, changed.album_id)))
                results[image_id] = changed, BulkResult(id=image_id, status=status, made_private=made_private)
            for album_id in albums:
                record_membership_change(records.albums, unit, transaction, album_id, account_id, now)
        return results

    def _validate_item(
        self, name: str, item: object, images: Mapping[ImageId, Image]
    ) -> tuple[Image, Transform]:
        """Return the image and the transform of an item.

        Args:
            name: The item's name in errors.
            item: The item.
            images: The images of the account, by id.

        Raises:
            NotFoundError: The account has no such image; the error also names parameters not allowed.
            ValidationError: Parameters are not allowed; every one is listed in `errors`.
        """
        if not isinstance(item, Mapping):
            raise ValidationError.of(name, "an object", quote_value(item))
        errors = ErrorCollector()
        image_id = item.get("image_id")
        image = images.get(image_id) if is_image_id(image_id) else None
        if image is None:
            received = "nothing" if image_id is None else quote_value(image_id)
            kind = NotFoundError if isinstance(image_id, str) else ValidationError
            errors.add(kind.of(f"{name}.image_id", "the id of one of your images", received))
        params = {parameter: value for parameter, value in item.items() if parameter != "image_id"}
        try:
            transform = self._signer.validate(params, image)
        except ValidationError as error:
            renamed = [attrs.evolve(each, name=f"{name}.{each.name}") for each in error.errors]
            errors.add(ValidationError(errors=renamed))
        errors.raise_if_any()
        assert image is not None
        return image, transform

    def _owner(self, owner: Owner | None) -> Account | None:
        """Return the account that must own an image; `None` for any account.

        Raises:
            NotFoundError: There is no such account.
        """
        return None if owner is None else get_account(self._records.accounts, owner)

    def _owner_id(self, owner: Owner | None) -> AccountId | None:
        account = self._owner(owner)
        return None if account is None else account.id

    def _get(self, image_id: ImageId, owner_id: AccountId | None, queryable: Queryable) -> Image:
        if owner_id is not None:
            return _require(self._records.images.get_owned(image_id, owner_id, queryable), image_id)
        return _require(self._records.images.get(image_id, queryable), image_id)


def _require(image: Image | None, image_id: ImageId) -> Image:
    if image is None:
        raise NotFoundError(image_not_found_text(image_id))
    return image


def _parse_items(items: object, params: Any) -> list[object]:
    """Return the items of a request to sign URLs as mappings, each with the parameters of all.

    Raises:
        ValidationError: There are none or too many, or a pair has a parameter of another name.
    """
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise ValidationError.of("items", "a list of objects", quote_value(items))
    given = [_parse_item(f"items[{index}]", item, params) for index, item in enumerate(items)]
    if not 1 <= len(given) <= MAX_IMAGES:
        raise ValidationError.of("items", f"1 to {MAX_IMAGES} objects", f"{len(given)}")
    return given


def _parse_item(name: str, item: object, params: Mapping[str, object]) -> object:
    if isinstance(item, Mapping):
        return {**params, **item}
    match item:
        case Image() | str() as image:
            own: Mapping[str, object] = {}
        case (Image() | str() as image, Mapping() as own):
            if errors := unknown_parameters(name, own):
                raise ValidationError(errors=errors)
        case _:
            return item
    return {"image_id": image.id if isinstance(image, Image) else id_in(image), **params, **own}


def _result(image_id: str, status: BulkStatusName, error: ImageHostError | None = None) -> BulkResult:
    record = None
    if error is not None:
        record = BulkError(code=error.code, message=error.message, details=error.details)
    return BulkResult(id=image_id, status=status, error=record)


def _not_found(image_id: str) -> BulkResult:
    return _result(image_id, BulkStatus.NOT_FOUND, NotFoundError(image_not_found_text(image_id)))
