"""The database schema, as the migrations of both engines: one text, from which that of PostgreSQL is derived.

A released migration is never edited: a change of the schema is a new migration. Timestamps are whole
microseconds since 1970-01-01T00:00:00Z and booleans are 0 or 1. Ids of accounts and albums are never
reused (`AUTOINCREMENT`). Lists are sorted by a column, then the id, so their indexes have these columns after
those of the list; the columns behind them are those of filters, so that skipped items cost no row.

Counters (`image_count`, `public_image_count`, `album_count`, `used_bytes`, `key_count`, `delivery_count`, and
the table `counters`) are changed in the transaction that changes what they count;
`imagehost_core.maintenance.recount` compares them.
"""

from __future__ import annotations

import re

_INITIAL_SCHEMA = """
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    password_hash TEXT,
    signing_secret BLOB NOT NULL, -- of signed URLs: see imagehost_core.services.signed_urls
    role TEXT NOT NULL DEFAULT 'user',
    limits TEXT NOT NULL DEFAULT '{}',
    used_bytes INTEGER NOT NULL DEFAULT 0 CHECK (used_bytes >= 0),
    image_count INTEGER NOT NULL DEFAULT 0,
    public_image_count INTEGER NOT NULL DEFAULT 0,
    album_count INTEGER NOT NULL DEFAULT 0,
    key_count INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    suspended_at INTEGER
);
-- Names are ASCII, which both engines fold alike.
CREATE UNIQUE INDEX accounts_by_name ON accounts (lower(name));
CREATE INDEX accounts_by_created_at ON accounts (created_at, id);
CREATE INDEX accounts_by_role ON accounts (role, suspended_at);

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    token_hash TEXT NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;
CREATE INDEX api_keys_by_account ON api_keys (account_id, created_at, id);

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    token_hash TEXT NOT NULL UNIQUE,
    user_agent TEXT NOT NULL,
    ip_address TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_by_account ON sessions (account_id, created_at, id, expires_at);
CREATE INDEX sessions_by_expires_at ON sessions (expires_at);

CREATE TABLE albums (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    is_public INTEGER NOT NULL,
    image_count INTEGER NOT NULL DEFAULT 0,
    public_image_count INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX albums_by_account ON albums (account_id, created_at, id);

CREATE TABLE images (
    number INTEGER PRIMARY KEY, -- the rowid of the image in image_words, in the order of time
    id TEXT NOT NULL UNIQUE,
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
    derivatives TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX images_by_account ON images (account_id, created_at, id, is_public, format);
CREATE INDEX images_by_account_and_filename
    ON images (account_id, filename, id, is_public, format, created_at);
CREATE INDEX images_by_account_and_size ON images (account_id, size, id, is_public, format, created_at);
CREATE INDEX images_by_album ON images (album_id, created_at, id, is_public, format);
CREATE INDEX images_by_album_and_filename ON images (album_id, filename, id, is_public, format, created_at);
CREATE INDEX images_by_album_and_size ON images (album_id, size, id, is_public, format, created_at);
CREATE INDEX public_images_by_album ON images (album_id, created_at, id, is_public) WHERE is_public = 1;

-- The images that the gallery lists: see imagehost_core.db.lists.gallery.
CREATE TABLE gallery_images (
    created_at INTEGER NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (created_at, id)
) WITHOUT ROWID;

CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('gallery_images', 0), ('accounts', 0);

-- The words of file names and descriptions: see imagehost_core.db.lists.word_index.
CREATE IMAGE WORDS;

-- Deleted images whose files may still be on the disk.
CREATE TABLE tombstones (
    image_id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL,
    album_id INTEGER,
    deleted_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    key TEXT NOT NULL,
    request_fingerprint TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    response_status INTEGER,
    response_body BLOB,
    PRIMARY KEY (account_id, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_created_at ON idempotency_keys (created_at);

-- The records that a request has created, one row for each of its sub-operations.
CREATE TABLE idempotency_results (
    account_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    sub_operation INTEGER NOT NULL,
    result_id TEXT NOT NULL,
    PRIMARY KEY (account_id, key, sub_operation),
    FOREIGN KEY (account_id, key) REFERENCES idempotency_keys (account_id, key) ON DELETE CASCADE
) WITHOUT ROWID;

-- The events with a delivery: see imagehost_core.db.repositories.outbox.
CREATE TABLE events (
    number INTEGER PRIMARY KEY, -- shorter than the id in the rows and indexes of deliveries
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    body BLOB NOT NULL, -- compressed by zlib
    created_at INTEGER NOT NULL
);
CREATE INDEX events_by_created_at ON events (created_at);

CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    description TEXT NOT NULL,
    is_active INTEGER NOT NULL,
    disabled_reason TEXT,
    secret TEXT NOT NULL,
    previous_secret TEXT,
    previous_secret_expires_at INTEGER,
    delivery_count INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhooks_by_account ON webhooks (account_id, created_at, id);
CREATE INDEX webhooks_disabled ON webhooks (created_at DESC, id) WHERE disabled_reason IS NOT NULL;

CREATE TABLE webhook_deliveries (
    id TEXT PRIMARY KEY,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_number INTEGER NOT NULL REFERENCES events (number) ON DELETE CASCADE,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    lease_expires_at INTEGER,
    leased_by INTEGER,
    last_attempt_at INTEGER,
    last_status INTEGER,
    last_duration_ms INTEGER,
    last_response TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, created_at, id);
CREATE INDEX webhook_deliveries_by_event ON webhook_deliveries (event_number);
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (webhook_id, next_attempt_at, id)
    WHERE state = 'pending';
CREATE INDEX webhook_deliveries_leased ON webhook_deliveries (webhook_id, lease_expires_at)
    WHERE lease_expires_at IS NOT NULL;

CREATE TABLE cache_purges (
    image_id TEXT PRIMARY KEY,
    requested_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER NOT NULL,
    is_repetition INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX cache_purges_by_next_attempt_at ON cache_purges (next_attempt_at);

CREATE TABLE imports (
    account_id INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    source TEXT NOT NULL, -- see imagehost_core.maintenance.importers
    result_id TEXT NOT NULL,
    PRIMARY KEY (account_id, source)
) WITHOUT ROWID
"""
_SHARE_LINKS = """
CREATE TABLE album_shares (
    id TEXT PRIMARY KEY,
    album_id INTEGER NOT NULL REFERENCES albums (id) ON DELETE CASCADE,
    token_hash TEXT NOT NULL UNIQUE,
    password_hash TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) WITHOUT ROWID;
CREATE INDEX album_shares_by_album ON album_shares (album_id, created_at, id, expires_at)
"""
_PUBLIC_WORDS = """
UPDATE image_words SET
    filename = trim(image_words.filename
        || replace(' ' || image_words.filename, ' ' || images.account_id || 'x', ' 0x')),
    description = trim(image_words.description
        || replace(' ' || image_words.description, ' ' || images.account_id || 'x', ' 0x'))
FROM images WHERE images.number = image_words.rowid AND images.is_public = 1
"""
"""Adds the words of public images for searches of the gallery: see `imagehost_core.db.lists.word_index`."""
_FORMAT_INDEX = """
CREATE INDEX images_by_account_and_format ON images (account_id, format, created_at, id, is_public)
"""
_TAKEN_TIMES = """
ALTER TABLE images ADD COLUMN taken_ascending INTEGER NOT NULL DEFAULT 900000000000000000;
ALTER TABLE images ADD COLUMN taken_descending INTEGER NOT NULL DEFAULT -900000000000000000;
CREATE INDEX images_by_account_and_taken_ascending
    ON images (account_id, taken_ascending, id, is_public, format, created_at);
CREATE INDEX images_by_account_and_taken_descending
    ON images (account_id, taken_descending, id, is_public, format, created_at);
CREATE INDEX images_by_album_and_taken_ascending
    ON images (album_id, taken_ascending, id, is_public, format, created_at) WHERE album_id IS NOT NULL;
CREATE INDEX images_by_album_and_taken_descending
    ON images (album_id, taken_descending, id, is_public, format, created_at) WHERE album_id IS NOT NULL
"""
"""When photographs were taken. A column for each order, in which images without this time are the last."""
_UPLOADS = """
ALTER TABLE images ADD COLUMN upload_sha256 TEXT;
ALTER TABLE images ADD COLUMN upload_options TEXT;
CREATE INDEX images_by_upload ON images (account_id, upload_sha256, created_at, id)
    WHERE upload_sha256 IS NOT NULL
"""
"""The uploaded bytes and their options, by which an upload finds an image to reuse."""
_VISIBILITY_INDEX = """
CREATE INDEX images_by_account_and_visibility ON images (account_id, is_public, created_at, id, format)
"""
_LETTERS = {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
_HAMZA = {"آ": "ا", "أ": "ا", "إ": "ا", "ؤ": "و", "ئ": "ي", "ۀ": "ە", "ۂ": "ہ", "ۓ": "ے"}
_POINTS = (*range(0x591, 0x5BE), 0x5BF, 0x5C1, 0x5C2, 0x5C4, 0x5C5, 0x5C7, 0x640, *range(0x64B, 0x660), 0x670)
_FOLDED_CHARACTERS = {**_LETTERS, **_HAMZA, **dict.fromkeys(map(chr, _POINTS), "")}
"""The characters of words that searches ignore since `folded_words`: see `imagehost_core.lists`."""
_NESTED = 20
"""The replacements of one statement: SQLite cannot parse 100 functions in one another."""


def _folded(column: str, first: int) -> str:
    for old, new in tuple(_FOLDED_CHARACTERS.items())[first : first + _NESTED]:
        column = f"replace({column}, '{old}', '{new}')"
    return column


_FOLDED_WORDS = ";".join(
    f"UPDATE image_words SET filename = {_folded('filename', first)}, "  # noqa: S608 - constants only
    f"description = {_folded('description', first)} "
    "WHERE image_words.filename HAS UNFOLDED OR image_words.description HAS UNFOLDED"
    for first in range(0, len(_FOLDED_CHARACTERS), _NESTED)
)
_MIGRATIONS = {
    "initial_schema": _INITIAL_SCHEMA,
    "share_links": _SHARE_LINKS,
    "public_words": _PUBLIC_WORDS,
    "format_index": _FORMAT_INDEX,
    "taken_times": _TAKEN_TIMES,
    "folded_words": _FOLDED_WORDS,
    "uploads": _UPLOADS,
    "visibility_index": _VISIBILITY_INDEX,
}
"""The statements of each migration by its name, in the order in which they are applied."""

_RATE_LIMITS = """
CREATE UNLOGGED TABLE rate_limits (
    key TEXT PRIMARY KEY,
    counters JSONB NOT NULL, -- by limit: start in seconds and hits of the windows counted last, latest first
    last_day BIGINT NOT NULL -- since 1970
);
CREATE INDEX rate_limits_by_last_day ON rate_limits (last_day);
CREATE FUNCTION admit_request(request_key TEXT, cost BIGINT, windows JSONB, test_micros BIGINT)
RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE
    stored JSONB;
    counted JSONB := '{}';
    hits JSONB := '{}';
    is_admitted BOOLEAN := TRUE;
    was_set BOOLEAN := FALSE;
    now_micros BIGINT;
    now_seconds BIGINT;
    period JSONB;
    period_start BIGINT;
    key_start JSONB;
    earlier JSONB;
    last_start BIGINT;
    hit BIGINT;
BEGIN
    LOOP
        SELECT counters INTO stored FROM rate_limits WHERE key = request_key FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO rate_limits (key, counters, last_day) VALUES (request_key, '{}', 0)
        ON CONFLICT (key) DO NOTHING;
    END LOOP;
    -- Read while the row is locked: time does not run backwards from one count to the next.
    now_micros := coalesce(test_micros, CAST(1000000 * extract(epoch FROM clock_timestamp()) AS BIGINT));
    now_seconds := now_micros / 1000000;
    FOR period IN SELECT value FROM jsonb_array_elements(windows) LOOP
        period_start := now_seconds - now_seconds % CAST(period ->> 1 AS BIGINT);
        earlier := coalesce(stored -> (period ->> 0), '[]');
        last_start := earlier -> 0 ->> 0;
        key_start := jsonb_build_object('start', period_start);
        -- Without a count the window is new, or the clock was set back: as imagehost_core.limits.first_hits.
        hit := coalesce(
            CAST(jsonb_path_query_first(earlier, 'strict $[*] ? (@[0] == $start)[1]', key_start) AS BIGINT),
            CASE WHEN period_start < last_start THEN CAST(earlier -> 0 ->> 1 AS BIGINT) END, 0);
        was_set := was_set OR hit > 0 AND period_start <> last_start;
        earlier := jsonb_path_query_array(earlier, 'strict $[*] ? (@[0] != $start)', key_start);
        earlier := jsonb_path_query_array(earlier, '$[0 to 1]');
        hits := hits || jsonb_build_object(period ->> 0, hit);
        counted := counted || jsonb_build_object(
            period ->> 0, jsonb_build_array(jsonb_build_array(period_start, hit + cost)) || earlier);
        is_admitted := is_admitted AND hit + cost <= CAST(period ->> 2 AS BIGINT);
    END LOOP;
    IF is_admitted OR cost = 0 THEN
        UPDATE rate_limits SET counters = stored || counted, last_day = now_seconds / 86400
        WHERE key = request_key;
    ELSIF was_set THEN -- to a window that was used before, which becomes the last one
        PERFORM admit_request(request_key, 0, windows, now_micros);
    END IF;
    RETURN CAST(jsonb_build_object('now', now_micros, 'hits', hits) AS TEXT);
END $$
"""
_SECRETS = """
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BYTEA NOT NULL
)
"""
_MEMBERS = (
    # Rows are updated every second: free space in their pages keeps the index unchanged (HOT updates).
    """
    CREATE TABLE members (
        id TEXT PRIMARY KEY,
        host TEXT NOT NULL,
        acknowledged PG_SNAPSHOT NOT NULL,
        heartbeats BIGINT NOT NULL DEFAULT 0
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE invalidations (
        transaction_id XID8 NOT NULL DEFAULT pg_current_xact_id(),
        host TEXT NOT NULL,
        origin TEXT NOT NULL,
        keys TEXT NOT NULL
    )
    """,
    "CREATE INDEX invalidations_by_transaction ON invalidations (transaction_id)",
)
"""The tables of several hosts: see `imagehost_core.cluster.membership`."""
_POSTGRES_MIGRATIONS = {
    "members": _MEMBERS,
    "postgres_secrets": (_SECRETS,),
    "postgres_rate_limits": (_RATE_LIMITS,),
}
"""The statements of migrations that only PostgreSQL has: what is in files unless hosts share it."""

_SQLITE = {
    "CREATE IMAGE WORDS": """
        CREATE VIRTUAL TABLE image_words USING fts5 (filename, description, tokenize = 'ascii')
    """,
    "HAS UNFOLDED": f"GLOB '*[{''.join(_FOLDED_CHARACTERS)}]*'",
}
_POSTGRES = {
    "CREATE IMAGE WORDS": """
        CREATE TABLE image_words (
            rowid BIGINT PRIMARY KEY,
            filename TEXT NOT NULL,
            description TEXT NOT NULL,
            words tsvector NOT NULL GENERATED ALWAYS AS (
                array_to_tsvector(array_remove(string_to_array(filename || ' ' || description, ' '), ''))
            ) STORED
        );
        CREATE INDEX image_words_by_words ON image_words USING gin (words)
    """,
    "HAS UNFOLDED": f"~ '[{''.join(_FOLDED_CHARACTERS)}]'",
    "INTEGER PRIMARY KEY AUTOINCREMENT": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    "INTEGER PRIMARY KEY": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    "INTEGER": "BIGINT",
    # SQLite compares texts by their bytes.
    "TEXT": 'TEXT COLLATE "C"',
    "BLOB": "BYTEA",
    " WITHOUT ROWID": "",
}


def _statements(replacements: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the statements of each migration for an engine."""
    pattern = re.compile("|".join(rf"{re.escape(text)}\b" for text in replacements))
    return {
        name: tuple(
            pattern.sub(lambda match: replacements[match[0]], statement) for statement in script.split(";")
        )
        for name, script in _MIGRATIONS.items()
    }


postgres_migrations = _statements(_POSTGRES) | _POSTGRES_MIGRATIONS
"""The statements of each migration by its name."""
sqlite_migrations = _statements(_SQLITE)
"""Those of a SQLite file."""
