"""Copies of the database in backups: reading one, and opening one that is restored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path

from imagehost_core._util.clock import to_micros
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Queryable, SqlRow, SqlValue, Transaction, integer, text
from imagehost_core.db.engines.installation import TABLE
from imagehost_core.db.engines.sqlite_database import (
    SqliteDatabase,
    SqliteTransaction,
    migrate,
    translate_sqlite_errors,
)
from imagehost_core.db.image_rows import to_image
from imagehost_core.db.schema import sqlite_migrations
from imagehost_core.errors import ValidationError, quote_value
from imagehost_core.ids import ImageId, is_image_id
from imagehost_core.models import Image

_BATCH = 1_000
_BEFORE_ALL = -(2**63)
_SCHEMA = "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_MIGRATIONS = "SELECT name FROM _sqlite_migrations"


class Snapshot:
    """A copy of the database that nothing writes to.

    Args:
        path: The file.

    Raises:
        InternalError: The file cannot be read; its methods raise it too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with translate_sqlite_errors(path):
            self._connection = sqlite3.connect(_read_only(path), uri=True)

    def count_images(self, since: datetime | None) -> int:
        """Return the number of images, or of those created at a time or later."""
        values = {"since": _BEFORE_ALL if since is None else to_micros(since)}
        sql = "SELECT count(*) AS number FROM images WHERE created_at >= :since"
        [row] = self._fetch_all(sql, values)
        return integer(row, "number")

    def images(self, since: datetime | None) -> Iterator[Image]:
        """Yield all images, or those created at a time or later, in ascending order of their ids."""
        sql = "SELECT * FROM images WHERE id > :after AND created_at >= :since ORDER BY id LIMIT :count"
        since_micros, after = _BEFORE_ALL if since is None else to_micros(since), ""
        while rows := self._fetch_all(sql, {"after": after, "since": since_micros, "count": _BATCH}):
            yield from map(to_image, rows)
            after = text(rows[-1], "id")

    def close(self) -> None:
        """Close the copy."""
        self._connection.close()

    def _fetch_all(self, sql: str, values: Mapping[str, SqlValue]) -> list[SqlRow]:
        with translate_sqlite_errors(self._path):
            return SqliteTransaction(self._connection).fetch_all(sql, values)


def open_restored(path: Path, locks: LockManager) -> SqliteDatabase:
    """Open a database from a backup, after checks that it is whole, and migrate it.

    Args:
        path: The file.
        locks: Locks of the directory that it is restored in.

    Raises:
        ValidationError: It is damaged, no database of a host, or one of a newer version.
    """
    try:
        with closing(sqlite3.connect(_read_only(path), uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            _require_known_migrations(connection)
            [(problem,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
            if problem != "ok":
                raise _invalid("a whole database", quote_value(problem))
        database = SqliteDatabase(path, locks)
    except sqlite3.DatabaseError as error:
        raise _invalid("the database of a host", str(error)) from error
    if _schema(database) != _current_schema():
        # Other tables, or triggers and views, which would run statements of others.
        database.close()
        raise _invalid("the tables of this version", "others")
    return database


def image_ids(queryable: Queryable) -> Iterator[ImageId]:
    """Yield the ids of all images in ascending order.

    Raises:
        ValidationError: The database contains one that is none, which could be a path.
    """
    after = ""
    sql = "SELECT id FROM images WHERE id > :after ORDER BY id LIMIT :count"
    while rows := queryable.fetch_all(sql, {"after": after, "count": _BATCH}):
        for row in rows:
            if not is_image_id(row["id"]):
                raise _invalid("ids of images", quote_value(row["id"]))
            yield row["id"]
        after = text(rows[-1], "id")


def end_runtime_state(transaction: Transaction) -> None:
    """Delete what belongs to the processes and users of the time of the backup.

    A session that its user ended since would be valid again, so all of them end. Senders of webhooks that
    held leases do not exist, and the files that tombstones announce are not there.
    """
    for sql in (
        "DELETE FROM sessions",
        "DELETE FROM tombstones",
        "UPDATE webhook_deliveries SET lease_expires_at = NULL WHERE lease_expires_at IS NOT NULL",
    ):
        transaction.execute(sql, {})


def _require_known_migrations(connection: sqlite3.Connection) -> None:
    """Raise ValidationError if a database has migrations that this version has not."""
    applied = {name for (name,) in connection.execute(_MIGRATIONS)}
    if newer := applied - sqlite_migrations.keys():
        raise _invalid("a database of this version or an older one", f"migration {quote_value(min(newer))}")


def _current_schema() -> set[tuple[object, object]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection)
        return _schema(SqliteTransaction(connection))


def _schema(queryable: Queryable) -> set[tuple[object, object]]:
    # The table with the record belongs to no migration.
    return {(row["type"], row["name"]) for row in queryable.fetch_all(_SCHEMA, {}) if row["name"] != TABLE}


def _read_only(path: Path) -> str:
    # Nothing else has the file open, so it needs no locks and no write-ahead log.
    return f"{path.resolve().as_uri()}?mode=ro&immutable=1"


def _invalid(expected: str, received: str) -> ValidationError:
    return ValidationError(f"expected {expected} in the backup but received {received}")
