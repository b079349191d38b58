"""Albums are read with their image count and cover from one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database, SqlRow, SqlValue
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.image_rows import to_image
from imagehost_core.db.repositories.albums import AlbumRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.ids import AlbumId
from imagehost_core.lists import PageRequest
from imagehost_core.models import Account, Image

NOW = datetime(2026, 1, 1, tzinfo=UTC)

SQLITE_ONLY = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


class DeletesImagesAfterReadingAlbums(SqliteDatabase):
    """A database in which another client deletes all images as soon as a query has returned an album."""

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        rows = super().fetch_all(sql, values, deadline=deadline)
        if any("image_count" in row for row in rows):
            images = ImageRepository(self)
            with self.transaction() as transaction:
                for row in transaction.fetch_all("SELECT * FROM images", {}):
                    images.insert_tombstone(transaction, to_image(row), NOW)
        return rows

    def fetch_one(self, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
        return next(iter(self.fetch_all(sql, values)), None)


@pytest.fixture
def album_id(database: Database, account: Account) -> AlbumId:
    fields: dict[str, SqlValue] = {"name": "Cats", "description": "", "is_public": 1}
    with database.transaction() as transaction:
        return AlbumRepository(database).insert(transaction, account.id, fields, NOW)


@pytest.fixture
def racing(database: Database, tmp_path: Path) -> Iterator[AlbumRepository]:
    database = DeletesImagesAfterReadingAlbums(
        tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks")
    )
    yield AlbumRepository(database)
    database.close()


def test_the_cover_is_the_newest_image_as_it_was_recorded(
    database: Database, account: Account, album_id: AlbumId, add: Callable[..., Image]
) -> None:
    albums = AlbumRepository(database)
    empty = albums.get(album_id, account.id)
    assert empty is not None
    assert (empty.image_count, empty.cover) == (0, None)
    newest = add(album_id=album_id, created_at=NOW + timedelta(seconds=1), derivatives=((200, 100),))
    add(album_id=album_id, created_at=NOW)
    album = albums.get(album_id, account.id)
    assert album is not None
    assert (album.image_count, album.cover) == (2, newest)
    assert albums.list_by_account(account.id, PageRequest()).items == (album,)


@SQLITE_ONLY
def test_a_cover_that_is_deleted_while_its_album_is_read_agrees_with_the_count(
    racing: AlbumRepository, account: Account, album_id: AlbumId, add: Callable[..., Image]
) -> None:
    image = add(album_id=album_id)
    album = racing.get(album_id, account.id)
    assert album is not None
    assert (album.image_count, album.cover) == (1, image)
    album = racing.get(album_id, account.id)
    assert album is not None
    assert (album.image_count, album.cover) == (0, None)


@SQLITE_ONLY
def test_covers_that_are_deleted_while_albums_are_listed_agree_with_the_counts(
    racing: AlbumRepository, account: Account, album_id: AlbumId, add: Callable[..., Image]
) -> None:
    image = add(album_id=album_id)
    (album,) = racing.list_by_account(account.id, PageRequest())
    assert (album.image_count, album.cover) == (1, image)
