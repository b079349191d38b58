"""How much a caller may do: windows of requests, sizes of uploads, quotas.

Contract 9: *fixed windows aligned to UTC minutes, hours and days*; a request that is refused does
not count. Everything here decides and keeps nothing: counting is the catalog's.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import field, frozen
from attrs.validators import ge

from imagehost_core._util.clock import to_micros
from imagehost_core.errors import (
    BadRequestError,
    FieldError,
    InsufficientStorageError,
    PayloadTooLargeError,
    RateLimitError,
)

MAX_FILE_BYTES = 52_428_800
"""50 MB; a file of exactly that size is accepted (contract 2)."""
MAX_FILES_PER_REQUEST = 20
"""Contract 4."""

MINUTE, HOUR, DAY = 60, 3_600, 86_400


@frozen
class Window:
    """A limit on one kind of request.

    Attributes:
        name: What is counted and how long: `api_per_minute`.
        seconds: The window's length; windows begin at whole multiples of it since 1970 in UTC.
        limit: How many requests it admits; 0 = none, that is, no limit.
    """

    name: str
    seconds: int = field(validator=ge(1))
    limit: int = field(validator=ge(0))

    def start(self, now: datetime) -> int:
        """Return when the window that holds `now` began, as a Unix timestamp."""
        moment = _timestamp(now)
        return moment - moment % self.seconds

    def reset(self, now: datetime) -> int:
        """Return when the next window begins, as a Unix timestamp."""
        return self.start(now) + self.seconds


def _timestamp(moment: datetime) -> int:
    """Return the whole seconds since 1970-01-01T00:00:00Z, exactly; never ahead of the moment."""
    return to_micros(moment) // 1_000_000


RateLimitPolicy = tuple[Window, ...]
"""All windows that a request falls into."""


@frozen
class Decision:
    """Whether a request is admitted, and what the rate limit headers say.

    Attributes:
        admitted: Whether it may go on; only then does it count.
        window: The window that will refuse first, or has refused; `None` without any limit.
        limit: That window's limit.
        remaining: Requests left in it, after this one.
        reset: When it ends, as a Unix timestamp.
    """

    admitted: bool
    window: Window | None = None
    limit: int = 0
    remaining: int = 0
    reset: int = 0

    def raise_if_refused(self, now: datetime) -> None:
        """Let an admitted request pass.

        Raises:
            RateLimitError: It is not admitted.
        """
        if self.admitted or self.window is None:
            return
        raise RateLimitError(
            f"expected at most {self.limit} requests for {self.window.name} but received one more",
            retry_after=max(1, self.reset - _timestamp(now)),
        )


def decide(policy: RateLimitPolicy, hits: Mapping[str, int], now: datetime) -> Decision:
    """Return whether one more request is admitted.

    Args:
        policy: The windows that it falls into.
        hits: How many requests each window has already admitted, by the window's name; a name
            that is missing stands for 0.
        now: The present moment.
    """
    limited = [window for window in policy if window.limit]
    if not limited:
        return Decision(admitted=True)
    moment = _timestamp(now)
    states = [
        (
            max(0, window.limit - hits.get(window.name, 0)),
            -(moment - moment % window.seconds + window.seconds),
        )
        for window in limited
    ]
    # The one that refuses first has the least room; of equals, the one that stays shut longest.
    room, ends = min(states)
    tightest = limited[states.index((room, ends))]
    return Decision(
        admitted=room > 0,
        window=tightest,
        limit=tightest.limit,
        remaining=max(0, room - 1),
        reset=-ends,
    )


def require_file_size(name: str, size: int, limit: int = MAX_FILE_BYTES) -> None:
    """Let a file of that size pass.

    Args:
        name: How to call it in the error.
        size: Its bytes, all of them.
        limit: The most bytes that are accepted.

    Raises:
        PayloadTooLargeError: It is larger. SPEC 7: *the details text states the maximum size and
            the size of the submitted file*.
    """
    if size > limit:
        raise PayloadTooLargeError(errors=[FieldError(name, f"at most {limit} bytes", f"{size} bytes")])


def require_file_count(count: int, limit: int = MAX_FILES_PER_REQUEST) -> None:
    """Let a request with that many files pass.

    Raises:
        BadRequestError: It has none, or more than `limit`.
    """
    if not 1 <= count <= limit:
        raise BadRequestError(errors=[FieldError("the form", f"1 to {limit} files", f"{count}")])


def require_quota(used: int, more: int, quota: int) -> None:
    """Let a write of `more` bytes pass.

    Args:
        used: Bytes of masters that the account has, with those reserved.
        more: Bytes to be added.
        quota: The most that it may have; 0 = no limit.

    Raises:
        InsufficientStorageError: They would not fit.
    """
    if quota and used + more > quota:
        expected = f"at most {max(0, quota - used)} bytes more"
        raise InsufficientStorageError(errors=[FieldError("the account's quota", expected, f"{more} bytes")])
