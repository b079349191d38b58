"""Migration of SQLite files by sqlite-utils.

It takes 11 MiB of memory, so a process imports it only to migrate a file. Under `imagehost serve` only the
first process migrates; the others find a file that has all migrations.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from imagehost_core.db.engines.installation import EXISTS_IN_SQLITE, SELECT
from imagehost_core.db.schema import sqlite_migrations
from imagehost_core.installation import parse_record, require_known_migrations

if TYPE_CHECKING:
    from sqlite_utils import Database

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


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the migrations that a database lacks, each in a transaction.

    Args:
        connection: A connection without an open transaction.
    """
    if applied_migrations(connection) >= sqlite_migrations.keys():
        return
    import sqlite_utils

    migrations = sqlite_utils.Migrations(_SET)
    for name, statements in sqlite_migrations.items():

        @migrations(name=name)
        def apply(database: Database, statements: tuple[str, ...] = statements) -> None:
            for statement in statements:
                database.execute(statement)

    migrations.apply(sqlite_utils.Database(connection))
