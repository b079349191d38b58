"""Records that have expired: sessions, idempotency keys, and events with their deliveries."""

from __future__ import annotations

from datetime import timedelta

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import Database, IdempotencyRepository, OutboxRepository, SessionRepository
from imagehost_core.services.idempotency import RETENTION


@frozen
class ExpiredCounts:
    """Numbers of expired records.

    Attributes:
        sessions: Sessions past their lifetime.
        idempotency_keys: Idempotency keys past their retention of 24 hours.
        events: Events past their retention whose deliveries are all finished.
    """

    sessions: int
    idempotency_keys: int
    events: int


@frozen
class ExpiredRecords:
    """The expired records of a host. Its services ignore them, and delete them from time to time."""

    _database: Database = field(repr=False)
    _sessions: SessionRepository = field(repr=False)
    _idempotency: IdempotencyRepository = field(repr=False)
    _outbox: OutboxRepository = field(repr=False)
    _event_retention: timedelta = field(repr=False)
    _clock: Clock = field(repr=False)

    def count(self) -> ExpiredCounts:
        """Return the numbers of expired records."""
        now = self._clock()
        return ExpiredCounts(
            sessions=self._sessions.count_expired(now),
            idempotency_keys=self._idempotency.count_before(now - RETENTION),
            events=self._outbox.count_before(now - self._event_retention),
        )

    def delete(self) -> ExpiredCounts:
        """Delete the expired records, and return their numbers."""
        now = self._clock()
        with self._database.transaction() as transaction:
            return ExpiredCounts(
                sessions=self._sessions.delete_expired(transaction, now),
                idempotency_keys=self._idempotency.delete_before(transaction, now - RETENTION),
                events=self._outbox.delete_before(transaction, now - self._event_retention),
            )
