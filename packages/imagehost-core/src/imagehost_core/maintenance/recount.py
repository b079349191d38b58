"""Recounting: compare counters, the gallery and the search index with the images, and correct them.

Between requests this is not needed: each transaction that changes an image, an album or an account changes
them too. A recount reads every image; each comparison is one query, so that it sees one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from imagehost_core.db.engines.database import Queryable, SqlRow, Transaction, integer
from imagehost_core.db.image_rows import INVALID_ROW, to_image
from imagehost_core.db.lists.gallery import IS_LISTED, GalleryScope, refresh_gallery
from imagehost_core.db.lists.word_index import delete_words, insert_words, to_words

_BATCH = 1_000


@frozen
class CounterMismatch:
    """A counter that differs from what it counts.

    Attributes:
        table: `accounts`, `albums`, `webhooks` or `counters`.
        row: The id of the account, album or webhook, or the name of the counter.
        column: The column of the counter.
        stored: The value of the counter.
        actual: The number or bytes that it should count.
    """

    table: str
    row: str
    column: str
    stored: int
    actual: int


_COUNTS = {
    "accounts": (
        ("image_count", "public_image_count", "used_bytes", "album_count", "key_count"),
        """
        SELECT item.*, images.*, albums.*, keys.* FROM accounts AS item
        LEFT JOIN (
            SELECT account_id, count(*) AS actual_image_count, sum(is_public) AS actual_public_image_count,
                sum(size) AS actual_used_bytes
            FROM images GROUP BY account_id
        ) AS images ON images.account_id = item.id
        LEFT JOIN (
            SELECT account_id, count(*) AS actual_album_count FROM albums GROUP BY account_id
        ) AS albums ON albums.account_id = item.id
        LEFT JOIN (
            SELECT account_id, count(*) AS actual_key_count FROM api_keys GROUP BY account_id
        ) AS keys ON keys.account_id = item.id
        ORDER BY item.id
        """,
    ),
    "albums": (
        ("image_count", "public_image_count"),
        """
        SELECT item.*, images.* FROM albums AS item
        LEFT JOIN (
            SELECT album_id, count(*) AS actual_image_count, sum(is_public) AS actual_public_image_count
            FROM images GROUP BY album_id
        ) AS images ON images.album_id = item.id
        ORDER BY item.id
        """,
    ),
    "webhooks": (
        ("delivery_count",),
        """
        SELECT item.id, item.delivery_count, count(deliveries.id) AS actual_delivery_count
        FROM webhooks AS item LEFT JOIN webhook_deliveries AS deliveries ON deliveries.webhook_id = item.id
        GROUP BY item.id ORDER BY item.id
        """,
    ),
    "counters": (
        ("value",),
        """
        SELECT 'accounts' AS id, (SELECT sum(value) FROM counters WHERE name LIKE 'accounts%') AS value,
            (SELECT count(*) FROM accounts) AS actual_value
        UNION ALL
        SELECT 'gallery_images', (SELECT sum(value) FROM counters WHERE name LIKE 'gallery_images%'),
            (SELECT count(*) FROM gallery_images)
        """,
    ),
}
"""The counters of each table, and the query that counts again."""
_KEYS = {"counters": "name"}
"""The expressions for the keys of rows that are not the column `id`."""


def check_counters(queryable: Queryable) -> tuple[CounterMismatch, ...]:
    """Return every counter that differs from a recount."""
    return tuple(
        CounterMismatch(
            table, str(row["id"]), column, integer(row, column), int(row[f"actual_{column}"] or 0)
        )
        for table, (columns, sql) in _COUNTS.items()
        for row in queryable.fetch_all(_differing(columns, sql), {})
        for column in columns
        if row[column] != int(row[f"actual_{column}"] or 0)
    )


def _differing(columns: Iterable[str], sql: str) -> str:
    """Return the query for those rows of a query of `_COUNTS` that differ, so that only these are read."""
    conditions = " OR ".join(f"{column} <> coalesce(actual_{column}, 0)" for column in columns)
    return f"SELECT * FROM ({sql}) AS item WHERE {conditions}"  # noqa: S608 - constants only


def repair_counters(transaction: Transaction) -> tuple[CounterMismatch, ...]:
    """Correct every counter that differs from a recount, and return what differed."""
    mismatches = check_counters(transaction)
    for mismatch in mismatches:
        key = _KEYS.get(mismatch.table, "id")
        transaction.execute(
            f"UPDATE {mismatch.table} SET {mismatch.column} = {mismatch.column} + :more "  # noqa: S608
            f"WHERE {key} = :row",
            {"more": mismatch.actual - mismatch.stored, "row": mismatch.row},
        )
    return mismatches


def check_indexes(queryable: Queryable) -> tuple[str, ...]:
    """Return the ids of images that the gallery lists wrongly, or whose words are indexed wrongly."""
    listed = f"SELECT item.id FROM images AS item WHERE {IS_LISTED}"  # noqa: S608 - a constant
    sql = (
        f"SELECT id FROM (SELECT id FROM gallery_images EXCEPT {listed}) AS unlisted "  # noqa: S608
        f"UNION SELECT id FROM ({listed} EXCEPT SELECT id FROM gallery_images) AS missing"
    )
    wrong = {str(row["id"]) for row in queryable.fetch_all(sql, {})}
    return tuple(sorted(wrong | {str(row["id"]) for row in _with_wrong_words(queryable)}))


def repair_index(transaction: Transaction, image_id: str) -> None:
    """Correct the gallery and the words of one image; the gallery's counter needs a recount afterwards."""
    transaction.execute(
        "DELETE FROM gallery_images WHERE id = :id AND NOT EXISTS (SELECT 1 FROM images "
        "WHERE images.id = gallery_images.id AND images.created_at = gallery_images.created_at)",
        {"id": image_id},
    )
    refresh_gallery(transaction, GalleryScope.IMAGE, image_id)
    row = transaction.fetch_one("SELECT * FROM images WHERE id = :id", {"id": image_id})
    if row is not None:
        image = to_image(row)
        delete_words(transaction, image)
        insert_words(transaction, integer(row, "number"), image)


def _with_wrong_words(queryable: Queryable) -> Iterator[SqlRow]:
    after = -(2**63)
    while True:
        rows = queryable.fetch_all(
            "SELECT item.*, words.filename AS filename_words, words.description AS description_words "
            "FROM images AS item LEFT JOIN image_words AS words ON words.rowid = item.number "
            "WHERE item.number > :after ORDER BY item.number LIMIT :count",
            {"after": after, "count": _BATCH},
        )
        for row in rows:
            try:
                image = to_image(row)
            except INVALID_ROW:
                continue
            words = to_words(image)
            if any(row[f"{name}_words"] != value for name, value in words.items()):
                yield row
        if len(rows) < _BATCH:
            return
        after = integer(rows[-1], "number")
