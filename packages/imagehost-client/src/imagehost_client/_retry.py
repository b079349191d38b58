"""Retry policy: pure functions that decide whether and when a request is retried.

A request is retried after a connection failure, after a response 429, 502, 503 or 504, and after a 409
with `Retry-After` (a request with the same idempotency key is still in progress). `Retry-After` is
honoured up to a minute; for a longer delay the error is raised at once. Without it the delay is
exponential with full jitter (Brooker, *Exponential Backoff And Jitter*, AWS Architecture Blog, 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum

from attrs import field, frozen, validators

Random = Callable[[], float]
"""A function that returns a number in the range [0, 1)."""


class FailureKind(Enum):
    """The class of a failure without a response."""

    NOT_SENT = "request not sent"
    """No connection was established: the host has not processed the request."""
    NO_TLS = "TLS failed"
    """The certificate is not trusted, or the port has no TLS: another attempt does not change that."""
    UNKNOWN = "outcome unknown"
    """The connection broke or timed out: the host may have processed the request."""


@frozen(kw_only=True)
class RetryPolicy:
    """The limits of retries.

    Attributes:
        max_retries: The maximum number of retries.
        base: The maximum of the first delay, in seconds.
        cap: The maximum of every delay without `Retry-After`, in seconds.
        max_retry_after: The longest `Retry-After` that is honoured, in seconds.
    """

    max_retries: int = field(default=3, validator=validators.ge(0))
    base: float = field(default=0.5, validator=validators.ge(0))
    cap: float = field(default=8.0, validator=validators.ge(0))
    max_retry_after: float = field(default=60.0, validator=validators.ge(0))


RETRIED_STATUSES = frozenset({429, 502, 503, 504})
NOT_PROCESSED_STATUSES = frozenset({429, 503})
"""Statuses of requests that the host has not processed, so that any request may be retried.

After a 503 of a database that is not known. Uploads have a key by which the host knows them again; a request
that creates a key, a session, a share or a webhook can leave one that nobody uses."""


def should_retry(cause: FailureKind | int, *, idempotent: bool, retry_after: float | None = None) -> bool:
    """Return whether a failed request may be retried.

    Args:
        cause: The kind of failure, or the status of the response.
        idempotent: Whether sending the request twice has the same effect as sending it once.
        retry_after: The delay that the response requests, in seconds.
    """
    if cause is FailureKind.NO_TLS:
        return False
    if isinstance(cause, FailureKind):
        return idempotent or cause is FailureKind.NOT_SENT
    if cause == 409:
        return idempotent and retry_after is not None
    return cause in NOT_PROCESSED_STATUSES or (idempotent and cause in RETRIED_STATUSES)


def may_be_processed(cause: FailureKind | int) -> bool:
    """Return whether the host may have processed a failed request, so that a retry repeats it.

    A 503 counts as such, because an error can follow the effect of a deletion.

    Args:
        cause: The kind of failure, or the status of the response.
    """
    return cause not in {FailureKind.NOT_SENT, FailureKind.NO_TLS, 429}


def retry_delay(
    policy: RetryPolicy, retry: int, *, retry_after: float | None, random: Random
) -> float | None:
    """Return the delay before a retry, in seconds, or `None` if the policy allows no retry.

    Args:
        policy: The limits.
        retry: The number of the retry, from 1.
        retry_after: The delay that the response requests, in seconds.
        random: The source of jitter.
    """
    if retry > policy.max_retries:
        return None
    if retry_after is None:
        return random() * min(policy.cap, policy.base * 2.0 ** min(retry - 1, 62))
    if retry_after > policy.max_retry_after:
        return None
    return retry_after + random() * policy.base


def parse_retry_after(headers: Mapping[str, str], status: int, now: datetime) -> float | None:
    """Return the delay that a response requests, in seconds, or `None`.

    `Retry-After` is a number of seconds or a date (RFC 9110, section 10.2.3). For a 429 without it,
    `X-RateLimit-Reset` is used, a Unix timestamp.

    Args:
        headers: The response's headers, names in lower case.
        status: The response's status.
        now: The current time.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        # A delay is finite, also where the number is too large for a float.
        return min(float(text), 1e308)
    retry_at = _parse_http_date(text) if text else None
    if retry_at is None and status == 429:
        retry_at = parse_timestamp(headers.get("x-ratelimit-reset", ""))
    return None if retry_at is None else max(0.0, (retry_at - now).total_seconds())


def parse_timestamp(text: str) -> datetime | None:
    """Return the time of a Unix timestamp, or `None` if `text` is not a valid one."""
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 12):
        return None
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _parse_http_date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # rarely needed, and slow to import

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
