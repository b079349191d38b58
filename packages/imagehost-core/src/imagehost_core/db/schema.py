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


@migrations()
def access_and_events(database: Database) -> None:
    """Limits of accounts, sessions, answers to be given again, events and where they go."""
    for statement in _SECOND.split(";"):
        database.execute(statement)


@migrations()
def deliveries_by_destination(database: Database) -> None:
    """What is due is asked of each destination by itself: a long queue of one slows down no other."""
    for statement in _THIRD.split(";"):
        database.execute(statement)


@migrations()
def seats_of_senders(database: Database) -> None:
    """Who has a lease, so that what a sender that died had taken is given back at once."""
    database.execute("ALTER TABLE deliveries ADD COLUMN leased_by INTEGER")


@migrations()
def graves_of_accounts_and_albums(database: Database) -> None:
    """Whose image a grave is, and of which album: who deletes these waits for its bytes to go."""
    database.execute("ALTER TABLE graves ADD COLUMN account_id INTEGER")
    database.execute("ALTER TABLE graves ADD COLUMN album_id INTEGER")


@migrations()
def gallery_from_its_index_alone(database: Database) -> None:
    """All that a page of the gallery asks of pictures which are not shown on it."""
    database.execute("DROP INDEX images_in_gallery")
    database.execute(
        "CREATE INDEX images_in_gallery ON images (created_at, id, account_id, is_public) WHERE is_public = 1"
    )


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

_SECOND = """
ALTER TABLE accounts ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
CREATE TABLE sessions (
    token_hash TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_by_account ON sessions (account_id);
CREATE TABLE answers (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    key TEXT NOT NULL,
    request TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    status INTEGER,
    body BLOB,
    PRIMARY KEY (account_id, key)
) WITHOUT ROWID;
CREATE INDEX answers_by_age ON answers (created_at);
CREATE TABLE effects (
    account_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    part INTEGER NOT NULL,
    made TEXT NOT NULL,
    PRIMARY KEY (account_id, key, part),
    FOREIGN KEY (account_id, key) REFERENCES answers (account_id, key) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE events (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    type TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX events_by_age ON events (created_at);
CREATE INDEX events_by_account ON events (account_id);
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    description TEXT NOT NULL,
    is_active INTEGER NOT NULL,
    disabled_reason TEXT,
    secret TEXT NOT NULL,
    old_secret TEXT,
    old_secret_until INTEGER,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhooks_by_account ON webhooks (account_id, created_at, id);
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_id TEXT NOT NULL REFERENCES events (id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER,
    leased_until INTEGER,
    created_at INTEGER NOT NULL,
    last_attempt_at INTEGER,
    last_status INTEGER,
    last_duration_ms INTEGER,
    last_answer TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, created_at, id);
CREATE INDEX deliveries_by_event ON deliveries (event_id);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE state = 'pending'
"""

_THIRD = """
DROP INDEX deliveries_due;
CREATE INDEX deliveries_due ON deliveries (webhook_id, due_at, id) WHERE state = 'pending';
CREATE INDEX deliveries_leased ON deliveries (webhook_id, leased_until) WHERE leased_until IS NOT NULL
"""
