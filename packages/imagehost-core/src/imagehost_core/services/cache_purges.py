"""Cache purges: the images that a shared cache must remove, for the process that sends the requests."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.cache_purges import CachePurge, PurgeRequest, build_purge_request, retry_delay
from imagehost_core.db import CachePurgeRepository, Database
from imagehost_core.resources import UrlBuilder
from imagehost_core.settings import PurgeSettings

LEASE_MARGIN = timedelta(seconds=30)
"""The time by which a lease outlasts the timeout of its attempt."""
MIN_RETENTION = timedelta(days=1)
"""The shortest time for which a purge is retried: a cache can keep images for longer than `s-maxage` says."""

log = logging.getLogger(__name__)


@frozen
class CachePurgeService:
    """The cache purges of a host."""

    _database: Database = field(repr=False)
    _purges: CachePurgeRepository = field(repr=False)
    _urls: UrlBuilder = field(repr=False)
    _settings: PurgeSettings = field(repr=False)
    _shared_max_age: timedelta = field(repr=False)
    _clock: Clock = field(repr=False)

    @property
    def is_enabled(self) -> bool:
        """Whether purges are recorded: whether `purge.url` is set."""
        return self._purges.is_enabled

    def lease(self, count: int) -> tuple[CachePurge, ...]:
        """Lease up to `count` purges that are due to one sender, until it reports them."""
        now = self._clock()
        if not (self.is_enabled and self._purges.is_any_due(now)):
            return ()
        expires_at = now + timedelta(seconds=self._settings.timeout_seconds) + LEASE_MARGIN
        with self._database.transaction() as transaction:
            return self._purges.lease(transaction, now, expires_at, count)

    def request(self, purge: CachePurge) -> PurgeRequest:
        """Return the request that purges an image."""
        image_url = f"{self._urls.cdn_url}/{purge.image_id}"
        return build_purge_request(self._settings, purge.image_id, image_url)

    def report(self, results: Iterable[tuple[CachePurge, str | None]]) -> None:
        """Record the results of leased purges.

        Args:
            results: Each purge with the reason of its failure, or `None` if the cache responded with 2xx.
        """
        now = self._clock()
        retention = max(self._shared_max_age, MIN_RETENTION)
        with self._database.transaction() as transaction:
            for purge, failure in results:
                attempts = purge.attempts + 1
                if failure is None:
                    self._purges.complete(transaction, purge, now)
                elif now - purge.requested_at > retention:
                    self._purges.delete(transaction, purge)
                    log.warning(
                        "cache purge given up: image=%s attempts=%d reason=%s",
                        purge.image_id,
                        attempts,
                        failure,
                    )
                else:
                    self._purges.postpone(transaction, purge, now + retry_delay(attempts))
                    log.warning(
                        "cache purge failed, will retry: image=%s attempts=%d reason=%s",
                        purge.image_id,
                        attempts,
                        failure,
                    )
