"""The tables of albums and of their shares. An album's cover is the newest of its images."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.counters import add_to_counter
from imagehost_core.db.engines.database import Database, Queryable, SqlRow, SqlValue, Transaction, integer
from imagehost_core.db.image_rows import COLUMNS as IMAGE_COLUMNS
from imagehost_core.db.image_rows import to_image
from imagehost_core.db.lists.gallery import GalleryScope, refresh_gallery
from imagehost_core.db.lists.pages import ItemList, count_items, list_id, paginate
from imagehost_core.db.rows import read_column, to_record, to_row, update_row
from imagehost_core.ids import AccountId, AlbumId
from imagehost_core.lists import PageRequest
from imagehost_core.models import NO_URLS, Album, AlbumShare, Image, Page, PublicAlbum, UrlBuilder

_COVER_COLUMNS = ", ".join(f"cover.{name} AS cover_{name}" for name in IMAGE_COLUMNS)
# One statement reads one snapshot: the cover cannot be deleted between the count and the cover's row.
_SELECT_WITH_COVER = f"""
SELECT item.*, {_COVER_COLUMNS}
FROM albums AS item
LEFT JOIN images AS cover ON cover.id = (
    SELECT images.id FROM images WHERE images.album_id = item.id {{condition}}
    ORDER BY images.created_at DESC, images.id DESC LIMIT 1
)
"""  # noqa: S608 - column names are constants
_SELECT = _SELECT_WITH_COVER.format(condition="")
_SELECT_PUBLIC = f"""
{_SELECT_WITH_COVER.format(condition="AND images.is_public = 1")}
WHERE item.id = :id AND item.is_public = 1
    AND EXISTS (SELECT 1 FROM accounts WHERE id = item.account_id AND suspended_at IS NULL)
"""  # noqa: S608 - a constant

_IS_VALID = "(item.expires_at IS NULL OR item.expires_at > :now)"
_SELECT_SHARED = f"""
SELECT item.*, albums.account_id FROM album_shares AS item JOIN albums ON albums.id = item.album_id
JOIN accounts ON accounts.id = albums.account_id
WHERE item.token_hash = :hash AND accounts.suspended_at IS NULL AND {_IS_VALID}
"""  # noqa: S608 - a constant


@frozen
class AlbumRepository:
    """Albums in the database."""

    database: Database
    urls: UrlBuilder = NO_URLS

    def get(
        self, album_id: AlbumId, account_id: AccountId, queryable: Queryable | None = None
    ) -> Album | None:
        """Return an album of an account, or `None`."""
        row = (queryable or self.database).fetch_one(
            f"{_SELECT} WHERE item.id = :id AND item.account_id = :account",
            {"id": album_id, "account": account_id},
        )
        return None if row is None else self._to_album(row)

    def get_public(self, album_id: AlbumId) -> PublicAlbum | None:
        """Return a public album of an account that is not suspended, or `None`."""
        row = self.database.fetch_one(_SELECT_PUBLIC, {"id": album_id})
        if row is None:
            return None
        return to_record(
            PublicAlbum, {**row, "image_count": row["public_image_count"], "cover": self._to_cover(row)}
        )

    def list_by_account(self, account_id: AccountId, request: PageRequest) -> Page[Album]:
        """Return one page of an account's albums."""
        albums = ItemList(
            id=list_id("albums", account_id),
            table="albums",
            has_numbers=True,
            where="item.account_id = :account",
            values={"account": account_id},
            to_item=self._to_album,
            select=_SELECT,
        )
        count = int(read_column(self.database, "accounts", "album_count", account_id) or 0)
        return paginate(self.database, albums, request, count)

    def insert(
        self, transaction: Transaction, account_id: AccountId, fields: Mapping[str, SqlValue], now: datetime
    ) -> AlbumId:
        """Insert an album with the fields `name`, `description` and `is_public`."""
        now_micros = to_micros(now)
        row = {"account_id": account_id, **fields, "created_at": now_micros, "updated_at": now_micros}
        add_to_counter(transaction, "accounts", "album_count", account_id)
        return AlbumId(transaction.insert_numbered("albums", row, "id"))

    def update(
        self, transaction: Transaction, album_id: AlbumId, fields: Mapping[str, SqlValue], now: datetime
    ) -> None:
        """Update some of an album's fields `name`, `description` and `is_public`."""
        before = read_column(transaction, "albums", "is_public", album_id)
        update_row(transaction, "albums", {**fields, "id": album_id, "updated_at": to_micros(now)})
        if before not in (None, fields.get("is_public", before)):
            refresh_gallery(transaction, GalleryScope.ALBUM, album_id)

    def delete(self, transaction: Transaction, album: Album) -> None:
        """Delete an album that has no images any more."""
        add_to_counter(transaction, "accounts", "album_count", album.account_id, -1)
        transaction.execute("DELETE FROM albums WHERE id = :id", {"id": album.id})

    def get_shared(self, token_hash: str, now: datetime) -> tuple[AlbumShare, Album] | None:
        """Return a valid share, and its album, if its account is not suspended; otherwise `None`."""
        row = self.database.fetch_one(_SELECT_SHARED, {"hash": token_hash, "now": to_micros(now)})
        if row is None:
            return None
        share = to_record(AlbumShare, row)
        album = self.get(share.album_id, AccountId(integer(row, "account_id")))
        return None if album is None else (share, album)

    def list_shares(
        self, album_id: AlbumId, now: datetime, request: PageRequest, queryable: Queryable | None = None
    ) -> Page[AlbumShare]:
        """Return one page of an album's shares that have not expired."""
        queryable = queryable or self.database
        shares = ItemList(
            id=list_id("shares", album_id),
            table="album_shares",
            where=f"item.album_id = :album AND {_IS_VALID}",
            values={"album": album_id, "now": to_micros(now)},
            to_item=partial(to_record, AlbumShare),
        )
        return paginate(queryable, shares, request, count_items(queryable, shares))

    def insert_share(self, transaction: Transaction, share: AlbumShare, token_hash: str) -> None:
        """Insert a share, and delete those of the album that have expired."""
        row = to_row(share)
        del row["token"]
        transaction.execute(
            "DELETE FROM album_shares WHERE album_id = :album_id AND expires_at <= :created_at", row
        )
        transaction.insert("album_shares", row | {"token_hash": token_hash})

    def delete_share(self, transaction: Transaction, album_id: AlbumId, share_id: str) -> bool:
        """Delete a share of an album; return whether there was one."""
        sql = "DELETE FROM album_shares WHERE album_id = :album AND id = :id"
        return bool(transaction.execute(sql, {"album": album_id, "id": share_id}))

    def _to_album(self, row: SqlRow) -> Album:
        """Convert a row of the query for albums with their covers."""
        return to_record(Album, {**row, "cover": self._to_cover(row)})

    def _to_cover(self, row: SqlRow) -> Image | None:
        if row["cover_id"] is None:
            return None
        return to_image({name: row[f"cover_{name}"] for name in IMAGE_COLUMNS}, self.urls)
