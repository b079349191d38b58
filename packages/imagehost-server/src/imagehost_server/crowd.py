"""How many requests of one client are under way at a time, in this process.

Windows of requests do not see a client that begins many and lets none end. Connections without a request
cannot be seen here: the HTTP server closes them by a deadline, and a proxy or the system's own filter
counts them by address (`docs/proxy.md`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from imagehost_core.buckets import address_bucket
from imagehost_core.errors import RateLimitError

RETRY_SECONDS = 1
"""When to try again: most requests take less."""


class Crowd:
    """The requests under way, by client address; used by one event loop.

    Args:
        limit: How many one address may have; 0 = no limit.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def enter(self, address: str) -> Iterator[None]:
        """Count a request as long as the block lasts.

        Args:
            address: The client's.

        Raises:
            RateLimitError: It has too many under way already.
        """
        if not self._limit:
            yield
            return
        bucket = address_bucket(address)
        if self._under_way[bucket] >= self._limit:
            raise RateLimitError(
                f"expected at most {self._limit} requests at a time from one address but received one more",
                retry_after=RETRY_SECONDS,
            )
        self._under_way[bucket] += 1
        try:
            yield
        finally:
            self._under_way[bucket] -= 1
            if not self._under_way[bucket]:
                del self._under_way[bucket]
