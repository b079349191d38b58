"""Rate limit windows, quotas and size limits as pure functions.

The functions decide; counting requests and bytes is left to the caller.

```python
>>> from datetime import UTC, datetime
>>> from imagehost_core.limits import MINUTE, Window, decide
>>> policy = (Window("api_per_minute", MINUTE, limit=60),)
>>> decision = decide(policy, {"api_per_minute": 59}, datetime(2026, 1, 1, tzinfo=UTC))
>>> decision.admitted, decision.remaining
(True, 0)

```
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Protocol

from attrs import field, frozen
from attrs.validators import ge

from imagehost_core._util.clock import to_micros
from imagehost_core.errors import (
    BadRequestError,
    InsufficientStorageError,
    PayloadTooLargeError,
    RateLimitError,
)
from imagehost_core.ids import AccountId

# Fixed-window rate limits, aligned to UTC minutes, hours and days.
#
# A rejected request does not count. These functions decide and store nothing; counters are the database's.
# They remember some windows of each limit, so that a clock which is set back, or forth and back, opens no
# window a second time.

MINUTE, HOUR, DAY = 60, 3_600, 86_400
FIRST_SIGN_IN_DELAY, MAX_SIGN_IN_DELAY = 0.25, 4.0
"""Seconds by which a sign-in attempt is delayed: each doubles the delay, up to the longest."""


@frozen
class Window:
    """A limit of requests per time window.

    Attributes:
        name: The limit's name, such as `api_per_minute`.
        seconds: The window's length; windows begin at whole multiples of it since 1970 in UTC.
        limit: The number of admitted requests; 0 means unlimited.
        unit: What the window counts, in the plural.
    """

    name: str
    seconds: int = field(validator=ge(1))
    limit: int = field(validator=ge(0))
    unit: str = "requests"

    def start(self, now: datetime) -> int:
        """Return the start of the current window, as a Unix timestamp."""
        timestamp = _timestamp(now)
        return timestamp - timestamp % self.seconds

    def reset(self, now: datetime) -> int:
        """Return the start of the next window, as a Unix timestamp."""
        return self.start(now) + self.seconds


def _timestamp(time: datetime) -> int:
    """Return a time as a Unix timestamp, rounded down."""
    return to_micros(time) // 1_000_000


RateLimitPolicy = tuple[Window, ...]
"""All windows that apply to a request."""


@frozen
class Decision:
    """The outcome of a rate limit check, with the values of the rate limit headers.

    Attributes:
        admitted: Whether the request is admitted; only then it counts.
        window: The most restrictive window; `None` if the request is unlimited.
        limit: The limit of that window.
        remaining: The requests left in that window after this one.
        reset: The end of that window, as a Unix timestamp.
        cost: The number of requests that this one counts as.
    """

    admitted: bool
    window: Window | None = None
    limit: int = 0
    remaining: int = 0
    reset: int = 0
    cost: int = 1

    def raise_if_refused(self, now: datetime, account: str | None = None) -> None:
        """Raise RateLimitError unless the request is admitted.

        Args:
            now: The current time.
            account: The name of the account that the request counts for, or `None`.

        Raises:
            RateLimitError: It is not; the details say how an operator raises the limit.
        """
        if self.admitted or self.window is None:
            return
        name = self.window.name
        received = "one more" if self.cost == 1 else f"{self.cost} more when {self.remaining} were left"
        raise RateLimitError(
            f"expected at most {self.limit} {self.window.unit} for {name} but received {received}; "
            f"{_how_to_raise(name, self.limit, account)}",
            retry_after=max(1, self.reset - _timestamp(now)),
        )


def _how_to_raise(name: str, limit: int, account: str | None) -> str:
    setting = f"the setting IMAGEHOST_LIMITS_{name.upper()}"
    if account is None:
        return f"an operator raises the limit with {setting}"
    command = raise_limit_command(account, name, limit)
    return f"an operator raises the limit of this account with `{command}`, and that of all with {setting}"


def raise_limit_command(account: str, name: str, limit: int, data: str = "DIR") -> str:
    """Return the command that raises a limit of an account tenfold.

    Args:
        account: The account's name.
        name: The limit, such as `uploads_per_minute`.
        limit: Its current value, in requests per window.
        data: The data directory, quoted for a shell.
    """
    return f"imagehost users update {account} --limit {name}={10 * limit} --data {data}"


def first_hits(start: int, last_start: int, last_hits: int) -> int:
    """Return the hits that a window begins with, of which none are remembered.

    After a step of the clock backwards the window may have been in use before, so it goes on with the hits of
    the last one, until it ends.

    Args:
        start: The start of the window, as a Unix timestamp.
        last_start: The start of the window that was used last, of the same limit.
        last_hits: The hits of that window.
    """
    return last_hits if start < last_start else 0


def sign_in_delay(attempts: int, limit: int) -> float:
    """Return the seconds by which the check of a password is delayed.

    The attempts of all clients slow an account's next ones and refuse none, so that its owner gets in.

    Args:
        attempts: The attempts to sign in to the account in this minute, with this one.
        limit: Those that are not delayed.
    """
    beyond = attempts - limit
    if beyond <= 0:
        return 0.0
    return min(MAX_SIGN_IN_DELAY, FIRST_SIGN_IN_DELAY * 2.0 ** min(beyond - 1, 10))


class RateLimitCounters(Protocol):
    """The request counts of rate limit windows, of one host or of several."""

    def admit(self, key: str, policy: RateLimitPolicy, cost: int = 1) -> Decision:
        """Decide on a request, and count it if it is admitted. A rejected request does not count.

        Args:
            key: What is limited, such as an account or an IP address.
            policy: The windows that apply.
            cost: The number of requests that it counts as; all of them are admitted, or none.

        Raises:
            InsufficientStorageError: There is no space for a new key.
            UnavailableError: The database that counts does not respond.
        """

    def try_admit(self, key: str, policy: RateLimitPolicy, cost: int = 1) -> Decision | None:
        """Decide on a request as `admit` does, but without waiting.

        Returns:
            The decision; `None`, and nothing is counted, if it would have to wait.
        """

    def refund(self, key: str, policy: RateLimitPolicy) -> None:
        """Count one request less that was admitted, if the current windows have any.

        Args:
            key: As for `admit`.
            policy: The windows that have counted the request.

        Raises:
            UnavailableError: The database that counts does not respond.
        """

    def peek(self, key: str, policy: RateLimitPolicy) -> dict[str, int]:
        """Return the number of requests that each current window has admitted, by window name."""


def decide(policy: RateLimitPolicy, hits: Mapping[str, int], now: datetime, cost: int = 1) -> Decision:
    """Return whether one more request is admitted.

    Args:
        policy: The windows that apply to the request.
        hits: The number of requests already admitted in each window, by its name; 0 if missing.
        now: The current time.
        cost: The number of requests that it counts as, at least 1; all of them are admitted, or none.
    """
    timestamp, tightest, left, reset = _timestamp(now), None, 0, 0
    for window in policy:
        if window.limit:
            remaining = max(0, window.limit - hits.get(window.name, 0))
            end = timestamp - timestamp % window.seconds + window.seconds
            # The most restrictive window has the fewest requests left; of equals, it ends last.
            if tightest is None or remaining < left or (remaining == left and end > reset):
                tightest, left, reset = window, remaining, end
    if tightest is None:
        return Decision(admitted=True)
    return Decision(
        admitted=left >= cost,
        window=tightest,
        limit=tightest.limit,
        remaining=left - cost if left >= cost else left,
        reset=reset,
        cost=cost,
    )


MAX_ACCOUNT_NAME = 64
"""The longest account name, in characters (`imagehost_core.services.references`)."""
_IPV6_PREFIX = 64
"""An IPv6 subscriber has a network of this prefix length (RFC 6177), so its IP addresses count as one
client."""


def account_key(account_id: AccountId) -> str:
    """Return the rate limit key of an account."""
    return f"account:{account_id}"


def ip_address_key(ip_address: str) -> str:
    """Return the rate limit key of a client IP address.

    Args:
        ip_address: The text of the address. An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) is the IPv4
            client; other text, such as that of a Unix socket, shares one key.
    """
    return f"address:{_client(ip_address)}"


def sign_in_keys(name: str, ip_address: str) -> tuple[str, str]:
    """Return the rate limit keys of a sign-in attempt: of the account and of the client IP address.

    Args:
        name: The received account name; names that are too long share one key.
        ip_address: The client IP address.
    """
    # Names that differ in their case only are one account's.
    valid_name = name.lower() if len(name) <= MAX_ACCOUNT_NAME else ""
    return f"sign-in:account:{valid_name}", f"sign-in:address:{_client(ip_address)}"


@lru_cache(10_000)
def _client(ip_address: str) -> str:
    try:
        parsed = ipaddress.ip_address(ip_address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))


MAX_FILE_BYTES = 52_428_800
"""The largest accepted file: 50 MiB, inclusive."""
MAX_FILES_PER_REQUEST = 20


def require_file_size(name: str, size: int, limit: int = MAX_FILE_BYTES) -> None:
    """Raise PayloadTooLargeError if a file exceeds the size limit.

    Args:
        name: The file's name in the error.
        size: The file's size, in bytes.
        limit: The largest accepted size, in bytes.

    Raises:
        PayloadTooLargeError: The file is larger; the details state the limit and the file's size.
    """
    if size > limit:
        raise PayloadTooLargeError.of(name, f"at most {limit} bytes", f"{size} bytes")


def require_file_count(count: int, limit: int = MAX_FILES_PER_REQUEST) -> None:
    """Raise BadRequestError unless a request has from 1 to `limit` files."""
    if not 1 <= count <= limit:
        raise BadRequestError.of("the form", f"1 to {limit} files", f"{count}")


def require_quota(used: int, more: int, quota: int, received: int | None = None) -> None:
    """Raise InsufficientStorageError if an upload would exceed the account's quota.

    Args:
        used: Bytes of the account's masters, including reservations.
        more: Bytes to be added.
        quota: The account's quota, in bytes; 0 means unlimited.
        received: The size of the uploaded file, while that of its master is not known.

    Raises:
        InsufficientStorageError: The sum exceeds the quota.
    """
    if quota and used + more > quota:
        expected = f"at most {max(0, quota - used)} bytes more"
        size = f"{more if received is None else received} bytes"
        raise InsufficientStorageError.of("the account's quota", expected, size)


def may_take(held: int, free: int, share: int = 1) -> bool:
    """Return whether one that holds places may take another: nobody holds more than what others leave free.

    So one holds at most half of all places, two hold a third each, and the next one always finds a place,
    however long the others keep theirs (a dynamic threshold, Choudhury and Hahne, 1998).

    Args:
        held: The places that it holds.
        free: The places that nobody holds.
        share: It holds at most one in this number of the free places, instead of as many.
    """
    return share * held < free
