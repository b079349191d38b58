"""The rows of images, and the graves of those that are being deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer, text, timestamp
from imagehost_core.db.database import Database, Queryable, Row, Transaction, Value
from imagehost_core.db.pagination import paginate
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, ImageId
from imagehost_core.models import Image, Page
from imagehost_core.pagination import PageRequest

_SELECT = "SELECT * FROM images AS item"


@frozen
class Tombstone:
    """An image without a record, whose bytes may still be there.

    Attributes:
        id: Of the image.
        account_id: Whose it was; `None` for one that was buried before this was noted.
        album_id: In which album it was.
        deleted_at: When the record went.
    """

    id: ImageId
    account_id: AccountId | None
    album_id: AlbumId | None
    deleted_at: datetime


@frozen
class ImageRepository:
    """Images in the catalog."""

    catalog: Database

    def get(self, image_id: ImageId, reader: Queryable | None = None) -> Image | None:
        """Return an image, whoever has it, or `None`."""
        row = (reader or self.catalog).fetch_one(f"{_SELECT} WHERE id = :id", {"id": image_id})
        return None if row is None else to_image(row)

    def get_owned(
        self, image_id: ImageId, account_id: AccountId, reader: Queryable | None = None
    ) -> Image | None:
        """Return an image of an account, or `None`; that of another account takes no longer than none."""
        row = (reader or self.catalog).fetch_one(
            f"{_SELECT} WHERE id = :id AND account_id = :account", {"id": image_id, "account": account_id}
        )
        return None if row is None else to_image(row)

    def exists(self, image_id: ImageId) -> bool:
        """Return whether there is such an image at this moment."""
        return self.get(image_id) is not None

    def existing(self, image_ids: Iterable[ImageId]) -> frozenset[ImageId]:
        """Return those ids of some of which there is an image."""
        sql = "SELECT id FROM images WHERE id IN (SELECT value FROM json_each(:ids))"
        rows = self.catalog.fetch_all(sql, {"ids": json.dumps(list(image_ids))})
        return frozenset(ImageId(text(row, "id")) for row in rows)

    def list_by_account(self, account_id: AccountId, request: PageRequest) -> Page[Image]:
        """Return the images of an account."""
        return self._page("item.account_id = :account", {"account": account_id}, request)

    def list_by_album(self, album_id: AlbumId, request: PageRequest) -> Page[Image]:
        """Return the images in an album."""
        return self._page("item.album_id = :album", {"album": album_id}, request)

    def list_public(self, request: PageRequest) -> Page[Image]:
        """Return the public images of all accounts that are not suspended."""
        where = (
            "item.is_public = 1 AND "
            "item.account_id NOT IN (SELECT id FROM accounts WHERE suspended_at IS NOT NULL)"
        )
        return self._page(where, {}, request)

    def ids_by_account(self, account_id: AccountId, reader: Queryable | None = None) -> tuple[ImageId, ...]:
        """Return the ids of all images of an account, with those whose bytes have yet to go."""
        sql = (
            "SELECT id FROM images WHERE account_id = :account "
            "UNION ALL SELECT image_id FROM graves WHERE account_id = :account"
        )
        rows = (reader or self.catalog).fetch_all(sql, {"account": account_id})
        return tuple(ImageId(text(row, "id")) for row in rows)

    def ids_by_album(self, album_id: AlbumId, reader: Queryable | None = None) -> tuple[ImageId, ...]:
        """Return the ids of all images in an album, with those whose bytes have yet to go."""
        sql = (
            "SELECT id FROM images WHERE album_id = :album "
            "UNION ALL SELECT image_id FROM graves WHERE album_id = :album"
        )
        rows = (reader or self.catalog).fetch_all(sql, {"album": album_id})
        return tuple(ImageId(text(row, "id")) for row in rows)

    def insert(self, transaction: Transaction, image: Image) -> None:
        """Record an image."""
        transaction.insert("images", to_row(image))

    def update(self, transaction: Transaction, image: Image) -> None:
        """Record what the owner may change of an image."""
        names = ("album_id", "description", "is_public", "filename", "updated_at")
        row = to_row(image)
        sets = ", ".join(f"{name} = :{name}" for name in names)
        values = {name: row[name] for name in ("id", *names)}
        transaction.execute(f"UPDATE images SET {sets} WHERE id = :id", values)  # noqa: S608

    def insert_tombstone(self, transaction: Transaction, image: Image, now: datetime) -> None:
        """Take an image out of the records, and note that its bytes have yet to go."""
        transaction.execute("DELETE FROM images WHERE id = :id", {"id": image.id})
        grave: Row = {"image_id": image.id, "deleted_at": to_micros(now)}
        transaction.insert("graves", {**grave, "account_id": image.account_id, "album_id": image.album_id})

    def delete_tombstone(self, transaction: Transaction, image_id: ImageId) -> None:
        """Note that all bytes of a deleted image are gone."""
        transaction.execute("DELETE FROM graves WHERE image_id = :id", {"id": image_id})

    def tombstone(self, image_id: ImageId, reader: Queryable | None = None) -> Tombstone | None:
        """Return the grave of an image, or `None`: it has a record, or its bytes are gone."""
        sql = "SELECT * FROM graves WHERE image_id = :id"
        row = (reader or self.catalog).fetch_one(sql, {"id": image_id})
        return None if row is None else _to_tombstone(row)

    def tombstones(self) -> tuple[ImageId, ...]:
        """Return the ids of deleted images whose bytes may still be there."""
        rows = self.catalog.fetch_all("SELECT image_id FROM graves", {})
        return tuple(ImageId(text(row, "image_id")) for row in rows)

    def _page(self, where: str, values: dict[str, Value], request: PageRequest) -> Page[Image]:
        return paginate(self.catalog, "images", where, values, request, to_image)


def to_image(row: Row) -> Image:
    """Return a row as an image."""
    return Image(
        id=ImageId(text(row, "id")),
        account_id=AccountId(integer(row, "account_id")),
        album_id=None if row["album_id"] is None else AlbumId(integer(row, "album_id")),
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
        derivatives=tuple((width, height) for width, height in json.loads(text(row, "rungs"))),
        created_at=timestamp(row, "created_at"),
        updated_at=timestamp(row, "updated_at"),
    )


def _to_tombstone(row: Row) -> Tombstone:
    account_id, album_id = row["account_id"], row["album_id"]
    return Tombstone(
        id=ImageId(text(row, "image_id")),
        account_id=None if account_id is None else AccountId(integer(row, "account_id")),
        album_id=None if album_id is None else AlbumId(integer(row, "album_id")),
        deleted_at=timestamp(row, "deleted_at"),
    )


def to_row(image: Image) -> Row:
    """Return an image as a row."""
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
        "rungs": json.dumps(image.derivatives),
        "created_at": to_micros(image.created_at),
        "updated_at": to_micros(image.updated_at),
    }
