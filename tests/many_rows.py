"""Rows by the hundred thousand in every table whose rows grow in number, for the plans of statements.

Account 1 has 100,000 images, all in album 1 and a hundred of each time, and 20,000 are of other accounts. It
has five sixths of the keys, sessions and so on too, and one webhook as many of the deliveries, half of them
pending. Both engines take the statements.
"""

from __future__ import annotations

ROWS = 100_000
WEBHOOK = "large-webhook-id"
"""The webhook with the deliveries."""

_OWNER = "CASE WHEN n % 6 = 0 THEN 2 + n % 99 ELSE 1 END"
_TOKENS = "{0} || 'ximg ' || {0} || 'x' || number"


def _insert(table: str, count: int, **columns: str) -> str:
    """Return the statement that inserts rows, given expressions of the numbers `n` from 1 for columns."""
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) "
        f"WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {count}) "
        f"SELECT {', '.join(columns.values())} FROM series"
    )


STATEMENTS = (
    _insert(
        "accounts",
        ROWS,
        name="'user' || n",
        signing_secret="''",
        created_at="n",
        image_count=str(ROWS),
        album_count="100",
    ),
    _insert(
        "albums",
        1_000,
        account_id="CASE WHEN n % 10 = 0 THEN 2 + n % 99 ELSE 1 END",
        name="'album'",
        description="''",
        is_public="1",
        image_count=str(ROWS),
        created_at="n",
        updated_at="n",
    ),
    _insert(
        "images",
        ROWS + ROWS // 5,
        number="n",
        id="'i' || n",
        account_id=_OWNER,
        album_id="CASE WHEN n % 6 = 0 THEN NULL ELSE 1 END",
        filename="'f' || n % 999",
        original_filename="'f'",
        description="'cat'",
        is_public="n % 2",
        format="CASE n % 3 WHEN 0 THEN 'png' ELSE 'gif' END",
        size="n % 777",
        **dict.fromkeys(("width", "height", "frames"), "1"),
        has_alpha="0",
        **dict.fromkeys(("sha256", "placeholder"), "''"),
        derivatives="'[]'",
        **dict.fromkeys(("created_at", "updated_at"), "n / 100"),
    ),
    "INSERT INTO image_words (rowid, filename, description) "
    "SELECT number, account_id || 'xf' || number, account_id || 'xcat 0xcat' FROM images",
    "INSERT INTO gallery_images (created_at, id) SELECT created_at, id FROM images WHERE is_public = 1",
    _insert(
        "tombstones",
        ROWS,
        image_id="'t' || n",
        account_id=_OWNER,
        album_id="1",
        deleted_at="n",
    ),
    _insert(
        "api_keys",
        ROWS,
        id="'k' || n",
        account_id=_OWNER,
        name="''",
        prefix="''",
        token_hash="'h' || n",
        scopes="''",
        created_at="n",
    ),
    _insert(
        "sessions",
        ROWS,
        id="'s' || n",
        account_id=_OWNER,
        token_hash="'h' || n",
        user_agent="''",
        ip_address="''",
        created_at="n",
        expires_at="n + 4000000000000000",
        last_used_at="n",
    ),
    _insert(
        "album_shares",
        ROWS,
        id="'a' || n",
        album_id="1 + n % 1000",
        token_hash="'h' || n",
        created_at="n",
    ),
    _insert(
        "idempotency_keys",
        ROWS,
        account_id=_OWNER,
        key="'k' || n",
        request_fingerprint="''",
        created_at="n + 4000000000000000",
    ),
    _insert("imports", ROWS, account_id=_OWNER, source="'s' || n", result_id="''"),
    _insert(
        "cache_purges",
        ROWS,
        image_id="'i' || n",
        requested_at="n",
        next_attempt_at="n + 4000000000000000",
    ),
    _insert(
        "webhooks",
        1_000,
        id=f"CASE n WHEN 1 THEN '{WEBHOOK}' ELSE 'w' || n END",
        account_id="1 + n % 99",
        url="''",
        events="''",
        description="''",
        is_active="1",
        secret="''",
        created_at="n",
    ),
    _insert(
        "events",
        ROWS,
        number="n",
        id="'e' || n",
        type="''",
        body="''",
        created_at="n + 4000000000000000",
    ),
    _insert(
        "webhook_deliveries",
        ROWS,
        id="'d' || n",
        webhook_id=f"CASE WHEN n % 6 = 0 THEN 'w' || (2 + n % 999) ELSE '{WEBHOOK}' END",
        event_number="n",
        state="CASE n % 2 WHEN 0 THEN 'delivered' ELSE 'pending' END",
        next_attempt_at="CASE n % 2 WHEN 0 THEN NULL ELSE n + 4000000000000000 END",
        created_at="n",
    ),
)
"""The statements, for an empty database, in this order."""
