"""The tables, as a list of migrations: what was released is never edited, only added to.

Times are whole microseconds since 1970 in UTC; booleans are 0 and 1. Ids of albums are never used
again (`AUTOINCREMENT`). Lists are sorted by (created_at, id), so each index ends with these two.
"""

from __future__ import annotations

from sqlite_utils import Database, Migrations

migrations = Migrations("imagehost")


@migrations()
def accounts_albums_images_keys(database: Database) -> None:
    """The first tables."""
    for statement in _FIRST.split(";"):
        database.execute(statement)


_FIRST = """
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    password_hash TEXT,
    created_at INTEGER NOT NULL,
    suspended_at INTEGER,
    used_bytes INTEGER NOT NULL DEFAULT 0 CHECK (used_bytes >= 0)
);
CREATE TABLE albums (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    is_public INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX albums_by_account ON albums (account_id, created_at, id);
CREATE TABLE images (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    album_id INTEGER REFERENCES albums (id) ON DELETE SET NULL,
    filename TEXT NOT NULL,
    original_filename TEXT NOT NULL,
    description TEXT NOT NULL,
    is_public INTEGER NOT NULL,
    format TEXT NOT NULL,
    size INTEGER NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    frames INTEGER NOT NULL,
    has_alpha INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    placeholder TEXT NOT NULL,
    rungs TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX images_by_account ON images (account_id, created_at, id);
CREATE INDEX images_by_album ON images (album_id, created_at, id);
CREATE INDEX images_in_gallery ON images (created_at, id) WHERE is_public = 1;
CREATE TABLE graves (
    image_id TEXT PRIMARY KEY,
    deleted_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    token_hash TEXT NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) WITHOUT ROWID;
CREATE INDEX keys_by_account ON keys (account_id, created_at, id)
"""
