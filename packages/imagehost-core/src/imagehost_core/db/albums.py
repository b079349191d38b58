"""The albums table. An album's image count and cover are computed from its images."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer, text, timestamp
from imagehost_core.db.database import Database, Queryable, SqlRow, SqlValue, Transaction
from imagehost_core.db.images import COLUMNS as IMAGE_COLUMNS
from imagehost_core.db.images import to_image
from imagehost_core.db.pagination import paginate
from imagehost_core.ids import AccountId, AlbumId
from imagehost_core.models import Album, Page
from imagehost_core.pagination import PageRequest

_COVER_COLUMNS = ", ".join(f"cover.{name} AS cover_{name}" for name in IMAGE_COLUMNS)
# One statement reads one snapshot: the cover cannot be deleted between the count and the cover's row.
_SELECT = f"""
SELECT item.*,
    (SELECT count(*) FROM images WHERE images.album_id = item.id) AS image_count,
    {_COVER_COLUMNS}
FROM albums AS item
LEFT JOIN images AS cover ON cover.id = (
    SELECT images.id FROM images WHERE images.album_id = item.id
    ORDER BY images.created_at DESC, images.id DESC LIMIT 1
)
"""  # noqa: S608 - column names are constants


@frozen
class AlbumRepository:
    """Albums in the database."""

    database: Database

    def get(
        self, album_id: AlbumId, account_id: AccountId, queryable: Queryable | None = None
    ) -> Album | None:
        """Return an album of an account, or `None`."""
        row = (queryable or self.database).fetch_one(
            f"{_SELECT} WHERE item.id = :id AND item.account_id = :account",
            {"id": album_id, "account": account_id},
        )
        return None if row is None else to_album(row)

    def list_by_account(self, account_id: AccountId, request: PageRequest) -> Page[Album]:
        """Return one page of an account's albums."""
        return paginate(
            self.database,
            "albums",
            "item.account_id = :account",
            {"account": account_id},
            request,
            to_album,
            _SELECT,
        )

    def insert(
        self, transaction: Transaction, account_id: AccountId, fields: Mapping[str, SqlValue], now: datetime
    ) -> AlbumId:
        """Insert an album with the fields `name`, `description` and `is_public`."""
        now_micros = to_micros(now)
        row = {"account_id": account_id, **fields, "created_at": now_micros, "updated_at": now_micros}
        return AlbumId(transaction.insert("albums", row))

    def update(
        self, transaction: Transaction, album_id: AlbumId, fields: Mapping[str, SqlValue], now: datetime
    ) -> None:
        """Update some of an album's fields `name`, `description` and `is_public`."""
        assignments = "".join(f"{name} = :{name}, " for name in fields)
        transaction.execute(
            f"UPDATE albums SET {assignments}updated_at = :now WHERE id = :id",  # noqa: S608
            {**fields, "id": album_id, "now": to_micros(now)},
        )

    def delete(self, transaction: Transaction, album_id: AlbumId) -> None:
        """Delete an album; its images stay, in no album."""
        transaction.execute("DELETE FROM albums WHERE id = :id", {"id": album_id})


def to_album(row: SqlRow) -> Album:
    """Convert a row of the query for albums with their covers."""
    has_cover = row["cover_id"] is not None
    return Album(
        id=AlbumId(integer(row, "id")),
        account_id=AccountId(integer(row, "account_id")),
        name=text(row, "name"),
        description=text(row, "description"),
        is_public=bool(row["is_public"]),
        image_count=integer(row, "image_count"),
        cover=to_image({name: row[f"cover_{name}"] for name in IMAGE_COLUMNS}) if has_cover else None,
        created_at=timestamp(row, "created_at"),
        updated_at=timestamp(row, "updated_at"),
    )
