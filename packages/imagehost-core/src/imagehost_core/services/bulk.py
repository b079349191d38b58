"""Bulk requests: change, delete or sign many images of an account at once.

A request is checked as a whole before it has any effect. Then each image has a result of its own; an image
that does not exist stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any

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
from imagehost_core.errors import (
    ErrorCollector,
    FieldError,
    ImageHostError,
    InternalError,
    NotFoundError,
    ValidationError,
    quote_value,
)
from imagehost_core.ids import AlbumId, ImageId, image_not_found_text, is_image_id
from imagehost_core.models import Account, Image
from imagehost_core.services.albums import record_membership_change, require_album
from imagehost_core.services.deletion import ImageDeleter
from imagehost_core.services.image_changes import apply_changes, validate_changes
from imagehost_core.services.references import ImageRef, Owner, get_account, parse_image_ids
from imagehost_core.services.signed_urls import UrlSigner, require_lifetime
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.storage import GenerationTable, LockManager
from imagehost_core.transform import Transform

MAX_IMAGES = 100
"""Images that one bulk request can change or delete, and URLs that one request can sign."""

Admit = Callable[[int], object]
"""A function that is called with the number of images of a valid request before anything changes; it raises
to refuse the request."""


class BulkStatus(StrEnum):
    """The outcome of a bulk request for one image."""

    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    NOT_FOUND = "not_found"
    FAILED = "failed"


@frozen
class BulkResult:
    """The outcome of a bulk request for one image.

    Attributes:
        id: The id as given.
        status: The outcome.
        error: The error of an image that was not found, or of which some files could not be deleted yet.
    """

    id: str
    status: BulkStatus
    error: ImageHostError | None = None


@frozen
class BulkImageService:
    """Bulk requests for the images of a host."""

    _database: Database = field(repr=False)
    _images: ImageRepository = field(repr=False)
    _albums: AlbumRepository = field(repr=False)
    _accounts: AccountRepository = field(repr=False)
    _locks: LockManager = field(repr=False)
    _generations: GenerationTable = field(repr=False)
    _deleter: ImageDeleter = field(repr=False)
    _signer: UrlSigner = field(repr=False)
    _cache_purges: CachePurgeRepository = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _clock: Clock = field(repr=False)

    def update(
        self,
        images: Iterable[ImageRef],
        changes: Mapping[str, object],
        *,
        owner: Owner,
        admit: Admit | None = None,
    ) -> tuple[BulkResult, ...]:
        """Change images, as `ImageService.update_many` does."""
        account, errors = get_account(self._accounts, owner), ErrorCollector()
        with errors.catch():
            ids = parse_image_ids(images, MAX_IMAGES)
        with errors.catch():
            values = validate_changes(changes, self._albums, account.id)
        errors.raise_if_any()
        if admit is not None:
            admit(len(ids))
        current = self._images.get_many(filter(is_image_id, ids), account.id)
        if all(apply_changes(image, values) == image for image in current.values()):
            self._units.verify(account)
            statuses = dict.fromkeys(current, BulkStatus.UNCHANGED)
        else:
            statuses = self._update(current, values, account)
        return tuple(_result(image_id, statuses.get(ImageId(image_id))) for image_id in ids)

    def delete(
        self, images: Iterable[ImageRef], *, owner: Owner, admit: Admit | None = None
    ) -> tuple[BulkResult, ...]:
        """Delete images, as `ImageService.delete_many` does."""
        account, ids = get_account(self._accounts, owner), parse_image_ids(images, MAX_IMAGES)
        if admit is not None:
            admit(len(ids))
        outcomes = self._deleter.delete([ImageId(id_) for id_ in ids if is_image_id(id_)], account)
        results = []
        for image_id in ids:
            outcome = outcomes.get(ImageId(image_id))
            if isinstance(outcome, Exception):
                results.append(BulkResult(image_id, BulkStatus.FAILED, _to_error(outcome)))
            else:
                results.append(_result(image_id, BulkStatus.DELETED if outcome else None))
        return tuple(results)

    def signed_urls(
        self, items: Iterable[Mapping[str, object]], *, owner: Owner, expires_in: int
    ) -> tuple[str, ...]:
        """Sign URLs, as `ImageService.signed_urls` does."""
        account, errors = get_account(self._accounts, owner), ErrorCollector()
        principal = self._units.verify(account)
        signable: list[tuple[Image, Transform]] = []
        with errors.catch():
            given = _parse_items(items)
            ids = (item.get("image_id") for item in given if isinstance(item, Mapping))
            images = self._images.get_many(filter(is_image_id, ids), account.id)
            for index, item in enumerate(given):
                with errors.catch():
                    signable.append(self._validate_item(f"items[{index}]", item, images))
        with errors.catch():
            require_lifetime(expires_in)
        errors.raise_if_any()
        key = self._signer.key_of(account.id)
        return tuple(self._signer.sign(key, *item, expires_in, principal) for item in signable)

    def _update(
        self, images: Collection[ImageId], changes: Mapping[str, Any], account: Account
    ) -> dict[ImageId, BulkStatus]:
        """Change images in one transaction, and record one `album.updated` for each album that changes."""
        statuses: dict[ImageId, BulkStatus] = {}
        albums: dict[AlbumId, None] = {}
        now = self._clock()
        with (
            self._units.begin() as unit,
            self._locks.acquire_all("image", images),
            self._generations.bump(*images),
            self._units.transaction(account) as transaction,
        ):
            require_album(self._albums, changes.get("album_id"), account.id, transaction)
            for image_id, image in self._images.get_many(images, account.id, transaction).items():
                changed = apply_changes(image, changes)
                statuses[image_id] = BulkStatus.UNCHANGED if changed == image else BulkStatus.UPDATED
                if changed != image:
                    self._images.update(transaction, attrs.evolve(changed, updated_at=now))
                if image.is_public and not changed.is_public:
                    self._cache_purges.record(transaction, [image_id], now)
                if changed.album_id != image.album_id:
                    albums |= dict.fromkeys(filter(None, (image.album_id, changed.album_id)))
            for album_id in albums:
                record_membership_change(self._albums, unit, transaction, album_id, account.id, now)
        return statuses

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
            raise ValidationError(errors=[FieldError(name, "an object", quote_value(item))])
        errors, image_id = ErrorCollector(), item.get("image_id")
        image = images.get(image_id) if is_image_id(image_id) else None
        if image is None:
            received = "nothing" if image_id is None else quote_value(image_id)
            kind = NotFoundError if isinstance(image_id, str) else ValidationError
            errors.add(
                kind(errors=[FieldError(f"{name}.image_id", "the id of one of your images", received)])
            )
        params = {parameter: value for parameter, value in item.items() if parameter != "image_id"}
        try:
            transform = self._signer.validate(params, image)
        except ValidationError as error:
            renamed = [attrs.evolve(each, name=f"{name}.{each.name}") for each in error.errors]
            errors.add(ValidationError(errors=renamed))
        errors.raise_if_any()
        assert image is not None
        return image, transform


def _parse_items(items: object) -> list[object]:
    """Return the items of a request to sign URLs.

    Raises:
        ValidationError: There are none or too many.
    """
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise ValidationError(errors=[FieldError("items", "a list of objects", quote_value(items))])
    given = list(items)
    if not 1 <= len(given) <= MAX_IMAGES:
        raise ValidationError(errors=[FieldError("items", f"1 to {MAX_IMAGES} objects", f"{len(given)}")])
    return given


def _result(image_id: str, status: BulkStatus | None) -> BulkResult:
    if status is None:
        return BulkResult(image_id, BulkStatus.NOT_FOUND, NotFoundError(image_not_found_text(image_id)))
    return BulkResult(image_id, status)


def _to_error(error: Exception) -> ImageHostError:
    return error if isinstance(error, ImageHostError) else InternalError()
