"""The gallery: a table of the ids that it lists, so that its pages read no row of another image.

An image is listed if it is public, its album (if it has one) is public, and its account is not suspended.
Each change of one of them updates the table and its counter in the same transaction.
"""

from __future__ import annotations

from enum import StrEnum

from imagehost_core.db.columns import integer
from imagehost_core.db.database import Queryable, SqlValue, Transaction

IS_LISTED = """
item.is_public = 1
AND (item.album_id IS NULL OR EXISTS (SELECT 1 FROM albums WHERE id = item.album_id AND is_public = 1))
AND EXISTS (SELECT 1 FROM accounts WHERE id = item.account_id AND suspended_at IS NULL)
"""
"""The condition under which the gallery lists an image, with `item` as the alias of `images`."""
COUNTER = "gallery_images"
"""The name of the counter of the gallery's images."""


class GalleryScope(StrEnum):
    """The images whose listing a change can affect: those with a value in a column."""

    IMAGE = "id"
    ALBUM = "album_id"
    ACCOUNT = "account_id"


def refresh_gallery(transaction: Transaction, scope: GalleryScope, value: SqlValue) -> None:
    """List the images of a scope that are to be listed, and no others of it.

    100,000 images take about 0.8 s, so a change that affects no listing should not call this.
    """
    removed = remove_from_gallery(transaction, scope, value, keep_counter=True)
    added = transaction.execute(
        "INSERT INTO gallery_images (created_at, id) SELECT item.created_at, item.id FROM images AS item "  # noqa: S608
        f"WHERE item.{scope.value} = :value AND {IS_LISTED}",
        {"value": value},
    )
    _add_to_counter(transaction, added - removed)


def remove_from_gallery(
    transaction: Transaction, scope: GalleryScope, value: SqlValue, *, keep_counter: bool = False
) -> int:
    """List none of the images of a scope, and return how many were listed."""
    removed = transaction.execute(
        "DELETE FROM gallery_images WHERE (created_at, id) IN "  # noqa: S608
        f"(SELECT item.created_at, item.id FROM images AS item WHERE item.{scope.value} = :value)",
        {"value": value},
    )
    if not keep_counter:
        _add_to_counter(transaction, -removed)
    return removed


def gallery_count(queryable: Queryable) -> int:
    """Return the number of images that the gallery lists."""
    row = queryable.fetch_one("SELECT value FROM counters WHERE name = :name", {"name": COUNTER})
    assert row is not None
    return integer(row, "value")


def _add_to_counter(transaction: Transaction, more: int) -> None:
    if more:
        transaction.execute(
            "UPDATE counters SET value = value + :more WHERE name = :name", {"more": more, "name": COUNTER}
        )
