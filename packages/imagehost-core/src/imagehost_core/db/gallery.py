"""The gallery: a table of the ids that it lists, so that its pages read no row of another image.

An image is listed if it is public, its album (if it has one) is public, and its account is not suspended.
Each change of one of them updates the table, its counter and its buckets in the same transaction.

Uploads of different accounts do so at the same time: each adds to a counter of its own, and to at most one
bucket. Any other change, and an upload that splits buckets, holds a lock alone until its commit: it may
change several buckets, and the images of a bucket that is split must be committed.
"""

from __future__ import annotations

from enum import StrEnum

from imagehost_core.db.columns import integer, text
from imagehost_core.db.counters import GALLERY_IMAGES, add_to_total, total
from imagehost_core.db.database import Queryable, SqlValue, Transaction
from imagehost_core.db.list_buckets import CountedList, ListKind, Position, count_entries, splits_newest
from imagehost_core.ids import ImageId

IS_LISTED = """
item.is_public = 1
AND (item.album_id IS NULL OR EXISTS (SELECT 1 FROM albums WHERE id = item.album_id AND is_public = 1))
AND EXISTS (SELECT 1 FROM accounts WHERE id = item.account_id AND suspended_at IS NULL)
"""
"""The condition under which the gallery lists an image, with `item` as the alias of `images`."""
GALLERY = CountedList(ListKind.GALLERY)
"""The gallery as a list with buckets."""
_LOCK = 0x696D6704
"""The advisory lock of the gallery's buckets in PostgreSQL."""


class GalleryScope(StrEnum):
    """The images whose listing a change can affect: those with a value in a column."""

    IMAGE = "id"
    ALBUM = "album_id"
    ACCOUNT = "account_id"


def refresh_gallery(transaction: Transaction, scope: GalleryScope, value: SqlValue) -> None:
    """List the images of a scope that are to be listed, and no others of it.

    100,000 images take about 0.8 s, so a change that affects no listing should not call this.
    """
    removed, added = _remove(transaction, scope, value), _add(transaction, scope, value)
    _count(transaction, removed - added, -1)
    _count(transaction, added - removed, 1)


def add_to_gallery(transaction: Transaction, image_id: ImageId) -> None:
    """List a new image if it is to be listed."""
    added = _add(transaction, GalleryScope.IMAGE, image_id)
    _count(transaction, added, 1, is_shared=not splits_newest(transaction, GALLERY, added))


def remove_from_gallery(transaction: Transaction, scope: GalleryScope, value: SqlValue) -> None:
    """List none of the images of a scope."""
    _count(transaction, _remove(transaction, scope, value), -1)


def gallery_count(queryable: Queryable) -> int:
    """Return the number of images that the gallery lists."""
    return total(queryable, GALLERY_IMAGES)


def _remove(transaction: Transaction, scope: GalleryScope, value: SqlValue) -> set[Position]:
    """Remove the entries of a scope, and return their positions."""
    return _positions(
        transaction,
        "DELETE FROM gallery_images WHERE (created_at, id) IN "  # noqa: S608
        f"(SELECT item.created_at, item.id FROM images AS item WHERE item.{scope.value} = :value) "
        "RETURNING created_at, id",
        value,
    )


def _add(transaction: Transaction, scope: GalleryScope, value: SqlValue) -> set[Position]:
    """Add the entries of a scope, and return their positions."""
    return _positions(
        transaction,
        "INSERT INTO gallery_images (created_at, id) SELECT item.created_at, item.id FROM images AS item "  # noqa: S608
        f"WHERE item.{scope.value} = :value AND {IS_LISTED} RETURNING created_at, id",
        value,
    )


def _positions(transaction: Transaction, sql: str, value: SqlValue) -> set[Position]:
    rows = transaction.fetch_all(sql, {"value": value})
    return {(integer(row, "created_at"), text(row, "id")) for row in rows}


def _count(transaction: Transaction, entries: set[Position], more: int, *, is_shared: bool = False) -> None:
    """Update the counter and the buckets of the gallery, as `count_entries` does.

    Args:
        transaction: The transaction that has changed the gallery.
        entries: The positions of the images.
        more: 1 if they have been added, -1 if they have been removed.
        is_shared: Whether other transactions may do so too until this one ends; then no bucket is split.
    """
    if not entries:
        return
    if lock := transaction.dialect.lock(_LOCK, is_shared):
        transaction.fetch_one(lock, {})
    add_to_total(transaction, GALLERY_IMAGES, more * len(entries))
    count_entries(transaction, (GALLERY,), entries, more, may_split=not is_shared)
