"""The gallery: a table of the ids that it lists, so that its pages read no row of another image.

An image is listed if it is public, its album (if it has one) is public, and its account is not suspended.
Each change of one of them updates the table and its counter in the same transaction.
"""

from __future__ import annotations

from enum import StrEnum

from imagehost_core.db.counters import GALLERY_IMAGES, add_to_total
from imagehost_core.db.engines.database import SqlValue, Transaction
from imagehost_core.ids import ImageId

IS_LISTED = """
item.is_public = 1
AND (item.album_id IS NULL OR EXISTS (SELECT 1 FROM albums WHERE id = item.album_id AND is_public = 1))
AND EXISTS (SELECT 1 FROM accounts WHERE id = item.account_id AND suspended_at IS NULL)
"""
"""The condition under which the gallery lists an image, with `item` as the alias of `images`."""

IS_HIDDEN = "EXISTS (SELECT 1 FROM albums WHERE id = item.album_id AND is_public = 0)"
"""The condition under which the album of an image hides it, likewise."""


class GalleryScope(StrEnum):
    """The images whose listing a change can affect, by their condition on a value."""

    IMAGE = "item.id = :value"
    IMAGES = "item.id IN {ids}"
    """Those whose ids are in a JSON array."""
    ALBUM = "item.album_id = :value"
    ACCOUNT = "item.account_id = :value"

    def condition(self, transaction: Transaction) -> str:
        """Return the condition for the engine of a transaction."""
        return self.value.format(ids=transaction.dialect.texts("value"))


def refresh_gallery(transaction: Transaction, scope: GalleryScope, value: SqlValue) -> None:
    """List the images of a scope that are to be listed, and no others of it.

    100,000 images take about 0.8 s, so a change that affects no listing should not call this.
    """
    removed = _remove(transaction, scope, value)
    added = _add(transaction, scope, value)
    _count(transaction, added - removed)


def add_to_gallery(transaction: Transaction, image_id: ImageId) -> None:
    """List a new image if it is to be listed."""
    _count(transaction, _add(transaction, GalleryScope.IMAGE, image_id))


def remove_from_gallery(transaction: Transaction, scope: GalleryScope, value: SqlValue) -> None:
    """List none of the images of a scope."""
    _count(transaction, -_remove(transaction, scope, value))


def _remove(transaction: Transaction, scope: GalleryScope, value: SqlValue) -> int:
    """Remove the entries of a scope, and return their number."""
    # With the columns in the other order, SQLite seeks in the primary key by the first one alone.
    return transaction.execute(
        "DELETE FROM gallery_images WHERE (id, created_at) IN "  # noqa: S608
        f"(SELECT item.id, item.created_at FROM images AS item WHERE {scope.condition(transaction)})",
        {"value": value},
    )


def _add(transaction: Transaction, scope: GalleryScope, value: SqlValue) -> int:
    """Add the entries of a scope, and return their number."""
    return transaction.execute(
        "INSERT INTO gallery_images (created_at, id) SELECT item.created_at, item.id FROM images AS item "  # noqa: S608
        f"WHERE {scope.condition(transaction)} AND {IS_LISTED}",
        {"value": value},
    )


def _count(transaction: Transaction, more: int) -> None:
    if more:
        add_to_total(transaction, GALLERY_IMAGES, more)
