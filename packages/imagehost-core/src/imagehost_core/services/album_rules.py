"""Rules of albums that several services apply: values, references, privacy, and changes of membership."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from imagehost_core.db.engines.database import Queryable, SqlValue, Transaction
from imagehost_core.db.repositories.albums import AlbumRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.errors import FieldError, NotFoundError, ValidationError, quote_value
from imagehost_core.ids import AccountId, AlbumId, ImageId, album_not_found_text
from imagehost_core.models import Album
from imagehost_core.services.unit_of_work import UnitOfWork
from imagehost_core.uploads import INVALID_TEXT, description_errors, has_visible_character, is_valid_text

MAX_ALBUM_NAME = 100
"""Characters of an album's name, after trimming."""


def find_leaving(
    images: ImageRepository, image_ids: Iterable[ImageId], target: Album | None, queryable: Queryable
) -> frozenset[ImageId]:
    """Return the images that only their album's privacy keeps out of galleries, if they leave it.

    They become private, so that leaving a private album publishes nothing, unless the request says otherwise.

    Args:
        images: The images of the host.
        image_ids: The images that move; those that are in the target already do not leave.
        target: The album that they move to, or `None`.
        queryable: The transaction.
    """
    if target is not None and not target.is_public:
        return frozenset()
    return images.find_hidden(image_ids, queryable)


def record_membership_change(
    albums: AlbumRepository,
    unit: UnitOfWork,
    transaction: Transaction,
    album_id: AlbumId,
    account_id: AccountId,
    now: datetime,
) -> Album:
    """Update the `updated_at` of an album, record `album.updated`, and return the album.

    Raises:
        NotFoundError: The account has no such album.
    """
    albums.update(transaction, album_id, {}, now)
    album = albums.get(album_id, account_id, transaction)
    if album is None:
        raise NotFoundError(album_not_found_text(album_id))
    unit.album_updated(transaction, album)
    return album


def require_album(
    albums: AlbumRepository,
    album_id: int | None,
    account_id: AccountId,
    queryable: Queryable | None = None,
) -> Album | None:
    """Return an album of the account, or `None` for `None`; raise ValidationError if it has no such album.

    An unknown album in a request body is 422, not 404: the request itself names no missing resource.
    """
    if album_id is None:
        return None
    if (album := albums.get(AlbumId(album_id), account_id, queryable)) is not None:
        return album
    raise ValidationError.of("album_id", "the id of one of your albums", quote_value(album_id))


def validate_album(fields: Mapping[str, object]) -> dict[str, SqlValue]:
    """Return an album's fields as values of its database columns.

    Raises:
        ValidationError: A value is not allowed; all errors are reported together.
    """
    errors = list(_errors(fields))
    if errors:
        raise ValidationError(errors=errors)
    row: dict[str, SqlValue] = {}
    for name, value in fields.items():
        row[name] = int(value) if isinstance(value, bool) else str(value)
    if "name" in row:
        row["name"] = str(row["name"]).strip()
    return row


def _errors(fields: Mapping[str, object]) -> Iterator[FieldError]:
    name = fields.get("name", "-")
    if not isinstance(name, str) or len(name.strip()) > MAX_ALBUM_NAME or not has_visible_character(name):
        expected = f"text of 1 to {MAX_ALBUM_NAME} characters after trimming, at least one of them visible,"
        yield FieldError("name", expected, quote_value(name) if name else "none")
    elif not is_valid_text(name):
        yield FieldError("name", *INVALID_TEXT)
    yield from description_errors(fields.get("description", ""))
    for flag in ("is_public", "images_public"):
        if not isinstance(fields.get(flag, True), bool):
            yield FieldError(flag, "true or false", quote_value(fields[flag]))
