"""Rows of long lists for both engines: images of one account, and of a hundred others, inserted by SQL.

Half of the account's images are in ten albums, and the others in the rest of its albums. All are public, and
a second apart. Their file names have a number, their descriptions words with known numbers of matches, and
their sizes do not depend on either.
"""

from __future__ import annotations

from imagehost_core import ImageHost
from imagehost_core.db.image_rows import last_number
from imagehost_core.maintenance.recount import repair_counters

LARGE_ALBUMS, OTHER_ACCOUNTS = 10, 100
FIRST_UPLOAD = 1_700_000_000_000_000
WORDS = {"rare": 10_000, "lake": 500, "garden": 200, "holiday": 50, "river": 10, "cat": 2}
"""Words of descriptions: one in so many images has each."""

_DESCRIPTION = " || ".join(
    f"CASE WHEN n % {step} = 0 THEN '{word} ' ELSE '' END" for word, step in WORDS.items()
)
_IMAGES = """
INSERT INTO images (number, id, account_id, album_id, filename, original_filename, description, is_public,
    format, size, width, height, frames, has_alpha, sha256, placeholder, derivatives, created_at, updated_at)
{series}
SELECT ({first} / 1000000 + n) * {in_second} + {distinct}, {image_id}, {account}, {album},
    'IMG_' || {number} || '.webp', 'IMG_' || {number} || '.jpg',
    rtrim({description}), 1, CASE WHEN n % 10 = 0 THEN 'png' ELSE 'webp' END,
    100000 + n * 7919 % 5000011, 4000, 3000, 1, 0, {sha256},
    '1QcSHQRnh493V4dIh4eXh1h4kJUI', '[]', {first} + n * 1000000, {first} + n * 1000000
FROM series
"""
_SERIES = """
WITH RECURSIVE series (n) AS (
    SELECT CAST(1 AS bigint) UNION ALL SELECT n + 1 FROM series WHERE n < {count}
)
"""
_SQLITE = {
    "image_id": "lower(hex(randomblob(8)))",
    "number": "printf('%08d', n)",
    "sha256": "printf('%064d', n)",
}
_POSTGRES = {
    "image_id": "replace(substr(CAST(gen_random_uuid() AS text), 1, 18), '-', '')",
    "number": "lpad(CAST(n AS text), 8, '0')",
    "sha256": "lpad(CAST(n AS text), 64, '0')",
}
_OTHER = f"(SELECT min(id) FROM accounts WHERE id > 1) + n % {OTHER_ACCOUNTS}"
# The tokens of imagehost_core.db.lists.word_index: each word with the number of its account in front, and
# once more with that of the gallery.
_FILENAME = "{0} || 'ximg ' || {0} || 'x' || substr(filename, 5, 8) || ' ' || {0} || 'xwebp'"
_WORDS = "{0} || 'x' || replace(description, ' ', ' ' || {0} || 'x')"
IMAGE_WORDS = f"""
SELECT number AS rowid, {_FILENAME.format("account_id")} || ' ' || {_FILENAME.format("0")} AS filename,
    CASE description WHEN '' THEN '' ELSE {_WORDS.format("account_id")} || ' ' || {_WORDS.format("0")} END
        AS description
FROM images
"""
"""The rows of `image_words`."""


def own_images(engine: str, count: int, albums: int) -> str:
    """Return the statement that inserts the images of account 1."""
    large = min(LARGE_ALBUMS, albums)
    rest = f"{large} + 1 + n % {albums - large}" if albums > large else f"1 + n % {large}"
    return _images(engine, count, "1", f"CASE n % 2 WHEN 0 THEN 1 + n / 2 % {large} ELSE {rest} END")


def other_images(engine: str, count: int) -> str:
    """Return the statement that inserts images of other accounts, in no album."""
    return _images(engine, count, _OTHER, "NULL")


def other_accounts() -> str:
    """Return the statement that inserts the other accounts."""
    series = _SERIES.format(count=OTHER_ACCOUNTS)
    columns = "name, signing_secret, created_at"
    return f"INSERT INTO accounts ({columns}) {series} SELECT 'user' || n, '', 0 FROM series"


def albums(count: int) -> str:
    """Return the statement that inserts the albums of account 1."""
    return f"""
        INSERT INTO albums (account_id, name, description, is_public, created_at, updated_at)
        {_SERIES.format(count=count)} SELECT 1, 'Album ' || n, '', 1, n * 1000000, n * 1000000 FROM series
    """


def _images(engine: str, count: int, account: str, album: str) -> str:
    return _IMAGES.format(
        **{"sqlite": _SQLITE, "postgres": _POSTGRES}[engine],
        account=account,
        album=album,
        description=_DESCRIPTION,
        first=FIRST_UPLOAD,
        in_second=last_number(0) + 1,
        distinct=int(album == "NULL"),
        series=_SERIES.format(count=count),
    )


def recount(host: ImageHost) -> None:
    """Set all counters to what they count, after rows were inserted by SQL."""
    database = host._context.records.database  # noqa: SLF001
    with database.without_time_limit(), database.transaction() as transaction:
        repair_counters(transaction)
