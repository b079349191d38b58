"""The rows of albums. How many images one has, and which is its cover, is asked of the images."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer, text, timestamp
from imagehost_core.db.database import Database, Queryable, Row, Transaction, Value
from imagehost_core.db.images import ImageRepository
from imagehost_core.db.pagination import paginate
from imagehost_core.ids import AccountId, AlbumId, ImageId
from imagehost_core.models import Album, Page
from imagehost_core.pagination import PageRequest

_SELECT = """
SELECT item.*,
    (SELECT count(*) FROM images WHERE images.album_id = item.id) AS image_count,
    (SELECT images.id FROM images WHERE images.album_id = item.id
        ORDER BY images.created_at DESC, images.id DESC LIMIT 1) AS cover_image_id
FROM albums AS item
"""


@frozen
class AlbumRepository:
    """Albums in the catalog."""

    catalog: Database
    images: ImageRepository

    def get(self, album_id: AlbumId, account_id: AccountId, reader: Queryable | None = None) -> Album | None:
        """Return an album of an account, or `None`."""
        asked = reader or self.catalog
        row = asked.fetch_one(
            f"{_SELECT} WHERE item.id = :id AND item.account_id = :account",
            {"id": album_id, "account": account_id},
        )
        return None if row is None else self._read(row, asked)

    def list_by_account(self, account_id: AccountId, request: PageRequest) -> Page[Album]:
        """Return the albums of an account."""
        return paginate(
            self.catalog,
            "albums",
            "item.account_id = :account",
            {"account": account_id},
            request,
            lambda row: self._read(row, self.catalog),
            _SELECT,
        )

    def insert(
        self, transaction: Transaction, account_id: AccountId, fields: Mapping[str, Value], now: datetime
    ) -> AlbumId:
        """Make an album of a name, a description and a visibility."""
        at = to_micros(now)
        row = {"account_id": account_id, **fields, "created_at": at, "updated_at": at}
        return AlbumId(transaction.insert("albums", row))

    def update(
        self, transaction: Transaction, album_id: AlbumId, fields: Mapping[str, Value], now: datetime
    ) -> None:
        """Change some of an album's name, description and visibility."""
        sets = "".join(f"{name} = :{name}, " for name in fields)
        transaction.execute(
            f"UPDATE albums SET {sets}updated_at = :now WHERE id = :id",  # noqa: S608
            {**fields, "id": album_id, "now": to_micros(now)},
        )

    def delete(self, transaction: Transaction, album_id: AlbumId) -> None:
        """Remove an album; its images are in none then."""
        transaction.execute("DELETE FROM albums WHERE id = :id", {"id": album_id})

    def _read(self, row: Row, reader: Queryable) -> Album:
        cover_id = row["cover_image_id"]
        return Album(
            id=AlbumId(integer(row, "id")),
            account_id=AccountId(integer(row, "account_id")),
            name=text(row, "name"),
            description=text(row, "description"),
            is_public=bool(row["is_public"]),
            image_count=integer(row, "image_count"),
            cover=None if cover_id is None else self.images.get(ImageId(str(cover_id)), reader),
            created_at=timestamp(row, "created_at"),
            updated_at=timestamp(row, "updated_at"),
        )
