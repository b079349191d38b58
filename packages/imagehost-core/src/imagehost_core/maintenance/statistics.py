"""Statistics of a database: sums and ages for monitoring, none of which reads more than short lists."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.engines.database import Database, integer
from imagehost_core.db.repositories.cache_purges import count_waiting
from imagehost_core.db.repositories.webhooks import IS_SENDING, WITH_PENDING

MAX_COUNTED_DELIVERIES = 10_000
"""The most due deliveries of one webhook that are counted: about a millisecond."""

_TOTALS = """
SELECT
    count(*) AS accounts, coalesce(sum(image_count), 0) AS images, coalesce(sum(album_count), 0) AS albums,
    coalesce(sum(used_bytes), 0) AS master_bytes, (SELECT count(*) FROM tombstones) AS tombstones
FROM accounts
"""
_DUE_DELIVERIES = f"""
WITH RECURSIVE {WITH_PENDING}, queues AS (
    SELECT
        (SELECT count(*) FROM (
            SELECT 1 FROM webhook_deliveries
            WHERE webhook_id = pending.webhook_id AND state = 'pending' AND next_attempt_at <= :now
            LIMIT {MAX_COUNTED_DELIVERIES}
        ) AS counted) AS due,
        (SELECT next_attempt_at FROM webhook_deliveries
            WHERE webhook_id = pending.webhook_id AND state = 'pending' AND next_attempt_at <= :now
            ORDER BY next_attempt_at LIMIT 1) AS oldest
    FROM pending WHERE pending.webhook_id IS NOT NULL AND {IS_SENDING}
)
SELECT coalesce(sum(due), 0) AS due, coalesce(min(oldest), :now) AS oldest FROM queues
"""  # noqa: S608 - constants only


@frozen
class DatabaseStatistics:
    """Totals of a database.

    Attributes:
        accounts: The number of accounts.
        images: The number of images.
        albums: The number of albums.
        master_bytes: The bytes of all masters.
        unfinished_deletions: Deleted images whose files are not known to be removed.
        due_deliveries: Webhook deliveries whose next attempt is due, at most `MAX_COUNTED_DELIVERIES` of each
            webhook.
        oldest_due_seconds: How long the one that is due for the longest time has been due; 0 if none is.
        pending_purges: Images that the shared cache has not confirmed to have removed, among
            10,000.
        oldest_purge_seconds: How long the one that waits for the longest time has waited; 0 if none does.
        database_bytes: The size of the database file and of its write-ahead log.
    """

    accounts: int
    images: int
    albums: int
    master_bytes: int
    unfinished_deletions: int
    due_deliveries: int
    oldest_due_seconds: float
    pending_purges: int
    oldest_purge_seconds: float
    database_bytes: int


def read_statistics(database: Database, now: datetime) -> DatabaseStatistics:
    """Return the statistics of a database."""
    (totals,) = database.fetch_all(_TOTALS, {})
    (deliveries,) = database.fetch_all(_DUE_DELIVERIES, {"now": to_micros(now)})
    pending_purges, oldest_purge = count_waiting(database, now)
    return DatabaseStatistics(
        accounts=integer(totals, "accounts"),
        images=integer(totals, "images"),
        albums=integer(totals, "albums"),
        master_bytes=integer(totals, "master_bytes"),
        unfinished_deletions=integer(totals, "tombstones"),
        due_deliveries=integer(deliveries, "due"),
        oldest_due_seconds=(to_micros(now) - integer(deliveries, "oldest")) / 1_000_000,
        pending_purges=pending_purges,
        oldest_purge_seconds=oldest_purge.total_seconds(),
        database_bytes=database.size_bytes,
    )
