"""How many requests of one client are under way at a time, in this process.

Windows of requests do not see a client that begins many and lets none end. Connections without a request
cannot be seen here: `connection` bounds them all together and closes them by a deadline, and a proxy or
the system's own filter counts them by address (`docs/proxy.md`).
"""

from __future__ import annotations

from imagehost_core.errors import RateLimitError
from imagehost_core.limits.keys import address_key

RETRY_AFTER_SECONDS = 1
"""When to try again: most requests take less."""


class ConcurrencyLimiter:
    """The requests under way, by client address; used by one event loop.

    Args:
        limit: How many one address may have; 0 = no limit.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_progress: dict[str, int] = {}

    def acquire(self, address: str) -> str:
        """Count a request; return what `leave` wants when it is done.

        Args:
            address: The client's.

        Raises:
            RateLimitError: It has too many under way already.
        """
        bucket = address_key(address)
        under_way = self._in_progress.get(bucket, 0)
        if under_way >= self._limit > 0:
            raise RateLimitError(
                f"expected at most {self._limit} requests at a time from one address but received one more",
                retry_after=RETRY_AFTER_SECONDS,
            )
        self._in_progress[bucket] = under_way + 1
        return bucket

    def release(self, bucket: str) -> None:
        """Count a request no longer.

        Args:
            bucket: What `enter` returned.
        """
        left = self._in_progress.pop(bucket) - 1
        if left:
            self._in_progress[bucket] = left
