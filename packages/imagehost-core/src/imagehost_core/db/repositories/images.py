"""The images table, and the tombstones of images whose files are being deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from zlib import crc32

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.counters import add_to_counter, count_image
from imagehost_core.db.engines.database import (
    Database,
    Queryable,
    SqlRow,
    SqlValue,
    Transaction,
    blob,
    integer,
    text,
    to_optional_micros,
)
from imagehost_core.db.image_rows import first_number, to_image, to_image_row
from imagehost_core.db.lists.gallery import (
    IS_HIDDEN,
    GalleryScope,
    add_to_gallery,
    refresh_gallery,
    remove_from_gallery,
)
from imagehost_core.db.lists.word_index import delete_words, insert_words, publish_words, update_words
from imagehost_core.db.rows import to_record, update_row
from imagehost_core.ids import AccountId, AlbumId, ImageId
from imagehost_core.models import NO_URLS, Album, Image, UrlBuilder

_UPDATABLE = ("album_id", "description", "is_public", "filename", "updated_at")
_BATCH = 1_000
"""Ids that one query looks up."""
_SELECT = "SELECT * FROM images AS item"
_SELECT_IDS = "SELECT item.id FROM images AS item"
_SELECT_DELIVERED = """
SELECT item.*, accounts.signing_secret AS signing_secret, EXISTS (
    SELECT 1 FROM album_shares AS share WHERE share.id = :share AND share.album_id = item.album_id
    AND (share.expires_at IS NULL OR share.expires_at > :now)
) AS is_shared
FROM images AS item
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


@frozen(kw_only=True)
class Upload:
    """The bytes and the options of an upload, by which the image that it stores is found again.

    Attributes:
        account_id: The owner.
        sha256: The SHA-256 of the uploaded bytes, 64 hexadecimal digits.
        options: The options that no change of the image can change, as a text.
        album_id: The album, or `None`.
        is_public: Whether the image is public.
        description: Its description.
    """

    account_id: AccountId
    sha256: str
    options: str
    album_id: AlbumId | None
    is_public: bool
    description: str


@frozen
class ImageRepository:
    """Images in the database."""

    database: Database
    urls: UrlBuilder = NO_URLS

    def get(self, image_id: ImageId, queryable: Queryable | None = None) -> Image | None:
        """Return an image of any account, or `None`."""
        row = (queryable or self.database).fetch_one(f"{_SELECT} WHERE id = :id", {"id": image_id})
        return None if row is None else to_image(row, self.urls)

    def get_delivered(
        self, image_id: ImageId, share: str = "", now: datetime | None = None
    ) -> tuple[Image, bytes, bool] | None:
        """Return an image of an account that is not suspended, or `None`.

        Args:
            image_id: The image.
            share: The id of a share, or another text.
            now: The time at which the share must not have expired.

        Returns:
            The image, the signing secret of its account, and whether the share is one of its album.
        """
        values = {"id": image_id, "share": share, "now": to_optional_micros(now)}
        row = self.database.fetch_one(_SELECT_DELIVERED, values)
        if row is None:
            return None
        return to_image(row, self.urls), blob(row, "signing_secret"), bool(row["is_shared"])

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
        return None if row is None else to_image(row, self.urls)

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
            # The plus keeps SQLite from reading the index of all images of the account, rather than the ids.
            where, values = f"{where} AND +account_id = :account", {**values, "account": account_id}
        rows = queryable.fetch_all(f"{_SELECT} {where}", values)
        return {image.id: image for image in (to_image(row, self.urls) for row in rows)}

    def exists(self, image_id: ImageId) -> bool:
        """Return whether an image exists now."""
        return self.get(image_id) is not None

    def is_recorded(self, image_id: ImageId, account_id: AccountId | None = None) -> bool:
        """Return whether an image exists, once every transaction that may insert it has ended.

        PostgreSQL can apply a commit after the client has stopped waiting for the response. Until then, the
        transaction holds the lock of its scope. So files are removed only after this, not after `exists`.

        Args:
            image_id: The image.
            account_id: The account that it would belong to; `None` if that is unknown.

        Raises:
            UnavailableError: One of the transactions did not end in time.
        """
        with self.database.transaction(account_id) as transaction:
            return self.get(image_id, transaction) is not None

    def find_unrecorded(self, image_ids: Iterator[ImageId]) -> Iterator[tuple[int, tuple[ImageId, ...]]]:
        """Yield how many ids are ids of images, and the others, for each thousand of the given ids."""
        sql = f"SELECT id FROM images WHERE id IN {self.database.dialect.texts('ids')}"  # noqa: S608
        while batch := tuple(islice(image_ids, _BATCH)):
            rows = self.database.fetch_all(sql, {"ids": json.dumps(batch)})
            existing = {text(row, "id") for row in rows}
            yield len(existing), tuple(image_id for image_id in batch if image_id not in existing)

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

    def find_hidden(self, image_ids: Iterable[ImageId], queryable: Queryable) -> frozenset[ImageId]:
        """Return those of some images that are public in a private album, which hides them from galleries."""
        ids = queryable.dialect.texts("ids")
        rows = queryable.fetch_all(
            f"{_SELECT_IDS} WHERE item.id IN {ids} AND item.is_public = 1 AND {IS_HIDDEN}",
            {"ids": json.dumps(list(image_ids))},
        )
        return frozenset(ImageId(text(row, "id")) for row in rows)

    def oldest_ids(
        self, album_id: AlbumId, queryable: Queryable | None = None, *, is_public: bool | None = None
    ) -> tuple[ImageId, ...]:
        """Return the ids of the oldest images of an album, or of its public or private ones: 1,000 at most.

        Args:
            album_id: The album.
            queryable: An open transaction; by default the database.
            is_public: Whether they are public, or private; by default either.
        """
        # A constant, for the index of public images.
        visibility = "" if is_public is None else f"AND item.is_public = {int(is_public)} "
        sql = (
            f"{_SELECT_IDS} WHERE item.album_id = :album {visibility}"
            "ORDER BY item.created_at, item.id LIMIT :count"
        )
        rows = (queryable or self.database).fetch_all(sql, {"album": album_id, "count": _BATCH})
        return tuple(ImageId(text(row, "id")) for row in rows)

    def find_upload(self, upload: Upload, queryable: Queryable | None = None) -> Image | None:
        """Return the newest image that an upload would store again, as images are now, or `None`."""
        row = (queryable or self.database).fetch_one(
            f"{_SELECT} WHERE item.account_id = :account AND item.upload_sha256 = :sha256 "
            "AND item.upload_options = :options AND coalesce(item.album_id, 0) = :album "
            "AND item.is_public = :public AND item.description = :description "
            "ORDER BY item.created_at DESC, item.id DESC LIMIT 1",
            {
                "account": upload.account_id,
                "sha256": upload.sha256,
                "options": upload.options,
                "album": upload.album_id or 0,
                "public": int(upload.is_public),
                "description": upload.description,
            },
        )
        return None if row is None else to_image(row, self.urls)

    def insert(self, transaction: Transaction, image: Image, upload: Upload | None = None) -> None:
        """Insert an image, with the bytes and options of its upload if they are known."""
        # Two transactions that run at the same time do not choose the same number: that of the id is random.
        number = first_number(to_micros(image.created_at)) + crc32(image.id.encode()) // 2**4
        while transaction.fetch_one("SELECT 1 FROM images WHERE number = :number", {"number": number}):
            number += 1
        row: SqlRow = {"number": number, **to_image_row(image)}
        if upload is not None:
            row |= {"upload_sha256": upload.sha256, "upload_options": upload.options}
        transaction.insert("images", row)
        insert_words(transaction, number, image)
        count_image(transaction, None, image)
        add_to_gallery(transaction, image.id)

    def update(self, transaction: Transaction, image: Image) -> None:
        """Update the columns of an image that its owner may change; the image must exist."""
        before = self.get(image.id, transaction)
        assert before is not None, image.id
        row = to_image_row(image)
        update_row(transaction, "images", {name: row[name] for name in ("id", *_UPDATABLE)})
        if (image.filename, image.description, image.is_public) != (
            before.filename,
            before.description,
            before.is_public,
        ):
            update_words(transaction, image)
        if (image.filename, image.is_public) != (before.filename, before.is_public):
            transaction.invalidate([image.id])
        if (image.album_id, image.is_public) != (before.album_id, before.is_public):
            count_image(transaction, before, image)
            refresh_gallery(transaction, GalleryScope.IMAGE, image.id)

    def set_visibility(
        self,
        transaction: Transaction,
        album: Album,
        image_ids: Iterable[ImageId],
        *,
        is_public: bool,
        now: datetime,
    ) -> tuple[ImageId, ...]:
        """Make images public or private, and return the ids of those that have changed.

        Args:
            transaction: The transaction.
            album: The album that an image must be in to be changed.
            image_ids: The images; those that are so already, or do not exist, are not changed.
            is_public: Whether they become public.
            now: Their new `updated_at`.
        """
        texts = transaction.dialect.texts("ids")
        values: dict[str, SqlValue] = {"ids": json.dumps(list(image_ids)), "public": int(is_public)}
        # The plus keeps SQLite from reading the index of all images of the album, rather than the ids.
        rows = transaction.fetch_all(
            f"{_SELECT_IDS} WHERE item.id IN {texts} "
            "AND +item.album_id = :album AND item.is_public <> :public",
            {**values, "album": album.id},
        )
        changed = tuple(ImageId(text(row, "id")) for row in rows)
        if changed:
            ids = json.dumps(changed)
            transaction.execute(
                f"UPDATE images SET is_public = :public, updated_at = :now WHERE id IN {texts}",  # noqa: S608
                {**values, "ids": ids, "now": to_micros(now)},
            )
            publish_words(transaction, album.account_id, ids, is_public=is_public)
            more = len(changed) if is_public else -len(changed)
            add_to_counter(transaction, "accounts", "public_image_count", album.account_id, more)
            add_to_counter(transaction, "albums", "public_image_count", album.id, more)
            refresh_gallery(transaction, GalleryScope.IMAGES, ids)
            transaction.invalidate(changed)
        return changed

    def leave_album(self, transaction: Transaction, album: Album, image_ids: Iterable[ImageId]) -> None:
        """Take images out of an album that is being deleted; those that are not in it are not changed."""
        ids = json.dumps(list(image_ids))
        # The plus keeps SQLite from reading the index of all images of the album, rather than the ids.
        left = transaction.fetch_all(
            f"UPDATE images SET album_id = NULL WHERE id IN {transaction.dialect.texts('ids')} "  # noqa: S608
            "AND +album_id = :album RETURNING is_public",
            {"ids": ids, "album": album.id},
        )
        public = sum(integer(row, "is_public") for row in left)
        add_to_counter(transaction, "albums", "image_count", album.id, -len(left))
        add_to_counter(transaction, "albums", "public_image_count", album.id, -public)
        if public and not album.is_public:
            # An image in no album is listed like one in a public album.
            refresh_gallery(transaction, GalleryScope.IMAGES, ids)

    def update_derivatives(self, transaction: Transaction, image: Image) -> None:
        """Update the derivatives of an image."""
        row = to_image_row(image)
        update_row(transaction, "images", {name: row[name] for name in ("id", "derivatives")})
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
        tombstones = (to_record(Tombstone, {**row, "id": row["image_id"]}) for row in rows)
        return {tombstone.id: tombstone for tombstone in tombstones}

    def tombstones(self) -> tuple[ImageId, ...]:
        """Return the ids of all images with a tombstone."""
        rows = self.database.fetch_all("SELECT image_id FROM tombstones", {})
        return tuple(ImageId(text(row, "image_id")) for row in rows)
