"""When a call is tried again, and after how long: pure functions over what came of a try.

A try is repeated when the connection failed, or the answer was 429, 502, 503 or 504, or a 409 that
names a time (the same idempotency key is still at work). What the host names as waiting time is
obeyed up to a minute; where it names more, the error is raised at once, for nobody expects a call to
sleep for an hour. Else the wait is drawn evenly between nothing and a bound that doubles with each
try ("full jitter": Brooker, *Exponential Backoff And Jitter*, AWS Architecture Blog, 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from math import isfinite

from attrs import field, frozen, validators

Random = Callable[[], float]
"""A function that returns a number from 0 up to, but without, 1."""


class FailureKind(Enum):
    """Why no answer came."""

    NOT_SENT = "unreached"
    """There was no connection: the request cannot have been seen."""
    UNKNOWN = "broken"
    """The connection broke, or time ran out: the request may have been seen."""


@frozen(kw_only=True)
class RetryPolicy:
    """How patient a client is.

    Attributes:
        max_retries: Tries after the first.
        base: Seconds that bound the first wait.
        cap: Seconds that bound every wait that the host does not name.
        longest: Seconds of a named wait that are still obeyed.
    """

    max_retries: int = field(default=3, validator=validators.ge(0))
    base: float = field(default=0.5, validator=validators.ge(0))
    cap: float = field(default=8.0, validator=validators.ge(0))
    max_retry_after: float = field(default=60.0, validator=validators.ge(0))


RETRIED_STATUSES = frozenset({429, 502, 503, 504})
NOT_PROCESSED_STATUSES = frozenset({429, 503})
"""Answers which say that the request was not acted on, so that any request may be repeated."""


def should_retry(cause: FailureKind | int, *, repeatable: bool, retry_after: float | None = None) -> bool:
    """Say whether another try may help, and can do no harm.

    Args:
        cause: Why no answer came, or the answer's status.
        repeatable: Whether sending the request twice is the same as sending it once.
        retry_after: The waiting time that the answer names, in seconds.
    """
    if isinstance(cause, FailureKind):
        return repeatable or cause is FailureKind.NOT_SENT
    if cause == 409:
        return repeatable and retry_after is not None
    return cause in NOT_PROCESSED_STATUSES or (repeatable and cause in RETRIED_STATUSES)


def retry_delay(
    policy: RetryPolicy, retry: int, *, retry_after: float | None, random: Random
) -> float | None:
    """Return the seconds to wait before a retry, or `None` when the error is to be raised.

    Args:
        policy: The bounds.
        retry: Which retry this would be, from 1.
        retry_after: The waiting time that the host names, in seconds.
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
    """Return the seconds that an answer asks its caller to wait, or `None`.

    `Retry-After` is a number of seconds or a date (RFC 9110, section 10.2.3). A 429 without it is
    read by its `X-RateLimit-Reset`, a Unix timestamp.

    Args:
        headers: The answer's headers, names in lower case.
        status: The answer's status.
        now: The present time.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return _bounded(text)
    moment = _http_date(text) if text else None
    if moment is None and status == 429:
        moment = timestamp(headers.get("x-ratelimit-reset", ""))
    return None if moment is None else max(0.0, (moment - now).total_seconds())


def timestamp(text: str) -> datetime | None:
    """Return the time of a Unix timestamp, or `None` where `text` is not one that a calendar has."""
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 12):
        return None
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _bounded(digits: str) -> float:
    seconds = float(digits)
    return seconds if isfinite(seconds) else 1e308


def _http_date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # rarely needed, and slow to import

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
