"""Hosts whose database has the schema of an older version, with the rows of today.

An older schema is the newest one after statements that undo the later migrations.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import psycopg
from attrs import field, frozen
from tests.hosts import Engines
from tests.postgres import PostgresServer

from imagehost_core.db.schema import postgres_migrations, sqlite_migrations

LIST_INDEXES = {
    "": "created_at, id, is_public, format",
    "_and_filename": "filename, id, is_public, format, created_at",
    "_and_size": "size, id, is_public, format, created_at",
}
"""The columns of the indexes of images before there were Bloom filters."""
UNDO = {
    "cache_purges": ("DROP TABLE cache_purges",),
    "imports": ("DROP TABLE imports",),
    "disabled_webhooks": ("DROP INDEX webhooks_disabled",),
    "bucket_versions": ("DROP TABLE bucket_versions",),
    "word_bits": (
        *(f"DROP INDEX images_by_{owner}{name}" for owner in ("account", "album") for name in LIST_INDEXES),
        "ALTER TABLE images DROP COLUMN word_bits",
        *(
            f"CREATE INDEX images_by_{owner}{name} ON images ({owner}_id, {columns})"
            for owner in ("account", "album")
            for name, columns in LIST_INDEXES.items()
        ),
    ),
    "members": ("DROP TABLE members", "DROP TABLE invalidations"),
    "postgres_secrets": ("DROP TABLE secrets",),
    "postgres_rate_limits": ("DROP TABLE rate_limits", "DROP FUNCTION admit_request"),
}
"""The statements that undo each migration but the first."""


def undo(names: Sequence[str]) -> list[str]:
    """Return the statements that undo migrations."""
    return [statement for name in reversed(names) for statement in UNDO[name]]


@frozen
class SqliteSchemas:
    """A host on SQLite in each version.

    Attributes:
        source: The data directory of the host.
        names: The names of all migrations; version n has the first n of them.
    """

    source: Path
    names: tuple[str, ...] = tuple(sqlite_migrations)

    @contextmanager
    def copy(self, version: int, data: Path) -> Iterator[Engines]:
        """Create a copy of the host in a version in `data`."""
        if version:
            shutil.copytree(self.source, data)
            later = self.names[version:]
            with closing(sqlite3.connect(data / "imagehost.sqlite3")) as database, database:
                for statement in undo(later):
                    database.execute(statement)
                database.executemany(
                    "DELETE FROM _sqlite_migrations WHERE name = ?", [(name,) for name in later]
                )
        try:
            yield Engines("sqlite", "folder")
        finally:
            shutil.rmtree(data, ignore_errors=True)

    def schema(self, _engines: Engines, data: Path) -> list[tuple[object, ...]]:
        """Return the statements of the schema and the names of the migrations."""
        sql = """
            SELECT type, name, sql FROM sqlite_master
            UNION SELECT 'migration', name, '' FROM _sqlite_migrations
        """
        with closing(sqlite3.connect(data / "imagehost.sqlite3")) as database:
            return sorted(database.execute(sql).fetchall(), key=repr)


@frozen
class PostgresSchemas:
    """A host on PostgreSQL, with images in its data directory, in each version.

    Attributes:
        source: The data directory of the host.
        server: The PostgreSQL server.
        database: The URL of its database.
        names: The names of all migrations; version n has the first n of them.
    """

    source: Path
    server: PostgresServer = field(repr=False)
    database: str
    names: tuple[str, ...] = tuple(postgres_migrations)
    _numbers: Iterator[int] = field(factory=count, repr=False)

    @contextmanager
    def copy(self, version: int, data: Path) -> Iterator[Engines]:
        """Create a copy of the database and of the data directory in a version."""
        if not version:
            with self.server.empty_database() as url:
                yield Engines(url, "folder")
            shutil.rmtree(data, ignore_errors=True)
            return
        shutil.copytree(self.source, data)
        name, source = f"schema_{next(self._numbers)}", self.database.rpartition("/")[2]
        self.server.execute(f"CREATE DATABASE {name} TEMPLATE {source}")
        try:
            for statement in undo(self.names[version:]):
                self.server.execute(statement, name)
            later = ", ".join(f"'{each}'" for each in (*self.names[version:], ""))
            self.server.execute(f"DELETE FROM migrations WHERE name IN ({later})", name)
            yield Engines(self.server.url_of(name), "folder")
        finally:
            self.server.execute(f"DROP DATABASE {name} WITH (FORCE)")
            shutil.rmtree(data)

    def schema(self, engines: Engines, _data: Path) -> list[tuple[object, ...]]:
        """Return the columns, indexes and functions of the database, and the names of the migrations."""
        sql = """
            SELECT table_name, column_name, data_type, column_default, is_nullable
            FROM information_schema.columns WHERE table_schema = 'public'
            UNION ALL SELECT tablename, indexname, indexdef, '', '' FROM pg_indexes
            WHERE schemaname = 'public'
            UNION ALL SELECT proname, prosrc, '', '', '' FROM pg_proc
            WHERE pronamespace = 'public'::regnamespace
            UNION ALL SELECT 'migration', name, '', '', '' FROM migrations
        """
        with psycopg.connect(engines.database) as connection:
            return sorted(connection.execute(sql.encode()).fetchall(), key=repr)
