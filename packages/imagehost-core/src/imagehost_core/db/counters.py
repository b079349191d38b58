"""Counters of lists, changed in the transaction that changes what they count."""

from __future__ import annotations

from imagehost_core.db.engines.database import Queryable, Transaction, integer
from imagehost_core.models import Image

ACCOUNTS = "accounts"
"""The name of the total of accounts."""
GALLERY_IMAGES = "gallery_images"
"""The name of the total of images that the gallery lists."""


def count_image(transaction: Transaction, before: Image | None, after: Image | None) -> None:
    """Update the counters of an image's account and albums.

    Args:
        transaction: The transaction that inserts, updates or deletes the image.
        before: The image before the change; `None` if it has been inserted.
        after: The image after the change; `None` if it is about to be deleted.
    """
    for table, owner in (("accounts", "account_id"), ("albums", "album_id")):
        changes: dict[int, tuple[int, int]] = {}
        for image, sign in ((before, -1), (after, 1)):
            row_id = None if image is None else getattr(image, owner)
            if image is not None and row_id is not None:
                images, public = changes.get(row_id, (0, 0))
                changes[row_id] = (images + sign, public + sign * image.is_public)
        for row_id, (images, public) in changes.items():
            if images or public:
                transaction.execute(
                    f"UPDATE {table} SET image_count = image_count + :images, "  # noqa: S608
                    "public_image_count = public_image_count + :public WHERE id = :id",
                    {"id": row_id, "images": images, "public": public},
                )


def add_to_counter(
    transaction: Transaction, table: str, column: str, row_id: int | str, more: int = 1
) -> None:
    """Add to a counter in the row with an id."""
    transaction.execute(
        f"UPDATE {table} SET {column} = {column} + :more WHERE id = :id",  # noqa: S608 - constants
        {"id": row_id, "more": more},
    )


def add_to_total(transaction: Transaction, name: str, more: int) -> None:
    """Add to a total of the host.

    Transactions that run at the same time change different rows, or they would wait for each other's commit.
    """
    transaction.execute(
        f"INSERT INTO counters (name, value) VALUES (:name || {transaction.dialect.counter_slot}, :more) "  # noqa: S608
        "ON CONFLICT (name) DO UPDATE SET value = counters.value + :more",
        {"more": more, "name": name},
    )


def total(queryable: Queryable, name: str) -> int:
    """Return a total of the host; with several hosts, it has several rows, like `name 7`."""
    row = queryable.fetch_one(
        "SELECT coalesce(sum(value), 0) AS total FROM counters WHERE name >= :name AND name < :name || '!'",
        {"name": name},
    )
    return 0 if row is None else integer(row, "total")
