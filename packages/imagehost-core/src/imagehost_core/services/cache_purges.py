"""Cache purges: the images that a shared cache must remove, for the process that sends the requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from attrs import field, frozen

from imagehost_core.cache_purges import (
    MAX_DELAY,
    CachePurge,
    PurgeAttempt,
    PurgeRequest,
    build_purge_request,
    retry_delay,
)
from imagehost_core.db.engines.database import Transaction
from imagehost_core.db.repositories.cache_purges import count_waiting
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.environment import Environment
from imagehost_core.models import UrlBuilder
from imagehost_core.observer import CachePurgeAttempted
from imagehost_core.settings import Settings

LEASE_MARGIN = timedelta(seconds=30)
"""The time by which a lease outlasts the timeout of its attempt."""
MIN_RETENTION = timedelta(days=1)
"""The shortest time for which a purge is retried: a cache can keep images for longer than `s-maxage` says."""

log = logging.getLogger(__name__)


@frozen
class CachePurgeService:
    """Leases the requests by which a shared cache forgets images, until it has confirmed them."""

    _records: Repositories = field(repr=False)
    _urls: UrlBuilder = field(repr=False)
    _settings: Settings = field(repr=False)
    _env: Environment = field(repr=False)

    @property
    def is_enabled(self) -> bool:
        """Whether purges are recorded: whether `purge.url` is set."""
        return self._records.cache_purges.is_enabled

    def lease(self, count: int) -> tuple[CachePurge, ...]:
        """Lease up to `count` purges that are due to one sender, until it reports them."""
        now = self._env.clock()
        if not (self.is_enabled and self._records.cache_purges.is_any_due(now)):
            return ()
        duration = timedelta(seconds=self._settings.purge.timeout_seconds) + LEASE_MARGIN
        with self._records.database.transaction(blind=True) as transaction:
            return self._records.cache_purges.lease(transaction, now, duration, count)

    def request(self, purge: CachePurge) -> PurgeRequest:
        """Return the request that purges an image."""
        image_url = f"{self._urls.cdn_url}/{purge.image_id}"
        return build_purge_request(self._settings.purge, purge.image_id, image_url)

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` when this process has recorded purges, in the thread that made the change.

        Returns a function that ends the subscription.
        """
        return self._records.cache_purges.subscribe(callback)

    def next_attempt_at(self) -> datetime | None:
        """Return the time of the next attempt, or `None` if there is no purge."""
        at = self._records.cache_purges.next_attempt_at() if self.is_enabled else None
        now = self._env.clock()
        return at if at is None or at <= now + MAX_DELAY else now

    def longest_wait(self) -> timedelta:
        """Return how long an image has waited for the cache to confirm that it is removed; 0 if none does."""
        if not self.is_enabled:
            return timedelta(0)
        return count_waiting(self._records.database, self._env.clock())[1]

    def report(self, attempts: Iterable[PurgeAttempt]) -> None:
        """Record the results of leased purges.

        Args:
            attempts: The ended requests, at most one of each lease.
        """
        now = self._env.clock()
        ended = tuple(attempts)
        with self._records.database.transaction(blind=True) as transaction:
            for attempt in ended:
                self._record(transaction, attempt, now)
        for attempt in ended:
            given_up = self._is_given_up(attempt, now)
            self._env.observe(CachePurgeAttempted(attempt.failure is None, attempt.seconds, given_up))

    def _is_given_up(self, attempt: PurgeAttempt, now: datetime) -> bool:
        max_age = timedelta(seconds=self._settings.delivery.shared_max_age_seconds)
        return attempt.failure is not None and now - attempt.purge.requested_at > max(max_age, MIN_RETENTION)

    def _record(self, transaction: Transaction, attempt: PurgeAttempt, now: datetime) -> None:
        purge, attempts = attempt.purge, attempt.purge.attempts + 1
        if attempt.failure is None:
            self._records.cache_purges.complete(transaction, purge, now)
            return
        fields = f"image={purge.image_id} attempts={attempts} reason={attempt.failure}"
        if self._is_given_up(attempt, now):
            self._records.cache_purges.delete(transaction, purge)
            log.warning("cache purge given up: %s", fields)
        else:
            self._records.cache_purges.postpone(transaction, purge, now, retry_delay(attempts))
            log.warning("cache purge failed, will retry: %s", fields)
