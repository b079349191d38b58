"""The images table, and the tombstones of images whose files are being deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache
from operator import itemgetter

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import blob, integer, text, timestamp
from imagehost_core.db.counters import count_image
from imagehost_core.db.database import Database, Queryable, SqlRow, SqlValue, Transaction
from imagehost_core.db.gallery import GalleryScope, add_to_gallery, refresh_gallery, remove_from_gallery
from imagehost_core.db.image_words import delete_words, insert_words, update_words
from imagehost_core.db.word_bits import filter_of_image
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, ImageId
from imagehost_core.models import Image

COLUMNS = (
    "id",
    "account_id",
    "album_id",
    "filename",
    "original_filename",
    "description",
    "is_public",
    "format",
    "size",
    "width",
    "height",
    "frames",
    "has_alpha",
    "sha256",
    "placeholder",
    "derivatives",
    "created_at",
    "updated_at",
)
"""The columns of `images` that are attributes of an image."""
INVALID_ROW = (AssertionError, TypeError, ValueError)
"""The errors of `to_image` for a row that no image was stored as."""
ROWS_IN_MEMORY = 2_000
"""Rows whose images are kept in memory, per process; each takes about 3 KB."""
_values_of: Callable[[SqlRow], tuple[SqlValue, ...]] = itemgetter(*COLUMNS)
_UPDATABLE = ("album_id", "description", "is_public", "filename", "word_bits", "updated_at")
_SELECT = "SELECT * FROM images AS item"
_SELECT_DELIVERED = """
SELECT item.*, accounts.signing_secret AS signing_secret FROM images AS item
JOIN accounts ON accounts.id = item.account_id WHERE item.id = :id AND accounts.suspended_at IS NULL
"""


@frozen
class Tombstone:
    """A deleted image whose files may still be on the disk.

    Attributes:
        id: The image's id.
        account_id: The account that owned it.
        album_id: The album that it was in, or `None`.
        deleted_at: When its row was deleted.
    """

    id: ImageId
    account_id: AccountId
    album_id: AlbumId | None
    deleted_at: datetime


@frozen
class ImageRepository:
    """Images in the database."""

    database: Database

    def get(self, image_id: ImageId, queryable: Queryable | None = None) -> Image | None:
        """Return an image of any account, or `None`."""
        row = (queryable or self.database).fetch_one(f"{_SELECT} WHERE id = :id", {"id": image_id})
        return None if row is None else to_image(row)

    def get_delivered(self, image_id: ImageId) -> tuple[Image, bytes] | None:
        """Return an image of an account that is not suspended, with that one's signing secret, or `None`."""
        row = self.database.fetch_one(_SELECT_DELIVERED, {"id": image_id})
        return None if row is None else (to_image(row), blob(row, "signing_secret"))

    def get_public(self, image_id: ImageId) -> Image | None:
        """Return a public image of an account that is not suspended, or `None`."""
        found = self.get_delivered(image_id)
        return found[0] if found is not None and found[0].is_public else None

    def get_owned(
        self, image_id: ImageId, account_id: AccountId, queryable: Queryable | None = None
    ) -> Image | None:
        """Return an image of an account, or `None`, in equal time for a missing and for a foreign one."""
        row = (queryable or self.database).fetch_one(
            f"{_SELECT} WHERE id = :id AND account_id = :account", {"id": image_id, "account": account_id}
        )
        return None if row is None else to_image(row)

    def get_many(
        self,
        image_ids: Iterable[ImageId],
        account_id: AccountId | None = None,
        queryable: Queryable | None = None,
    ) -> dict[ImageId, Image]:
        """Return the images that exist of the given ids, by id.

        Args:
            image_ids: The ids.
            account_id: Only images of this account; `None` for any account.
            queryable: An open transaction, or the database.
        """
        values: dict[str, SqlValue] = {"ids": json.dumps(list(image_ids))}
        queryable = queryable or self.database
        where = f"WHERE id IN {queryable.dialect.texts('ids')}"
        if account_id is not None:
            where, values = f"{where} AND account_id = :account", {**values, "account": account_id}
        images = map(to_image, queryable.fetch_all(f"{_SELECT} {where}", values))
        return {image.id: image for image in images}

    def exists(self, image_id: ImageId) -> bool:
        """Return whether an image exists now."""
        return self.get(image_id) is not None

    def existing(self, image_ids: Iterable[ImageId]) -> frozenset[ImageId]:
        """Return those of the given ids that are ids of images."""
        sql = f"SELECT id FROM images WHERE id IN {self.database.dialect.texts('ids')}"  # noqa: S608
        rows = self.database.fetch_all(sql, {"ids": json.dumps(list(image_ids))})
        return frozenset(ImageId(text(row, "id")) for row in rows)

    def ids_by_account(
        self, account_id: AccountId, queryable: Queryable | None = None
    ) -> tuple[ImageId, ...]:
        """Return the ids of an account's images, including deleted ones with a tombstone."""
        sql = (
            "SELECT id FROM images WHERE account_id = :account "
            "UNION ALL SELECT image_id FROM tombstones WHERE account_id = :account"
        )
        rows = (queryable or self.database).fetch_all(sql, {"account": account_id})
        return tuple(ImageId(text(row, "id")) for row in rows)

    def ids_by_album(self, album_id: AlbumId, queryable: Queryable | None = None) -> tuple[ImageId, ...]:
        """Return the ids of an album's images, including deleted ones with a tombstone."""
        sql = (
            "SELECT id FROM images WHERE album_id = :album "
            "UNION ALL SELECT image_id FROM tombstones WHERE album_id = :album"
        )
        rows = (queryable or self.database).fetch_all(sql, {"album": album_id})
        return tuple(ImageId(text(row, "id")) for row in rows)

    def insert(self, transaction: Transaction, image: Image) -> None:
        """Insert an image."""
        number = transaction.insert_numbered("images", to_row(image), "number")
        insert_words(transaction, number, image)
        count_image(transaction, None, image)
        add_to_gallery(transaction, image.id)

    def update(self, transaction: Transaction, image: Image) -> None:
        """Update the columns of an image that its owner may change; the image must exist."""
        before = self.get(image.id, transaction)
        assert before is not None, image.id
        row = to_row(image)
        assignments = ", ".join(f"{name} = :{name}" for name in _UPDATABLE)
        values = {name: row[name] for name in ("id", *_UPDATABLE)}
        transaction.execute(f"UPDATE images SET {assignments} WHERE id = :id", values)  # noqa: S608
        if (image.filename, image.description) != (before.filename, before.description):
            update_words(transaction, image)
        if (image.filename, image.is_public) != (before.filename, before.is_public):
            transaction.invalidate([image.id])
        if (image.album_id, image.is_public) != (before.album_id, before.is_public):
            count_image(transaction, before, image)
            refresh_gallery(transaction, GalleryScope.IMAGE, image.id)

    def update_derivatives(self, transaction: Transaction, image: Image) -> None:
        """Update the derivatives of an image."""
        values = {"id": image.id, "derivatives": to_row(image)["derivatives"]}
        transaction.execute("UPDATE images SET derivatives = :derivatives WHERE id = :id", values)
        transaction.invalidate([image.id])

    def insert_tombstone(self, transaction: Transaction, image: Image, now: datetime) -> None:
        """Replace an image's row, as the transaction reads it, by a tombstone."""
        count_image(transaction, image, None)
        remove_from_gallery(transaction, GalleryScope.IMAGE, image.id)
        delete_words(transaction, image)
        transaction.execute("DELETE FROM images WHERE id = :id", {"id": image.id})
        transaction.insert(
            "tombstones",
            {
                "image_id": image.id,
                "account_id": image.account_id,
                "album_id": image.album_id,
                "deleted_at": to_micros(now),
            },
        )

    def delete_tombstone(self, transaction: Transaction, image_id: ImageId) -> None:
        """Delete a tombstone, when all files of the image have been deleted."""
        transaction.execute("DELETE FROM tombstones WHERE image_id = :id", {"id": image_id})

    def tombstone(self, image_id: ImageId) -> Tombstone | None:
        """Return the tombstone of an image, or `None`."""
        return self.tombstones_of([image_id]).get(image_id)

    def tombstones_of(
        self, image_ids: Iterable[ImageId], queryable: Queryable | None = None
    ) -> dict[ImageId, Tombstone]:
        """Return the tombstones of those of the given ids that have one, by id."""
        queryable = queryable or self.database
        sql = f"SELECT * FROM tombstones WHERE image_id IN {queryable.dialect.texts('ids')}"  # noqa: S608
        rows = queryable.fetch_all(sql, {"ids": json.dumps(list(image_ids))})
        return {tombstone.id: tombstone for tombstone in map(_to_tombstone, rows)}

    def tombstones(self) -> tuple[ImageId, ...]:
        """Return the ids of all images with a tombstone."""
        rows = self.database.fetch_all("SELECT image_id FROM tombstones", {})
        return tuple(ImageId(text(row, "image_id")) for row in rows)


def to_image(row: SqlRow) -> Image:
    """Convert a row of `images`; equal rows return the same object.

    A row is compared in a twelfth of the time that it takes to convert it, and lists have the same rows again
    and again. Callers can cache what they derive from an image, such as its JSON, by the image.
    """
    return _to_image(_values_of(row))


@lru_cache(ROWS_IN_MEMORY)
def _to_image(values: tuple[SqlValue, ...]) -> Image:
    row = dict(zip(COLUMNS, values, strict=True))
    # Of each: width, height, and the checksum if it was recorded.
    derivatives = json.loads(text(row, "derivatives"))
    return Image(
        id=ImageId(text(row, "id")),
        account_id=AccountId(integer(row, "account_id")),
        album_id=_optional_album_id(row),
        filename=text(row, "filename"),
        original_filename=text(row, "original_filename"),
        description=text(row, "description"),
        is_public=bool(row["is_public"]),
        format=Format(text(row, "format")),
        size=integer(row, "size"),
        width=integer(row, "width"),
        height=integer(row, "height"),
        frames=integer(row, "frames"),
        has_alpha=bool(row["has_alpha"]),
        sha256=text(row, "sha256"),
        placeholder=text(row, "placeholder"),
        derivatives=tuple((width, height) for width, height, *_ in derivatives),
        derivative_checksums=tuple(checksum for _, _, *checksums in derivatives for checksum in checksums),
        created_at=timestamp(row, "created_at"),
        updated_at=timestamp(row, "updated_at"),
    )


def to_row(image: Image) -> SqlRow:
    """Convert an image to a row of `images`."""
    return {
        "id": image.id,
        "account_id": image.account_id,
        "album_id": image.album_id,
        "filename": image.filename,
        "original_filename": image.original_filename,
        "description": image.description,
        "is_public": int(image.is_public),
        "format": image.format.value,
        "size": image.size,
        "width": image.width,
        "height": image.height,
        "frames": image.frames,
        "has_alpha": int(image.has_alpha),
        "sha256": image.sha256,
        "placeholder": image.placeholder,
        "derivatives": json.dumps(_derivatives(image)),
        "created_at": to_micros(image.created_at),
        "updated_at": to_micros(image.updated_at),
        "word_bits": filter_of_image(image),
    }


def _derivatives(image: Image) -> list[tuple[int, ...]]:
    """Return the width, the height and, if it is known, the checksum of each derivative."""
    checksums = image.derivative_checksums
    return [(*size, *checksums[index : index + 1]) for index, size in enumerate(image.derivatives)]


def _to_tombstone(row: SqlRow) -> Tombstone:
    return Tombstone(
        id=ImageId(text(row, "image_id")),
        account_id=AccountId(integer(row, "account_id")),
        album_id=_optional_album_id(row),
        deleted_at=timestamp(row, "deleted_at"),
    )


def _optional_album_id(row: SqlRow) -> AlbumId | None:
    return None if row["album_id"] is None else AlbumId(integer(row, "album_id"))
