"""Queries for an integrity check: the file's structure, references and indexes.

Each check is one query, so it sees one snapshot and finds nothing that a concurrent transaction is changing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from attrs import frozen

from imagehost_core.db.engines.database import Database, Queryable, SqlRow, Transaction, integer
from imagehost_core.db.lists.gallery import GalleryScope, refresh_gallery
from imagehost_core.errors import InternalError
from imagehost_core.ids import ImageId

_BATCH = 1_000
"""Rows that one query reads."""


@frozen
class Reference:
    """A foreign key.

    Attributes:
        table: The table with the reference.
        row: The expression for the key of a row, which identifies it in findings.
        columns: The columns that refer to the parent's row, by its columns.
        parent: The table that is referred to.
        is_deletable: Whether a row without its parent's is of no use, and can be deleted.
    """

    table: str
    row: str
    columns: dict[str, str]
    parent: str
    is_deletable: bool

    @property
    def condition(self) -> str:
        """The condition under which a row refers to none, with `item` as the alias of its table."""
        pairs = " AND ".join(f"parent.{theirs} = item.{ours}" for theirs, ours in self.columns.items())
        is_set = " AND ".join(f"item.{ours} IS NOT NULL" for ours in self.columns.values())
        return f"{is_set} AND NOT EXISTS (SELECT 1 FROM {self.parent} AS parent WHERE {pairs})"  # noqa: S608


_ACCOUNT = {"id": "account_id"}
IMAGE_ALBUM = Reference("images", "id", {"id": "album_id"}, "albums", is_deletable=False)
"""The reference of an image to its album."""
DELIVERY_EVENT = Reference(
    "webhook_deliveries", "id", {"number": "event_number"}, "events", is_deletable=True
)
"""The reference of a webhook delivery to its event."""
REFERENCES = (
    Reference("api_keys", "id", _ACCOUNT, "accounts", is_deletable=True),
    Reference("sessions", "id", _ACCOUNT, "accounts", is_deletable=True),
    Reference("albums", "id", _ACCOUNT, "accounts", is_deletable=False),
    Reference("album_shares", "id", {"id": "album_id"}, "albums", is_deletable=True),
    Reference("images", "id", _ACCOUNT, "accounts", is_deletable=False),
    IMAGE_ALBUM,
    Reference("idempotency_keys", "account_id || ' ' || key", _ACCOUNT, "accounts", is_deletable=True),
    Reference(
        "idempotency_results",
        "account_id || ' ' || key || ' ' || sub_operation",
        {"account_id": "account_id", "key": "key"},
        "idempotency_keys",
        is_deletable=True,
    ),
    Reference("imports", "account_id || ' ' || source", _ACCOUNT, "accounts", is_deletable=True),
    Reference("webhooks", "id", _ACCOUNT, "accounts", is_deletable=True),
    Reference("webhook_deliveries", "id", {"id": "webhook_id"}, "webhooks", is_deletable=True),
    DELIVERY_EVENT,
)
"""Every foreign key of the schema. A row is deleted after those that it refers to, so parents come first."""

_WITHOUT_IMAGE = "NOT EXISTS (SELECT 1 FROM images WHERE images.number = image_words.rowid)"
"""PostgreSQL compares each row with all images for `NOT IN`, once there are too many for its memory."""


def check_structure(database: Database, *, quick: bool = False) -> tuple[str, ...]:
    """Return what SQLite finds wrong in the database file.

    Of a PostgreSQL database it returns nothing: its files are those of the server, and the extension amcheck
    that checks them needs a superuser.

    Args:
        database: The database.
        quick: Whether to leave out that each index has the rows of its table
            (https://sqlite.org/pragma.html#pragma_quick_check).
    """
    if database.dialect.is_shared:
        return ()
    pragma = "quick_check" if quick else "integrity_check"
    try:
        rows = database.fetch_all(f"PRAGMA {pragma}", {})
    except InternalError as error:
        return (str(error.__cause__),)
    messages = (str(value) for row in rows for value in row.values())
    return tuple(message for message in messages if message != "ok")


def rebuild_indexes(database: Database) -> bool:
    """Rebuild all indexes from their tables; return whether the tables could be read."""
    try:
        with database.transaction() as transaction:
            transaction.execute("REINDEX", {})
    except (sqlite3.DatabaseError, InternalError):
        return False
    return True


def broken_references(queryable: Queryable, reference: Reference) -> tuple[tuple[str, str], ...]:
    """Return the key of each row that refers to a missing one, and that to which it refers."""
    value = " || ' ' || ".join(f"item.{column}" for column in reference.columns.values())
    rows = queryable.fetch_all(
        f"SELECT {reference.row} AS row_key, {value} AS value "  # noqa: S608 - constants only
        f"FROM {reference.table} AS item WHERE {reference.condition} ORDER BY 1",
        {},
    )
    return tuple((str(row["row_key"]), str(row["value"])) for row in rows)


def delete_broken(transaction: Transaction, reference: Reference, row: str) -> bool:
    """Delete a row if it still refers to a missing one; return whether it did."""
    return bool(
        transaction.execute(
            f"DELETE FROM {reference.table} AS item "  # noqa: S608 - constants only
            f"WHERE CAST({reference.row} AS TEXT) = :row AND {reference.condition}",
            {"row": row},
        )
    )


def remove_from_missing_album(transaction: Transaction, image_id: ImageId) -> bool:
    """Remove an image from its album if the album is missing; return whether it was."""
    row = transaction.fetch_one(
        f"SELECT * FROM images AS item WHERE id = :id AND {IMAGE_ALBUM.condition}",  # noqa: S608
        {"id": image_id},
    )
    if row is None:
        return False
    transaction.execute("UPDATE images SET album_id = NULL WHERE id = :id", {"id": image_id})
    refresh_gallery(transaction, GalleryScope.IMAGE, image_id)
    return True


def image_count(queryable: Queryable) -> int:
    """Return the number of images, counted row by row."""
    row = queryable.fetch_one("SELECT count(*) AS images FROM images", {})
    return 0 if row is None else integer(row, "images")


def image_rows(queryable: Queryable) -> Iterator[list[SqlRow]]:
    """Yield the rows of all images in batches, each of which is one snapshot."""
    after = -(2**63)
    while rows := queryable.fetch_all(
        "SELECT * FROM images WHERE number > :after ORDER BY number LIMIT :count",
        {"after": after, "count": _BATCH},
    ):
        yield rows
        after = integer(rows[-1], "number")


def image_row(queryable: Queryable, image_id: ImageId) -> SqlRow | None:
    """Return the row of an image, or `None`."""
    return queryable.fetch_one("SELECT * FROM images WHERE id = :id", {"id": image_id})


def is_word_index_corrupt(database: Database) -> bool:
    """Return whether the index of FTS5 differs from the words that it indexes; other writes wait for it.

    https://sqlite.org/fts5.html#the_integrity_check_command
    """
    return not database.dialect.is_shared and not _run_fts5(database, "integrity-check")


def rebuild_word_index(database: Database) -> bool:
    """Rebuild the index of FTS5 from the words; return whether it could be."""
    return _run_fts5(database, "rebuild")


def _run_fts5(database: Database, command: str) -> bool:
    try:
        with database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO image_words (image_words) VALUES (:command)", {"command": command}
            )
    except (sqlite3.DatabaseError, InternalError):
        return False
    return True


def words_without_image(queryable: Queryable) -> tuple[int, ...]:
    """Return the rowids of the search index that belong to no image."""
    sql = f"SELECT rowid AS number FROM image_words WHERE {_WITHOUT_IMAGE}"  # noqa: S608 - constants only
    return tuple(integer(row, "number") for row in queryable.fetch_all(sql, {}))


def delete_words_without_image(transaction: Transaction, number: int) -> bool:
    """Delete a row of the search index if it belongs to no image; return whether it did."""
    sql = f"DELETE FROM image_words WHERE rowid = :number AND {_WITHOUT_IMAGE}"  # noqa: S608 - constants only
    return bool(transaction.execute(sql, {"number": number}))
