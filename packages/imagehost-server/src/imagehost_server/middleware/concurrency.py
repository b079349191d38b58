"""The limit of concurrent requests from one IP address."""

from __future__ import annotations

from imagehost_core.errors import RateLimitError
from imagehost_core.limits import ip_address_key

CONCURRENCY_RETRY_SECONDS = 1
"""`Retry-After` of a request beyond the limit of concurrent ones: most requests take less."""


class ConcurrencyLimiter:
    """The number of requests in progress, by client IP address; not thread-safe, for one event loop.

    Args:
        limit: Concurrent requests per IP address; 0 = unlimited.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_progress: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of IP addresses with a request in progress."""
        return len(self._in_progress)

    def acquire(self, ip_address: str) -> str:
        """Count a request, and return the key to `release` it with.

        Args:
            ip_address: The client's IP address; of IPv6, all addresses of one network share a limit.

        Raises:
            RateLimitError: The IP address has `limit` requests in progress.
        """
        key = ip_address_key(ip_address)
        in_progress = self._in_progress.get(key, 0)
        if in_progress >= self._limit > 0:
            expected = f"expected at most {self._limit} concurrent requests from one IP address"
            raise RateLimitError(f"{expected} but received one more", retry_after=CONCURRENCY_RETRY_SECONDS)
        self._in_progress[key] = in_progress + 1
        return key

    def release(self, key: str) -> None:
        """Stop counting a request.

        Args:
            key: The value that `acquire` returned.
        """
        remaining = self._in_progress.pop(key) - 1
        if remaining:
            self._in_progress[key] = remaining
