"""Cache purges in the database: recorded with the change, sent later, at least once.

A purge is leased by moving its next attempt behind the timeout of this one, so that the purges of a process
that dies are sent by another. In PostgreSQL the server's clock decides when they are due, as that of a host
may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial

from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.cache_purges import MAX_DELAY, REPEAT_AFTER, CachePurge
from imagehost_core.db.engines.database import (
    Database,
    Queryable,
    SqlRow,
    SqlValue,
    Transaction,
    integer,
    timestamp,
)
from imagehost_core.db.rows import to_record
from imagehost_core.ids import AccountId, ImageId

MAX_COUNTED = 10_000
"""The most purges that are looked at to count them, those with the earliest next attempt."""

_REPLACE = """
ON CONFLICT (image_id) DO UPDATE SET requested_at = excluded.requested_at, attempts = 0,
    next_attempt_at = excluded.next_attempt_at, is_repetition = 0
"""
_RECORD = f"""
INSERT INTO cache_purges (image_id, requested_at, next_attempt_at) VALUES (:image, :now, {{clock}}) {_REPLACE}
"""  # noqa: S608 - a constant
_RECORD_ACCOUNT = f"""
INSERT INTO cache_purges (image_id, requested_at, next_attempt_at)
SELECT id, :now, {{clock}} FROM images WHERE account_id = :account AND is_public = 1 {_REPLACE}
"""  # noqa: S608 - a constant
# A later change of an image replaces its row, which an earlier attempt then must not complete.
_POSTPONE = """
UPDATE cache_purges SET attempts = :attempts, next_attempt_at = {clock} + :delay
WHERE image_id = :image AND requested_at = :requested_at
"""
_REPEAT = """
UPDATE cache_purges SET is_repetition = 1, attempts = 0, next_attempt_at = {clock} + :delay
WHERE image_id = :image AND requested_at = :requested_at
"""
_IS_DUE = ("next_attempt_at <= {clock}", "next_attempt_at > {clock} + :max_delay")
"""The conditions of purges that are due: the time has come, or a clock that was ahead has set it. Each is a
range of the index, which SQLite would read as a whole for both in one query with an order."""
_IS_ANY_DUE = f"SELECT image_id FROM cache_purges WHERE {' OR '.join(_IS_DUE)} LIMIT 1"  # noqa: S608
_DUE = tuple(
    f"SELECT * FROM cache_purges AS item WHERE {is_due} ORDER BY next_attempt_at LIMIT :count {{lock}}"  # noqa: S608
    for is_due in _IS_DUE
)
_WAITING = f"""
SELECT count(*) AS waiting, coalesce(min(requested_at), :now) AS oldest FROM (
    SELECT requested_at, is_repetition FROM cache_purges ORDER BY next_attempt_at LIMIT {MAX_COUNTED}
) AS purges WHERE is_repetition = 0
"""  # noqa: S608 - a constant
_MAX_DELAY = MAX_DELAY // timedelta(microseconds=1)
_DELETE = "DELETE FROM cache_purges WHERE image_id = :image AND requested_at = :requested_at"


def count_waiting(database: Database, now: datetime) -> tuple[int, timedelta]:
    """Return how many images the cache has not confirmed to have removed, and the longest time of waiting.

    Only the first `MAX_COUNTED` are looked at. The time is 0 if there is none.
    """
    (row,) = database.fetch_all(_WAITING, {"now": to_micros(now)})
    return integer(row, "waiting"), now - timestamp(row, "oldest")


@frozen
class CachePurgeRepository:
    """The purges that a shared cache has not confirmed.

    Attributes:
        database: The database.
        is_enabled: Whether purges are recorded.
    """

    database: Database
    is_enabled: bool
    _callbacks: list[Callable[[], object]] = field(factory=list, repr=False)

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` when this process has recorded purges, once they are durable.

        Returns a function that ends the subscription.
        """
        self._callbacks.append(callback)
        return partial(self._callbacks.remove, callback)

    def record(self, transaction: Transaction, image_ids: Iterable[ImageId], now: datetime) -> None:
        """Record purges of images, due now."""
        if self.is_enabled:
            for image_id in image_ids:
                transaction.execute(_at(transaction, _RECORD), {"image": image_id, "now": to_micros(now)})
            transaction.on_commit(self._notify)

    def record_account(self, transaction: Transaction, account_id: AccountId, now: datetime) -> None:
        """Record purges of all public images of an account, due now."""
        if self.is_enabled:
            transaction.execute(
                _at(transaction, _RECORD_ACCOUNT),
                {"account": account_id, "now": to_micros(now)},
            )
            transaction.on_commit(self._notify)

    def is_any_due(self, now: datetime) -> bool:
        """Return whether a purge can be leased; does not wait for the write lock."""
        values: SqlRow = {"now": to_micros(now), "max_delay": _MAX_DELAY}
        return self.database.fetch_one(_at(self.database, _IS_ANY_DUE), values) is not None

    def next_attempt_at(self) -> datetime | None:
        """Return the time of the next attempt, or `None` if there is no purge."""
        sql = "SELECT next_attempt_at FROM cache_purges ORDER BY next_attempt_at LIMIT 1"
        row = self.database.fetch_one(sql, {})
        return None if row is None else timestamp(row, "next_attempt_at")

    def lease(
        self, transaction: Transaction, now: datetime, duration: timedelta, count: int
    ) -> tuple[CachePurge, ...]:
        """Lease up to `count` due purges; no other sender gets them until the lease expires."""
        values: SqlRow = {"now": to_micros(now), "max_delay": _MAX_DELAY}
        rows: list[SqlRow] = []
        for due in _DUE:
            rows += transaction.fetch_all(_at(transaction, due), {**values, "count": count - len(rows)})
        purges = tuple(to_record(CachePurge, row) for row in rows)
        for purge in purges:
            self.postpone(transaction, purge, now, duration)
        return purges

    def postpone(self, transaction: Transaction, purge: CachePurge, now: datetime, delay: timedelta) -> None:
        """Count an attempt, and set the time of the next."""
        transaction.execute(
            _at(transaction, _POSTPONE), {**_delayed(purge, now, delay), "attempts": purge.attempts + 1}
        )

    def complete(self, transaction: Transaction, purge: CachePurge, now: datetime) -> None:
        """Record a successful request: the first is repeated, the second ends the purge."""
        if purge.is_repetition:
            self.delete(transaction, purge)
            return
        transaction.execute(_at(transaction, _REPEAT), _delayed(purge, now, REPEAT_AFTER))

    def delete(self, transaction: Transaction, purge: CachePurge) -> None:
        """End a purge."""
        transaction.execute(_DELETE, _key(purge))

    def _notify(self) -> None:
        for callback in tuple(self._callbacks):
            callback()


def _at(queryable: Queryable, sql: str) -> str:
    """Return a statement with the clock that decides when purges are due."""
    return sql.format(clock=queryable.dialect.now, lock=queryable.dialect.skip_locked)


def _delayed(purge: CachePurge, now: datetime, delay: timedelta) -> dict[str, SqlValue]:
    return {**_key(purge), "now": to_micros(now), "delay": delay // timedelta(microseconds=1)}


def _key(purge: CachePurge) -> dict[str, SqlValue]:
    return {"image": purge.image_id, "requested_at": to_micros(purge.requested_at)}
