"""The cache of image records that are read one by one."""

from __future__ import annotations

from imagehost_core.db import Database
from imagehost_core.ids import AccountId, ImageId
from imagehost_core.models import Image
from imagehost_core.services.read_cache import ReadCache

RECORDS_IN_MEMORY = 2_000
"""Images in memory that were read one by one, per process; most of them also as rows of the database."""

RecordCache = ReadCache[tuple[ImageId, AccountId | None], Image]
"""Images by id and by the account that must own them."""


def record_cache(database: Database) -> RecordCache:
    """Return an empty cache of images."""
    return ReadCache(database, RECORDS_IN_MEMORY, lambda _: 1)
