"""Migration of SQLite files by sqlite-utils.

It takes 11 MiB of memory, so a process imports it only to migrate a file. Under `imagehost serve` only the
first process migrates; the others find a file that has all migrations.
"""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from imagehost_core.db.engines.installation import EXISTS_IN_SQLITE, SELECT
from imagehost_core.db.schema import sqlite_migrations
from imagehost_core.installation import parse_record, require_known_migrations
from imagehost_core.storage.durable import OWNER_ONLY_FILE, sync_directory, sync_file

if TYPE_CHECKING:
    from sqlite_utils import Database

log = logging.getLogger(__name__)

_SET = "imagehost"
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '_sqlite_migrations'"
_APPLIED = "SELECT name FROM _sqlite_migrations WHERE migration_set = ?"


def applied_migrations(connection: sqlite3.Connection) -> set[str]:
    """Return the names of the migrations that a database has, those of newer versions too."""
    if connection.execute(_HAS_TABLE).fetchone() is None:
        return set()
    return {name for (name,) in connection.execute(_APPLIED, (_SET,))}


def require_known_schema(connection: sqlite3.Connection, name: object) -> None:
    """Raise ConflictError if a database is of a version that is not supported."""
    record = None
    if connection.execute(EXISTS_IN_SQLITE).fetchone() is not None:
        row = connection.execute(SELECT).fetchone()
        record = None if row is None else parse_record(row[0], name)
    require_known_migrations(applied_migrations(connection), sqlite_migrations.keys(), record, name)


def migrate(connection: sqlite3.Connection, path: Path | None = None) -> None:
    """Apply the migrations that a database lacks, all or none; keep a copy of a database that has some.

    Args:
        connection: A connection without an open transaction.
        path: The file of the database. The copy is beside it and replaces that of an earlier attempt;
            without a file there is none.

    Raises:
        InsufficientStorageError: The disk has no space for the copy.
    """
    applied = applied_migrations(connection)
    missing = [name for name in sqlite_migrations if name not in applied]
    if not missing:
        return
    if applied and path is not None:
        _copy_before(connection, path, missing[0])
    import sqlite_utils

    migrations = sqlite_utils.Migrations(_SET)
    for name, statements in sqlite_migrations.items():

        @migrations(name=name)
        def apply(database: Database, statements: tuple[str, ...] = statements) -> None:
            for statement in statements:
                database.execute(statement)

    database = sqlite_utils.Database(connection)
    with database.atomic():
        migrations.apply(database)


def _copy_before(connection: sqlite3.Connection, path: Path, migration: str) -> None:
    copy = path.with_name(f"{path.name}.before-{migration}")
    partial = copy.with_name(f"{copy.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(OWNER_ONLY_FILE)
    connection.execute("VACUUM INTO ?", [str(partial)])
    sync_file(partial)
    partial.replace(copy)
    sync_directory(copy.parent)
    log.warning("database is migrated: path=%s copy=%s", path, copy)
