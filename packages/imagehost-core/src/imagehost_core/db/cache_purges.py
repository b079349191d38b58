"""Cache purges in the database: recorded with the change, sent later, at least once.

A purge is leased by moving its next attempt behind the timeout of this one, so that the purges of a process
that dies are sent by another.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.cache_purges import REPEAT_AFTER, CachePurge
from imagehost_core.db.columns import integer, text, timestamp
from imagehost_core.db.database import Database, SqlValue, Transaction
from imagehost_core.ids import AccountId, ImageId

_RECORD = """
INSERT OR REPLACE INTO cache_purges (image_id, requested_at, next_attempt_at) VALUES (:image, :now, :now)
"""
_RECORD_ACCOUNT = """
INSERT OR REPLACE INTO cache_purges (image_id, requested_at, next_attempt_at)
SELECT id, :now, :now FROM images WHERE account_id = :account AND is_public = 1
"""
# A later change of an image replaces its row, which an earlier attempt then must not complete.
_POSTPONE = """
UPDATE cache_purges SET attempts = :attempts, next_attempt_at = :next
WHERE image_id = :image AND requested_at = :requested_at
"""
_REPEAT = """
UPDATE cache_purges SET is_repetition = 1, attempts = 0, next_attempt_at = :next
WHERE image_id = :image AND requested_at = :requested_at
"""
_DELETE = "DELETE FROM cache_purges WHERE image_id = :image AND requested_at = :requested_at"


@frozen
class CachePurgeRepository:
    """The purges that a shared cache has not confirmed.

    Attributes:
        database: The database.
        is_enabled: Whether purges are recorded.
    """

    database: Database
    is_enabled: bool

    def record(self, transaction: Transaction, image_ids: Iterable[ImageId], now: datetime) -> None:
        """Record purges of images, due now."""
        if self.is_enabled:
            for image_id in image_ids:
                transaction.execute(_RECORD, {"image": image_id, "now": to_micros(now)})

    def record_account(self, transaction: Transaction, account_id: AccountId, now: datetime) -> None:
        """Record purges of all public images of an account, due now."""
        if self.is_enabled:
            transaction.execute(
                _RECORD_ACCOUNT,
                {"account": account_id, "now": to_micros(now)},
            )

    def is_any_due(self, now: datetime) -> bool:
        """Return whether a purge can be leased; does not wait for the write lock."""
        sql = "SELECT image_id FROM cache_purges WHERE next_attempt_at <= :now LIMIT 1"
        return self.database.fetch_one(sql, {"now": to_micros(now)}) is not None

    def lease(
        self, transaction: Transaction, now: datetime, lease_expires_at: datetime, count: int
    ) -> tuple[CachePurge, ...]:
        """Lease up to `count` due purges; no other sender gets them until the lease expires."""
        rows = transaction.fetch_all(
            "SELECT * FROM cache_purges WHERE next_attempt_at <= :now ORDER BY next_attempt_at LIMIT :count",
            {"now": to_micros(now), "count": count},
        )
        purges = tuple(
            CachePurge(
                ImageId(text(row, "image_id")),
                timestamp(row, "requested_at"),
                integer(row, "attempts"),
                bool(row["is_repetition"]),
            )
            for row in rows
        )
        for purge in purges:
            self.postpone(transaction, purge, lease_expires_at)
        return purges

    def postpone(self, transaction: Transaction, purge: CachePurge, next_attempt_at: datetime) -> None:
        """Count an attempt, and set the time of the next."""
        transaction.execute(
            _POSTPONE,
            {**_key(purge), "attempts": purge.attempts + 1, "next": to_micros(next_attempt_at)},
        )

    def complete(self, transaction: Transaction, purge: CachePurge, now: datetime) -> None:
        """Record a successful request: the first is repeated, the second ends the purge."""
        if purge.is_repetition:
            self.delete(transaction, purge)
            return
        transaction.execute(
            _REPEAT,
            {**_key(purge), "next": to_micros(now + REPEAT_AFTER)},
        )

    def delete(self, transaction: Transaction, purge: CachePurge) -> None:
        """End a purge."""
        transaction.execute(_DELETE, _key(purge))


def _key(purge: CachePurge) -> dict[str, SqlValue]:
    return {"image": purge.image_id, "requested_at": to_micros(purge.requested_at)}
